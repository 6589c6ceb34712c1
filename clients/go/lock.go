package tollgate

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

// lockLease is the length of the lease of a lock by default.
const lockLease = 30 * time.Second

// Lock has one owner at a time, for the length of a lease. It needs no creation.
type Lock struct {
	client *Client
	name   string
	owner  string
}

// Lock returns the lock with a name of 1 to 256 bytes. It makes no call. The owner is unique
// among the competitors; two callers with the same owner share the lease. Empty: each Acquire
// has its own owner.
func (c *Client) Lock(name, owner string) *Lock {
	return &Lock{c, name, owner}
}

// LockAnswer is the answer to Acquire: a lease, or the present holder.
type LockAnswer struct {
	// Lease is the right to the guarded resource. It is nil if another owner holds the lock.
	Lease *LockLease
	// Holder is the present holder. It is empty if the lock is free for the next waiter.
	Holder string
	// RetryAfter is the time until the lease of the holder ends. It is 0 if Lease is set.
	RetryAfter time.Duration
}

// LockLease is a held lock. The library renews it at a third of its length until it is
// released, closed or lost. All methods can be called concurrently.
//
// Always close it:
//
//	defer lease.Close(ctx)
type LockLease struct {
	lease
	name     string
	holder   string
	length   time.Duration
	replayed bool
	released bool // Guarded by lease.mu.
}

// Acquire acquires the lock. With [WithWait], it waits for the lock.
//
// If Acquire fails, a lease that it may have received is released in the background; with an owner
// of the caller only if its wait has just ended. Otherwise the lease ends at its expiry, and a
// repeat with the same owner gets it. The context of the lease descends from ctx.
func (l *Lock) Acquire(ctx context.Context, options ...LeaseOption) (LockAnswer, error) {
	o := collect(options)
	owner := l.owner
	if owner == "" {
		owner = unique()
	}
	request := &pb.AcquireLockRequest{Name: l.name, Owner: owner, LeaseDuration: optional(o.lease)}
	claim, err := l.client.claims.enter(ctx, identity("lock", l.name, owner))
	if err != nil {
		return LockAnswer{}, err
	}
	from, last, err := await(ctx, l.client, o.wait, func(ctx context.Context, wait time.Duration, _ *pb.AcquireLockResponse) (granted[*pb.AcquireLockResponse], error) {
		request := proto.CloneOf(request) // Requests of one wait overlap.
		request.MaxWait = optional(wait)
		return l.request(ctx, request, wait)
	})
	if err != nil {
		l.withdraw(ctx, claim, owner, o, last)
		return LockAnswer{}, err
	}
	claim.answered(from.token)
	if !from.admitted {
		if outcome := from.answer.GetOutcome(); outcome != pb.AcquireLockOutcome_ACQUIRE_LOCK_OUTCOME_HELD {
			return LockAnswer{}, unknown(outcome)
		}
		return LockAnswer{Holder: from.answer.GetHolder(), RetryAfter: from.retryAfter}, nil
	}
	lease := &LockLease{name: l.name, holder: owner, length: o.lease, replayed: from.answer.GetReplayed()}
	lease.lease.init(ctx, l.client, lease, from.token, !o.noKeeper)
	lease.start(from.sent, from.expiresIn)
	return LockAnswer{Lease: lease}, nil
}

// withdraw releases, in the background, the lock that a failed call may have acquired.
func (l *Lock) withdraw(ctx context.Context, claim claim, owner string, o leaseOptions, last func() (granted[*pb.AcquireLockResponse], bool)) {
	claim.withdraw(ctx, func() (grant, bool) {
		from, ok := last()
		if ok || l.owner != "" {
			return grant{from.token, from.answer.GetReplayed(), "", from.expiresIn}, ok
		}
		// Nobody else has the owner: it may hold the lock also without an answer.
		return grant{left: cmp.Or(o.lease, lockLease)}, true
	}, func(ctx context.Context, lease grant) error {
		request := &pb.ReleaseLockRequest{Name: l.name, Owner: owner}
		if lease.token != 0 {
			request.FencingToken = proto.Uint64(lease.token)
		}
		_, err := l.client.locks.ReleaseLock(ctx, request)
		return err
	})
}

// request makes one request for the lock.
func (l *Lock) request(ctx context.Context, request *pb.AcquireLockRequest, wait time.Duration) (granted[*pb.AcquireLockResponse], error) {
	var none granted[*pb.AcquireLockResponse]
	plan, stub := l.client.plan(), l.client.locks
	if wait > 0 {
		channel, done, err := l.client.waits.take()
		if err != nil {
			return none, newError(ctx, err)
		}
		defer done()
		plan.deadline += wait
		plan.waits = true
		stub = pb.NewLockServiceClient(channel)
	}
	answer, sent, err := call(ctx, l.client, plan, request, stub.AcquireLock)
	if err != nil {
		return none, err
	}
	acquired := answer.GetOutcome() == pb.AcquireLockOutcome_ACQUIRE_LOCK_OUTCOME_ACQUIRED && answer.GetLease() != nil
	return granted[*pb.AcquireLockResponse]{
		answer: answer, admitted: acquired, token: answer.GetLease().GetFencingToken(), again: answer.GetOutcome() == pb.AcquireLockOutcome_ACQUIRE_LOCK_OUTCOME_HELD,
		retryAfter: answer.GetRetryAfter().AsDuration(), expiresIn: answer.GetLease().GetExpiresIn().AsDuration(), sent: sent,
	}, nil
}

// Run acquires the lock and runs work with it. The context of work ends when the lease is lost.
// If another owner holds the lock, work is not called, and the answer has no lease.
func (l *Lock) Run(ctx context.Context, work func(ctx context.Context, lease *LockLease) error, options ...LeaseOption) (LockAnswer, error) {
	answer, err := l.Acquire(ctx, options...)
	if err != nil || answer.Lease == nil {
		return answer, err
	}
	defer answer.Lease.Close(ctx)
	return answer, work(answer.Lease.Context(), answer.Lease)
}

// LockStatus is a lock as it is now.
type LockStatus struct {
	// Held reports whether an owner holds the lock.
	Held bool
	// Holder is that owner.
	Holder string
	// Token is the fencing token of its lease.
	Token uint64
	// Waiters is the number of calls that wait for the lock, on all servers.
	Waiters int
}

// Status returns the holder of the lock and the number of waiting calls.
func (l *Lock) Status(ctx context.Context) (LockStatus, error) {
	answer, _, err := call(ctx, l.client, l.client.plan(), &pb.GetLockRequest{Name: l.name}, l.client.locks.GetLock)
	if err != nil {
		return LockStatus{}, err
	}
	return LockStatus{
		answer.GetHeld(), answer.GetLease().GetOwner(), answer.GetLease().GetFencingToken(), int(answer.GetWaiters()),
	}, nil
}

// Name returns the name of the lock.
func (l *LockLease) Name() string { return l.name }

// Owner returns the owner that holds the lock.
func (l *LockLease) Owner() string { return l.holder }

// Replayed reports whether an earlier call was granted the lease.
func (l *LockLease) Replayed() bool { return l.replayed }

// renew implements renewer.
func (l *LockLease) renew(ctx context.Context) (renewal, error) {
	sent := l.client.clock.Now()
	answer, err := l.client.locks.RenewLock(ctx, &pb.RenewLockRequest{
		Name: l.name, Owner: l.holder, FencingToken: proto.Uint64(l.token), LeaseDuration: optional(l.length),
	})
	if err != nil {
		return renewal{}, newError(ctx, err)
	}
	return renewal{
		renewed:   answer.GetOutcome() == pb.RenewLockOutcome_RENEW_LOCK_OUTCOME_RENEWED,
		answer:    named[string](answer.GetOutcome(), "RENEW_LOCK_OUTCOME_"),
		expiresIn: answer.GetLease().GetExpiresIn().AsDuration(),
		sent:      sent,
	}, nil
}

// ReleaseOutcome reports whether a lock was released.
type ReleaseOutcome string

const (
	// Released means that the lease has ended by this call or by one that it repeats.
	Released ReleaseOutcome = "RELEASED"
	// NotHeld means that the owner held no such lease.
	NotHeld ReleaseOutcome = "NOT_HELD"
)

// Release frees the lock. Its context ends, and it is no longer renewed, even if the call
// fails: the lease then ends at its expiry.
func (l *LockLease) Release(ctx context.Context) (ReleaseOutcome, error) {
	l.leave()
	answer, _, err := call(ctx, l.client, l.client.plan(), l.release(), l.client.locks.ReleaseLock)
	if err != nil {
		return "", err
	}
	l.mu.Lock()
	l.released = true
	l.mu.Unlock()
	return named[ReleaseOutcome](answer.GetOutcome(), "RELEASE_LOCK_OUTCOME_"), nil
}

// Close leaves the scope of the lock and releases it, unless it was released, even if ctx has
// ended. It takes at most the deadline of one call: without an answer the release continues in
// the background until the lease ends.
func (l *LockLease) Close(ctx context.Context) {
	l.leave()
	l.mu.Lock()
	done, until := l.released || l.lost != nil, l.expiry
	l.released = true
	l.mu.Unlock()
	if done {
		return
	}
	request := l.release()
	_ = l.client.claims.leave(ctx, identity("lock", l.name, l.holder), until, func(ctx context.Context) error {
		_, err := l.client.locks.ReleaseLock(ctx, request)
		return err
	})
}

func (l *LockLease) release() *pb.ReleaseLockRequest {
	return &pb.ReleaseLockRequest{Name: l.name, Owner: l.holder, FencingToken: proto.Uint64(l.token)}
}
