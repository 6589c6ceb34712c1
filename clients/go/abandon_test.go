package tollgate

import (
	"context"
	"errors"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

func TestCancelledAcquireReleasesTheLockOfItsOwnOwner(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 2)
	server := newFake(t, func(_ int, request proto.Message) (proto.Message, error) {
		if _, release := request.(*pb.ReleaseLockRequest); release {
			return &pb.ReleaseLockResponse{}, nil
		}
		asked <- struct{}{}
		return nil, nil // Never answered.
	})
	client, _ := server.client(t)
	acquire := func(owner string) {
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			<-asked
			cancel()
		}()
		if _, err := client.Lock("l", owner).Acquire(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v", err)
		}
	}
	// Another caller may use a given owner: its lock stays.
	acquire("given")
	acquire("")
	eventually(t, "the release", func() bool { return server.count() == 3 })
	release := server.request(3).(*pb.ReleaseLockRequest)
	equal(t, "owner", release.GetOwner(), server.request(2).(*pb.AcquireLockRequest).GetOwner())
	equal(t, "is an owner of its own", release.GetOwner() != "" && release.GetOwner() != "given", true)
}

func TestSingleValuesOfABlock(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		block  Values
		values []Value
	}{
		"without a layout": {
			Values{First: 5, Last: 9, Step: 2}, []Value{{5, ""}, {7, ""}, {9, ""}},
		},
		"regular": {
			Values{First: 1, Last: 3, Step: 1, Serials: []string{"B-1", "B-2", "B-3"}},
			[]Value{{1, "B-1"}, {2, "B-2"}, {3, "B-3"}},
		},
		"over the end of a period": {
			Values{First: 20261231_9, Last: 20270101_1, Step: 1, Serials: []string{"20261231-9", "20270101-0", "20270101-1"}},
			[]Value{{20261231_9, "20261231-9"}, {20270101_0, "20270101-0"}, {20270101_1, "20270101-1"}},
		},
		"with other digits in the layout": {
			Values{First: 20261231_9, Last: 20270101_1, Step: 1, Serials: []string{"A7-202612319", "A7-202701010", "A7-202701011"}},
			[]Value{{20261231_9, "A7-202612319"}, {20270101_1, "A7-202701011"}},
		},
	} {
		values, err := test.block.list(3)
		if err != nil || !slices.Equal(values, test.values) {
			t.Errorf("%s: %v, %v", name, values, err)
		}
	}
	if _, err := (Values{First: 2, Last: 1, Step: 1}).list(3); err == nil {
		t.Error("values that fall are accepted")
	}
}
