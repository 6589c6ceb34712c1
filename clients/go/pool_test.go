package tollgate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

// sized returns a pool with the given capacity.
func sized(t *testing.T, client *Client, name string, capacity uint32) *Pool {
	t.Helper()
	pool := client.Pool(name)
	status := must(pool.Configure(context.Background(), PoolSettings{Capacity: &capacity}))(t)
	equal(t, "capacity", status.Usage.Capacity, int(capacity))
	return pool
}

func TestAdmitCompleteAndRefusals(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := real(t)
	pool := sized(t, client, name(t), 1)
	permit := admitted(t, pool, "d1", "t1")
	equal(t, "replayed", permit.Replayed(), false)

	repeat := admitted(t, pool, "d1", "t1")
	equal(t, "replayed", repeat.Replayed(), true)
	equal(t, "token", repeat.Token(), permit.Token())

	full := must(pool.Admit(ctx, "d2", "t2"))(t)
	if full.Permit != nil || full.Refusal.Reason != Full || full.Refusal.RetryAfter <= 0 {
		t.Errorf("a full pool answers %+v", full)
	}
	equal(t, "verdict", must(permit.Complete(ctx, Succeeded, []byte("ok")))(t), CompleteCompleted)
	equal(t, "valid", permit.Valid(), false)
	equal(t, "error", permit.Err(), nil)

	again := must(pool.Admit(ctx, "d1", "t1"))(t)
	if again.Refusal == nil || again.Refusal.Reason != AlreadyCompleted {
		t.Errorf("a completed task answers %+v", again)
	}
	nothing := must(pool.Poll(ctx, "d9"))(t)
	if nothing.Refusal == nil || nothing.Refusal.Reason != NoTask {
		t.Errorf("an empty queue answers %+v", nothing)
	}
	paused := true
	must(pool.Configure(ctx, PoolSettings{Paused: &paused}))(t)
	refused := must(pool.Admit(ctx, "d3", "t3"))(t)
	if refused.Refusal == nil || refused.Refusal.Reason != Paused || refused.Refusal.RetryAfter <= 0 {
		t.Errorf("a paused pool answers %+v", refused)
	}
	_, err := pool.Admit(ctx, "d", "")
	var failed *Error
	if !errors.As(err, &failed) || failed.Violations[0].Field != "task_id" {
		t.Errorf("Admit without a task answers %v", err)
	}
}

func TestResultAfterTheLeaseIsLate(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := real(t).Pool(name(t))
	permit := admitted(t, pool, "d", "t", WithLease(200*time.Millisecond), WithoutKeeper())
	<-permit.Lost()
	eventually(t, "the lease ends", func() bool {
		for range pool.Leases(ctx) {
			return false
		}
		return true
	})
	equal(t, "verdict", must(permit.Complete(ctx, Succeeded, nil))(t), CompleteLate)
}

func TestKeeperHoldsAShortLease(t *testing.T) {
	t.Parallel()
	client := real(t)
	permit := admitted(t, client.Pool(name(t)), "d", "t", WithLease(6*time.Second))
	first := must(client.Renew(context.Background(), RenewItem{TaskRef: TaskRef{Pool: name(t), Device: "d", Task: "t"}, Lease: 6 * time.Second}))(t)
	equal(t, "verdict", first.Verdict, RenewRenewed)
	time.Sleep(8 * time.Second)
	equal(t, "error", permit.Err(), nil)
	equal(t, "verdict", must(permit.Complete(context.Background(), Succeeded, nil))(t), CompleteCompleted)
}

func TestPanicReportsTheTaskAsFailed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := real(t).Pool(name(t))
	must(pool.Enqueue(ctx, QueuedTask{Device: "d", Task: "t", Payload: []byte("payload")}))(t)
	for attempt := 1; attempt <= 2; attempt++ {
		permit := must(pool.Poll(ctx, "d"))(t).Permit
		equal(t, "attempt", permit.Attempt(), attempt)
		equal(t, "task", permit.Task(), "t")
		equal(t, "payload", string(permit.Payload()), "payload")
		func() {
			defer func() { equal(t, "panic", recover(), any("broken")) }()
			defer permit.Close(ctx)
			panic("broken")
		}()
	}
	permit := must(pool.Poll(ctx, "d"))(t).Permit
	equal(t, "attempt", permit.Attempt(), 3)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := permit.CloseWithError(ended, errors.New("broken")); err != nil {
		t.Error(err)
	}
	equal(t, "after three failures", must(pool.Poll(ctx, "d"))(t).Refusal.Reason, NoTask)
}

func TestRunReportsTheResultOfTheWork(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := sized(t, real(t), name(t), 1)
	must(pool.Run(ctx, "d", "good", func(ctx context.Context, permit *Permit) error {
		refused := must(pool.Run(ctx, "d", "other", func(context.Context, *Permit) error {
			t.Error("work runs without a permit")
			return nil
		}))(t)
		equal(t, "reason", refused.Refusal.Reason, Full)
		return nil
	}))(t)
	broken := errors.New("broken")
	_, err := pool.Run(ctx, "d", "bad", func(context.Context, *Permit) error { return broken })
	equal(t, "error", err, broken)
	equal(t, "in use", must(pool.Status(ctx))(t).Usage.InUse, 0)
}

func TestWaitGetsTheSlotThatIsFreed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := sized(t, real(t), name(t), 1)
	first := admitted(t, pool, "d1", "t1")
	waited := make(chan Admission, 1)
	go func() {
		answer, err := pool.Admit(ctx, "d2", "t2", WithWait(time.Minute), WithLease(time.Minute))
		if err != nil {
			t.Error(err)
		}
		waited <- answer
	}()
	eventually(t, "a waiter", func() bool { return must(pool.Status(ctx))(t).Waiters == 1 })
	must(first.Complete(ctx, Succeeded, nil))(t)
	answer := <-waited
	defer answer.Permit.Close(ctx)
	equal(t, "valid", answer.Permit.Valid(), true)
	equal(t, "replayed", answer.Permit.Replayed(), false)
}

func TestWaitLongerThanTheLeaseAsksForTheTimeLeft(t *testing.T) {
	t.Parallel()
	var advance func()
	server := newFake(t, leases(10*time.Second, func(_ int, request proto.Message) (proto.Message, error) {
		if ask, admit := request.(*pb.AdmitTaskRequest); admit && ask.GetMaxWait() != nil {
			advance()
		}
		return nil, nil
	}))
	client, clock := server.client(t)
	advance = func() { clock.Advance(20 * time.Second) }
	permit := admitted(t, client.Pool("p"), "d", "t", WithWait(time.Minute))
	equal(t, "valid", permit.Valid(), true)
	equal(t, "requests", server.count(), 2)
	if wait := server.request(2).(*pb.AdmitTaskRequest).GetMaxWait(); wait != nil {
		t.Errorf("the repeat waits %v", wait)
	}
}

func TestLongWaitIsCutAndKeepsItsTask(t *testing.T) {
	t.Parallel()
	server := newFake(t, leases(time.Hour, func(n int, _ proto.Message) (proto.Message, error) {
		if n < 4 {
			return &pb.AdmitTaskResponse{Decision: pb.AdmitDecision_ADMIT_DECISION_FULL, RetryAfter: optional(time.Millisecond)}, nil
		}
		return nil, nil
	}))
	client, _ := server.client(t)
	admitted(t, client.Pool("p"), "d", "t", WithWait(time.Hour))
	equal(t, "requests", server.count(), 4)
	for n := 1; n <= 4; n++ {
		request := server.request(n).(*pb.AdmitTaskRequest)
		equal(t, "task", request.GetTaskId(), "t")
		if wait := request.GetMaxWait().AsDuration(); wait <= 0 || wait > waitSlice {
			t.Errorf("request %d waits %v", n, wait)
		}
	}
}

func TestWaitsDoNotStarveOtherCalls(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	pool := sized(t, real(t), name(t), 1)
	admitted(t, pool, "holder", "t")
	const waiters = 500
	var group sync.WaitGroup
	for i := range waiters {
		group.Go(func() {
			_, err := pool.Admit(ctx, fmt.Sprint("d", i), "t", WithWait(10*time.Minute))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled wait answers %v", err)
			}
		})
	}
	eventually(t, "all waiters", func() bool { return must(pool.Status(context.Background()))(t).Waiters == waiters })
	equal(t, "channels", len(pool.client.waits.channels), 3)
	cancel()
	group.Wait()
	admittedAfter := must(pool.Status(context.Background()))(t)
	equal(t, "in use", admittedAfter.Usage.InUse, 1)
}

func TestPermitsNeverExceedTheCapacity(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := sized(t, real(t), name(t), 3)
	var mu sync.Mutex
	running, most, done := 0, 0, 0
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			_, err := pool.Run(ctx, fmt.Sprint("d", i), "t", func(context.Context, *Permit) error {
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(20 * time.Millisecond)
				mu.Lock()
				running--
				done++
				mu.Unlock()
				return nil
			}, WithWait(5*time.Minute))
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	equal(t, "tasks", done, 20)
	if most > 3 {
		t.Errorf("%d tasks ran at once", most)
	}
}

func TestOperatorCalls(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := real(t)
	pool := client.Pool(name(t))
	statuses := must(pool.Enqueue(ctx, QueuedTask{Device: "d", Task: "a"}, QueuedTask{Device: "d", Task: "a"}, QueuedTask{Device: "d", Task: "b", Expires: time.Now().Add(-time.Hour)}))(t)
	if !slices.Equal(statuses, []EnqueueStatus{EnqueueEnqueued, EnqueueDuplicate, EnqueueExpired}) {
		t.Errorf("statuses are %v", statuses)
	}
	equal(t, "cancel", must(pool.Cancel(ctx, "d", "a"))(t), CancelAnswer{Verdict: CancelCancelled})
	equal(t, "cancel again", must(pool.Cancel(ctx, "d", "a"))(t), CancelAnswer{CancelCancelled, true})
	equal(t, "requeue a cancelled task", must(pool.Requeue(ctx, "d", "a"))(t), RequeueNotDead)
	equal(t, "requeue no task", must(pool.Requeue(ctx, "d", "none"))(t), RequeueUnknown)
	permit := admitted(t, pool, "d", "c")
	for lease, err := range pool.Leases(ctx) {
		equal(t, "error", err, nil)
		equal(t, "lease", lease.TaskRef, TaskRef{name(t), "d", "c", permit.Token()})
	}
	found := false
	for status, err := range client.Pools(ctx) {
		equal(t, "error", err, nil)
		found = found || status.Name == name(t)
	}
	equal(t, "listed", found, true)
	equal(t, "evict", must(pool.Evict(ctx, "d", "c", "gone"))(t), EvictAnswer{Verdict: EvictEvicted})
	equal(t, "complete", must(permit.Complete(ctx, Succeeded, nil))(t), CompleteLate)
	lease, grace := 7*time.Second, 3*time.Second
	attempts := uint32(5)
	status := must(pool.Configure(ctx, PoolSettings{Lease: &lease, Grace: &grace, MaxAttempts: &attempts}))(t)
	equal(t, "lease", status.Lease, lease)
	equal(t, "grace", status.Grace, grace)
	equal(t, "attempts", status.MaxAttempts, 5)
	status = must(pool.Configure(ctx, PoolSettings{Reset: true}))(t)
	equal(t, "attempts", status.MaxAttempts, 3)
}
