package tollgate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

func TestWorkerRunsTasksInOrderAndDrains(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(context.Background())
	pool := real(t).Pool(name(t))
	must(pool.Enqueue(ctx,
		QueuedTask{Device: "d", Task: "a", Payload: []byte("1")},
		QueuedTask{Device: "d", Task: "b", Payload: []byte("2")},
	))(t)
	var ran []string
	worker := pool.Worker("d", func(ctx context.Context, permit *Permit) ([]byte, error) {
		ran = append(ran, fmt.Sprint(permit.Task(), string(permit.Payload()), permit.Attempt()))
		switch permit.Task() {
		case "a":
			if permit.Attempt() == 1 {
				return nil, errors.New("try again")
			}
		case "b":
			stop() // The running task is finished all the same.
			equal(t, "context of the handler", ctx.Err(), nil)
		}
		return []byte("done"), nil
	})
	worker.PollInterval = 10 * time.Millisecond
	var verdicts []CompleteVerdict
	worker.OnDone = func(_ *Permit, verdict CompleteVerdict, err error) {
		equal(t, "error", err, nil)
		verdicts = append(verdicts, verdict)
	}
	equal(t, "done", worker.Run(ctx), 3)
	if !slices.Equal(ran, []string{"a11", "a12", "b21"}) {
		t.Errorf("tasks ran as %v", ran)
	}
	if !slices.Equal(verdicts, []CompleteVerdict{CompleteCompleted, CompleteCompleted, CompleteCompleted}) {
		t.Errorf("verdicts are %v", verdicts)
	}
	equal(t, "in use", must(pool.Status(context.Background()))(t).Usage.InUse, 0)
}

func TestWorkerReportsErrorsAndGoesOn(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(context.Background())
	server := newFake(t, leases(time.Hour, func(n int, _ proto.Message) (proto.Message, error) {
		switch n {
		case 1:
			return nil, failure(codes.Internal, 0)
		case 2:
			return &pb.AdmitTaskResponse{Decision: pb.AdmitDecision_ADMIT_DECISION_PAUSED, RetryAfter: optional(time.Millisecond)}, nil
		}
		return nil, nil
	}))
	client, _ := server.client(t)
	worker := client.Pool("p").Worker("d", func(context.Context, *Permit) ([]byte, error) {
		stop()
		return nil, nil
	})
	errs := 0
	worker.OnError = func(error) { errs++ }
	equal(t, "done", worker.Run(ctx), 1)
	equal(t, "errors", errs, 1)
}

func TestHandlerOfALostPermitEnds(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(context.Background())
	server := newFake(t, leases(time.Hour, func(_ int, request proto.Message) (proto.Message, error) {
		if _, renewal := request.(*pb.RenewTaskRequest); renewal {
			return &pb.RenewTaskResponse{Verdict: pb.RenewVerdict_RENEW_VERDICT_EXPIRED}, nil
		}
		return nil, nil
	}))
	client, clock := server.client(t)
	worker := client.Pool("p").Worker("d", func(ctx context.Context, _ *Permit) ([]byte, error) {
		clock.Advance(30 * time.Minute)
		<-ctx.Done()
		stop()
		return nil, context.Cause(ctx)
	})
	equal(t, "done", worker.Run(ctx), 1)
	report := server.request(server.count()).(*pb.CompleteTaskRequest)
	equal(t, "outcome", report.GetOutcome(), pb.Outcome_OUTCOME_FAILED)
}
