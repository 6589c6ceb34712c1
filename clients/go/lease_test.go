package tollgate

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

func TestExpiryCountsFromBeforeTheRequestLessAMargin(t *testing.T) {
	t.Parallel()
	var advance func()
	server := newFake(t, leases(10*time.Second, func(int, proto.Message) (proto.Message, error) {
		advance()
		return nil, nil
	}))
	client, clock := server.client(t)
	advance = func() { clock.Advance(3 * time.Second) }
	permit := admitted(t, client.Pool("p"), "d", "t", WithoutKeeper())
	if left := permit.ValidFor(); left > 6800*time.Millisecond {
		t.Errorf("valid for %v after 3 s of a lease of 10 s", left)
	}
}

func TestPermitIsLostWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	server := newFake(t, leases(time.Hour, nil))
	client, clock := server.client(t)
	permit := admitted(t, client.Pool("p"), "d", "t", WithoutKeeper())
	ctx := permit.Context()
	equal(t, "valid", permit.Valid(), true)
	clock.Advance(time.Hour)
	equal(t, "valid", permit.Valid(), false)
	<-permit.Lost()
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, ErrLost) {
		t.Errorf("cause is %v", cause)
	}
	if !errors.Is(context.Cause(permit.Context()), ErrLost) || !errors.Is(permit.Err(), ErrLost) {
		t.Errorf("a lost permit has the error %v", permit.Err())
	}
}

func TestKeeperDeclaresLossAfterSleepOfTheMachine(t *testing.T) {
	t.Parallel()
	server := newFake(t, leases(time.Hour, nil))
	client, clock := server.client(t)
	permit := admitted(t, client.Pool("p"), "d", "t", WithoutKeeper())
	ctx := permit.Context()
	clock.Advance(2 * time.Hour)
	// Nobody asks the permit: the keeper notices.
	<-ctx.Done()
	equal(t, "lost", errors.Is(context.Cause(ctx), ErrLost), true)
}

func TestKeeperRenewsAtAThird(t *testing.T) {
	t.Parallel()
	server := newFake(t, leases(time.Hour, nil))
	client, clock := server.client(t)
	permit := admitted(t, client.Pool("p"), "d", "t", WithLease(time.Hour))
	for renewals := 1; renewals <= 5; renewals++ {
		clock.Advance(20 * time.Minute)
		eventually(t, "a renewal", func() bool { return server.count() == 1+renewals })
		eventually(t, "the answer", func() bool { return permit.ValidFor() > 50*time.Minute })
	}
	request := server.request(2).(*pb.RenewTaskRequest)
	equal(t, "token", request.GetFencingToken(), 7)
	equal(t, "lease", request.GetLeaseDuration().AsDuration(), time.Hour)
}

func TestPermitWithoutKeeperIsNotRenewed(t *testing.T) {
	t.Parallel()
	server := newFake(t, leases(time.Hour, nil))
	client, clock := server.client(t)
	permit := admitted(t, client.Pool("p"), "d", "t", WithoutKeeper())
	clock.Advance(30 * time.Minute)
	verdict := must(permit.Renew(context.Background(), 0))(t)
	equal(t, "verdict", verdict, RenewRenewed)
	equal(t, "requests", server.count(), 2)
	if left := permit.ValidFor(); left < 50*time.Minute {
		t.Errorf("valid for %v after Renew", left)
	}
}

func TestAnswerOtherThanRenewedLosesThePermit(t *testing.T) {
	t.Parallel()
	for _, verdict := range []pb.RenewVerdict{
		pb.RenewVerdict_RENEW_VERDICT_EXPIRED, pb.RenewVerdict_RENEW_VERDICT_COMPLETED,
		pb.RenewVerdict_RENEW_VERDICT_STALE_TOKEN, pb.RenewVerdict_RENEW_VERDICT_UNKNOWN,
	} {
		server := newFake(t, leases(time.Hour, func(_ int, request proto.Message) (proto.Message, error) {
			if _, renewal := request.(*pb.RenewTaskRequest); renewal {
				return &pb.RenewTaskResponse{Verdict: verdict}, nil
			}
			return nil, nil
		}))
		client, clock := server.client(t)
		permit := admitted(t, client.Pool("p"), "d", "t")
		clock.Advance(21 * time.Minute)
		<-permit.Lost()
		equal(t, "valid", permit.Valid(), false)
		clock.Advance(time.Minute)
		time.Sleep(2 * keeperNap)
		equal(t, "requests after the loss", server.count(), 2)
	}
}

func TestFailedRenewalsAreRepeatedUntilTheLeaseEnds(t *testing.T) {
	t.Parallel()
	server := newFake(t, leases(time.Hour, func(n int, request proto.Message) (proto.Message, error) {
		if n >= 2 && n < 12 {
			return nil, failure(codes.Unavailable, 0)
		}
		return nil, nil
	}))
	client, clock := server.client(t)
	permit := admitted(t, client.Pool("p"), "d", "t")
	for client.budget.spend() {
		// Renewals do not depend on the budget.
	}
	clock.Advance(21 * time.Minute)
	for n := 2; n <= 12; n++ {
		eventually(t, "a further renewal", func() bool {
			if server.count() >= n {
				return true
			}
			clock.Advance(time.Second)
			return false
		})
	}
	eventually(t, "the renewal", func() bool { return permit.ValidFor() > 50*time.Minute })
}

func TestRenewalDuringCompletionDoesNotLoseThePermit(t *testing.T) {
	t.Parallel()
	server := newFake(t, leases(time.Hour, nil))
	client, _ := server.client(t)
	permit := admitted(t, client.Pool("p"), "d", "t")
	permit.mu.Lock()
	permit.completing++
	permit.apply(renewal{completed: true, answer: "COMPLETED"})
	permit.mu.Unlock()
	if err := permit.Err(); err != nil {
		t.Errorf("lost: %v", err)
	}
}

func TestAnswerOfAnOlderRequestDoesNotCount(t *testing.T) {
	t.Parallel()
	server := newFake(t, leases(time.Hour, nil))
	client, _ := server.client(t)
	permit := admitted(t, client.Pool("p"), "d", "t", WithoutKeeper())
	permit.mu.Lock()
	permit.extend(permit.sent-time.Second, 10*time.Hour)
	permit.mu.Unlock()
	if left := permit.ValidFor(); left > time.Hour {
		t.Errorf("valid for %v", left)
	}
}

func TestCloseEndsContextAndRenewals(t *testing.T) {
	t.Parallel()
	server := newFake(t, leases(time.Hour, nil))
	client, clock := server.client(t)
	permit := admitted(t, client.Pool("p"), "d", "t")
	ctx := permit.Context()
	permit.Close(context.Background())
	<-ctx.Done()
	equal(t, "cause", context.Cause(ctx), ErrClosed)
	equal(t, "valid", permit.Valid(), false)
	equal(t, "error", permit.Err(), nil)
	clock.Advance(2 * time.Hour)
	time.Sleep(2 * keeperNap)
	equal(t, "requests", server.count(), 1)
	select {
	case <-permit.Lost():
		t.Error("a closed permit is lost")
	default:
	}
}

func TestCloseOfTheClientClosesItsPermits(t *testing.T) {
	t.Parallel()
	server := newFake(t, leases(time.Hour, nil))
	client, _ := server.client(t)
	permits := []*Permit{admitted(t, client.Pool("p"), "d", "t"), admitted(t, client.Pool("p"), "d", "t")}
	contexts := []context.Context{permits[0].Context(), permits[1].Context()}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	for i, permit := range permits {
		<-contexts[i].Done()
		equal(t, "cause", context.Cause(contexts[i]), ErrClosed)
		equal(t, "valid", permit.Valid(), false)
	}
	eventually(t, "the keeper ends", func() bool {
		client.keeper.mu.Lock()
		defer client.keeper.mu.Unlock()
		return !client.keeper.running
	})
}

func TestPermitsUseLittleMemoryAndLeaveNothing(t *testing.T) {
	server := newFake(t, leases(time.Hour, nil))
	client, _ := server.client(t)
	const count = 10_000
	permits := make([]*Permit, count)
	before := heapBytes()
	for i := range permits {
		request := &pb.AdmitTaskRequest{Pool: "p"}
		from := grantedTask(admission(time.Hour), client.clock.Now())
		permits[i] = must(client.admission(context.Background(), request, from, leaseOptions{}))(t).Permit
		permits[i].Context()
	}
	each := (heapBytes() - before) / count
	t.Logf("a permit with its context uses %d bytes of heap", each)
	if each > 5000 {
		t.Errorf("a permit uses %d bytes", each)
	}
	for i := range permits {
		permits[i].Close(context.Background())
		permits[i] = nil
	}
	eventually(t, "the keeper ends", func() bool {
		client.keeper.mu.Lock()
		defer client.keeper.mu.Unlock()
		return !client.keeper.running && len(client.keeper.queue) == 0
	})
	if left := heapBytes() - before; left > 1<<20 {
		t.Errorf("%d bytes remain after all permits are closed", left)
	}
}

func heapBytes() int {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}
