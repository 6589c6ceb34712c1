package tollgate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

func TestFurtherCallsWaitUnlessTheyKeepOrEndALease(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	answer := make(chan struct{})
	server := newFake(t, leases(time.Hour, func(_ int, request proto.Message) (proto.Message, error) {
		if _, admits := request.(*pb.AdmitTaskRequest); admits {
			<-answer
		}
		return nil, nil
	}))
	client, _ := server.client(t)
	const calls = 2 * callsInFlight
	ended := make(chan error, calls)
	for i := range calls {
		go func() {
			_, err := client.Pool("p").Admit(ctx, fmt.Sprint("d", i), "t", WithoutKeeper())
			ended <- err
		}()
	}
	eventually(t, "the first calls are sent", func() bool { return server.count() == callsInFlight })

	task := TaskRef{Pool: "p", Device: "d", Task: "t"}
	_, err := client.Renew(ctx, RenewItem{TaskRef: task})
	must(client.Complete(ctx, CompleteItem{TaskRef: task}))(t)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "requests", server.count(), callsInFlight+2)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := client.Pool("p").Status(cancelled); err == nil {
		t.Error("a cancelled call succeeds")
	}

	close(answer)
	for range calls {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "requests", server.count(), calls+2)
}
