package tollgate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

func TestTextThatIsNotUTF8IsABadField(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := real(t)
	pool := client.Pool(name(t))
	_, admit := pool.Admit(ctx, "\xff", "t")
	_, enqueue := pool.Enqueue(ctx, QueuedTask{Device: "d", Task: "t"}, QueuedTask{Device: "d", Task: "\xff"})
	_, check := client.Policy("three").Check(ctx, "\xff")
	for field, err := range map[string]error{"device_id": admit, "tasks[1].task_id": enqueue, "key": check} {
		var failure *Error
		if !errors.As(err, &failure) || len(failure.Violations) == 0 {
			t.Fatalf("%s: the error is %v", field, err)
		}
		equal(t, "code", failure.Code, codes.InvalidArgument)
		equal(t, "field", failure.Violations[0].Field, field)
	}
}

func TestAnItemThatIsNotUTF8DoesNotFailTheOthers(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	results := real(t).AdmitMany(ctx, []AdmitItem{
		{Pool: name(t), Device: "\xff", Task: "t"}, {Pool: name(t), Device: "d", Task: "t"},
	})
	equal(t, "field", results[0].Err.Violations[0].Field, "requests[0].device_id")
	if results[1].Err != nil {
		t.Fatal(results[1].Err)
	}
	results[1].Admission.Permit.Close(ctx)
}

func TestALeaseOfNegativeLengthIsLost(t *testing.T) {
	t.Parallel()
	server := newFake(t, leases(time.Hour, func(n int, request proto.Message) (proto.Message, error) {
		switch request.(type) {
		case *pb.AdmitTaskRequest:
			return admission(-time.Second), nil
		default:
			return nil, nil
		}
	}))
	client, _ := server.client(t)
	permit := admitted(t, client.Pool("p"), "d", "t")
	<-permit.Lost()
	equal(t, "lost", errors.Is(permit.Err(), ErrLost), true)
}

func TestWorkerEndsWhenTheClientIsClosed(t *testing.T) {
	t.Parallel()
	server := newFake(t, func(int, proto.Message) (proto.Message, error) {
		return &pb.AdmitTaskResponse{Decision: pb.AdmitDecision_ADMIT_DECISION_NO_TASK}, nil
	})
	client, _ := server.client(t)
	worker := client.Pool("p").Worker("d", func(context.Context, *Permit) ([]byte, error) { return nil, nil })
	worker.PollInterval = time.Millisecond
	ended := make(chan int)
	go func() { ended <- worker.Run(context.Background()) }()
	for server.count() == 0 {
		time.Sleep(time.Millisecond)
	}
	_ = client.Close()
	equal(t, "tasks", <-ended, 0)
}

func TestAnUnknownAnswerIsAnError(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := newFake(t, func(_ int, request proto.Message) (proto.Message, error) {
		switch request.(type) {
		case *pb.AdmitTaskRequest: // ADMITTED without a lease.
			return &pb.AdmitTaskResponse{Decision: pb.AdmitDecision_ADMIT_DECISION_ADMITTED}, nil
		case *pb.AdmitTasksRequest:
			answer := &pb.AdmitTaskResponse{Decision: 99}
			result := &pb.AdmitTaskResult{Result: &pb.AdmitTaskResult_Response{Response: answer}}
			return &pb.AdmitTasksResponse{Results: []*pb.AdmitTaskResult{result}}, nil
		case *pb.AcquireLockRequest:
			return &pb.AcquireLockResponse{Outcome: 99}, nil
		}
		return &pb.ReserveStockResponse{Outcome: 99}, nil
	})
	client, _ := server.client(t)
	_, admit := client.Pool("p").Admit(ctx, "d", "t")
	_, wait := client.Lock("l", "").Acquire(ctx, WithWait(time.Minute))
	_, reserve := client.Stock("s").Reserve(ctx, "o", 1, ReserveOptions{})
	item := client.AdmitMany(ctx, []AdmitItem{{Pool: "p", Device: "d", Task: "t"}})[0].Err
	for text, err := range map[string]error{
		"AdmitDecision 1,": admit, "AcquireLockOutcome 99": wait, "ReserveOutcome 99": reserve, "AdmitDecision 99": item,
	} {
		var failure *Error
		if !errors.As(err, &failure) || failure.Code != codes.Internal || failure.Reason != "ANSWER_UNKNOWN" {
			t.Fatalf("%s: the error is %v", text, err)
		}
		if !strings.Contains(failure.Message, text) {
			t.Errorf("the message is %q, expected %q", failure.Message, text)
		}
	}
}
