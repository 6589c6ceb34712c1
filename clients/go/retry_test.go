package tollgate

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

func TestWhichErrorsAreRepeated(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		err    error
		repeat bool
	}{
		{"UNAVAILABLE", failure(codes.Unavailable, 0), true},
		{"UNAVAILABLE with RetryInfo", failure(codes.Unavailable, time.Millisecond), true},
		{"DEADLINE_EXCEEDED", failure(codes.DeadlineExceeded, 0), true},
		{"RESOURCE_EXHAUSTED with RetryInfo", failure(codes.ResourceExhausted, time.Millisecond), true},
		{"RESOURCE_EXHAUSTED", failure(codes.ResourceExhausted, 0), false},
		{"INVALID_ARGUMENT", failure(codes.InvalidArgument, 0), false},
		{"INTERNAL", failure(codes.Internal, 0), false},
		{"UNAUTHENTICATED", failure(codes.Unauthenticated, 0), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := newFake(t, func(n int, _ proto.Message) (proto.Message, error) {
				if n == 1 {
					return nil, test.err
				}
				return &pb.GetPoolResponse{Pool: &pb.Pool{Pool: "p"}}, nil
			})
			client, _ := server.client(t)
			_, err := client.Pool("p").Status(context.Background())
			equal(t, "success", err == nil, test.repeat)
			requests := 1
			if test.repeat {
				requests = 2
			}
			equal(t, "requests", server.count(), requests)
		})
	}
}

func TestSetStockIsNeverRepeated(t *testing.T) {
	t.Parallel()
	server := newFake(t, func(int, proto.Message) (proto.Message, error) {
		return nil, failure(codes.Unavailable, time.Millisecond)
	})
	client, _ := server.client(t)
	_, err := client.Stock("tv").Set(context.Background(), 5)
	var failed *Error
	if !errors.As(err, &failed) || failed.Code != codes.Unavailable || failed.RetryAfter != time.Millisecond {
		t.Errorf("error is %v", err)
	}
	equal(t, "requests", server.count(), 1)
}

func TestRequestIDStaysOverRepeats(t *testing.T) {
	t.Parallel()
	server := newFake(t, func(n int, request proto.Message) (proto.Message, error) {
		if n%2 == 1 {
			return nil, failure(codes.Unavailable, 0)
		}
		switch request.(type) {
		case *pb.CheckRateRequest:
			return &pb.CheckRateResponse{Allowed: true, Verdict: pb.RateVerdict_RATE_VERDICT_ALLOW}, nil
		case *pb.NextSequenceRequest:
			return &pb.NextSequenceResponse{First: 1, Last: 1, Step: 1}, nil
		}
		return &pb.AddStockResponse{}, nil
	})
	client, _ := server.client(t)
	ctx := context.Background()
	for range 2 {
		must(client.Policy("x").Check(ctx, "k"))(t)
		must(client.Policy("x").Check(ctx, "k", WithRequestID("")))(t)
		must(client.Sequence("s").Next(ctx, NextOptions{}))(t)
		must(client.Stock("tv").Add(ctx, 1, ""))(t)
	}
	seen := map[string]int{}
	for n := 1; n <= server.count(); n++ {
		seen[server.request(n).(interface{ GetRequestId() string }).GetRequestId()]++
	}
	equal(t, "ids", len(seen), 8)
	for id, times := range seen {
		if id == "" || times != 2 {
			t.Errorf("id %q was sent %d times", id, times)
		}
	}
}

func TestBudgetEndsRepeats(t *testing.T) {
	t.Parallel()
	server := newFake(t, func(int, proto.Message) (proto.Message, error) {
		return nil, failure(codes.Unavailable, 0)
	})
	client, _ := server.client(t)
	for client.budget.spend() {
		// Nothing is left in reserve.
	}
	for range 20 {
		if _, err := client.Pool("p").Status(context.Background()); err == nil {
			t.Fatal("no error")
		}
	}
	// 20 calls earn 4 repeats.
	if n := server.count(); n < 23 || n > 24 {
		t.Errorf("20 calls made %d requests", n)
	}
}

func TestAttemptEndsAtItsDeadlineAndIsRepeated(t *testing.T) {
	t.Parallel()
	server := newFake(t, func(n int, _ proto.Message) (proto.Message, error) {
		if n == 1 {
			return nil, nil // Never answered.
		}
		return &pb.GetPoolResponse{Pool: &pb.Pool{Pool: "p"}}, nil
	})
	config := testConfig(server.address)
	config.Deadline = 2 * time.Second
	client := newClient(t, config)
	must(client.Pool("p").Status(context.Background()))(t)
	equal(t, "requests", server.count(), 2)
}

func TestRepeatsEndWithRetryFor(t *testing.T) {
	t.Parallel()
	server := newFake(t, func(int, proto.Message) (proto.Message, error) {
		return nil, failure(codes.Unavailable, time.Hour)
	})
	client, _ := server.client(t)
	_, err := client.Pool("p").Status(context.Background())
	var failed *Error
	if !errors.As(err, &failed) || failed.RetryAfter != time.Hour {
		t.Errorf("error is %v", err)
	}
	equal(t, "requests", server.count(), 1)
}

func TestContextOfTheCallerEndsACall(t *testing.T) {
	t.Parallel()
	called := make(chan struct{}, 10)
	server := newFake(t, func(int, proto.Message) (proto.Message, error) {
		called <- struct{}{}
		return nil, nil
	})
	client, _ := server.client(t)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-called
		cancel()
	}()
	_, err := client.Pool("p").Status(ctx)
	var failed *Error
	if !errors.As(err, &failed) || failed.Code != codes.Canceled || !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	expired, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	if _, err = client.Pool("p").Status(expired); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
}

func TestCompleteIsRepeatedUntilItsVerdictIsKnown(t *testing.T) {
	t.Parallel()
	server := newFake(t, leases(time.Hour, func(n int, _ proto.Message) (proto.Message, error) {
		if n >= 2 && n < 8 {
			return nil, failure(codes.Unavailable, 0)
		}
		return nil, nil
	}))
	client, clock := server.client(t)
	permit := admitted(t, client.Pool("p"), "d", "t", WithoutKeeper())
	clock.Advance(2 * time.Hour)
	for client.budget.spend() {
		// Complete does not depend on the budget.
	}
	equal(t, "verdict", must(permit.Complete(context.Background(), Failed, []byte("x")))(t), CompleteCompleted)
	equal(t, "requests", server.count(), 8)
	request := server.request(8).(*pb.CompleteTaskRequest)
	equal(t, "token", request.GetFencingToken(), 7)
	equal(t, "outcome", request.GetOutcome(), pb.Outcome_OUTCOME_FAILED)
	equal(t, "result", string(request.GetResult()), "x")
}

func TestErrorHasAllViolations(t *testing.T) {
	t.Parallel()
	_, err := real(t).Complete(context.Background(), CompleteItem{})
	var failed *Error
	if !errors.As(err, &failed) || failed.Code != codes.InvalidArgument {
		t.Fatalf("error is %v", err)
	}
	var names []string
	for _, violation := range failed.Violations {
		names = append(names, violation.Field)
	}
	if len(names) != 3 || names[0] != "pool" || names[1] != "device_id" || names[2] != "task_id" {
		t.Errorf("violations are %v", failed.Violations)
	}
}

func TestErrorHasTheReason(t *testing.T) {
	t.Parallel()
	_, err := real(t).Policy("never configured").Check(context.Background(), "k")
	var failed *Error
	if !errors.As(err, &failed) || failed.Code != codes.NotFound || failed.Reason == "" {
		t.Errorf("error is %v", err)
	}
}
