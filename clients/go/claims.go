package tollgate

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
)

// Tries to give a lease up: their maximum number, and the bounds of the pauses between them.
const (
	endTries     = 20
	endPause     = 100 * time.Millisecond
	endPauseMost = 30 * time.Second
)

// grant is a granted lease, as a cancelled call learns it.
type grant struct {
	token    uint64 // 0 for the unknown token of a call whose identity no other call has.
	replayed bool   // An earlier call was granted it.
	task     string // Of a slot.
	left     time.Duration
}

// claims are the calls for leases of a client, by the identity of the lease. All calls with
// the same identity get the same lease, so a lease is given up only if no other call has received it or may
// get it.
type claims struct {
	client *Client
	closed chan struct{}

	mu      sync.Mutex
	entries map[string]*claimed
}

// claimed are the calls for one lease.
type claimed struct {
	calls     int             // Number of calls whose caller waits for the answer.
	cancelled int             // Number of cancelled calls that have not ended.
	granted   map[uint64]bool // Tokens that calls were granted.
	given     map[uint64]bool // Tokens that callers have received.
	ending    *ending
}

// ending is a lease that is being given up.
type ending struct {
	hurry chan struct{} // Closed to make the last attempt immediately.
	once  sync.Once
	done  chan struct{}
}

func newClaims(c *Client) *claims {
	return &claims{client: c, closed: make(chan struct{}), entries: map[string]*claimed{}}
}

// close ends the pauses between attempts.
func (c *claims) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.closed:
	default:
		close(c.closed)
	}
}

// identity returns the key of a lease.
func identity(parts ...string) string {
	return strings.Join(parts, "\x00")
}

// update changes the calls for a lease, and forgets them if none is left.
func (c *claims) update(key string, change func(*claimed)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, known := c.entries[key]
	if !known {
		entry = &claimed{granted: map[uint64]bool{}, given: map[uint64]bool{}}
		c.entries[key] = entry
	}
	change(entry)
	if entry.calls+entry.cancelled == 0 && entry.ending == nil {
		delete(c.entries, key)
	}
}

// settle makes a last attempt to give up a lease, if it is being given up. Then it registers calls.
func (c *claims) settle(ctx context.Context, key string, calls int) error {
	for {
		var running *ending
		c.update(key, func(entry *claimed) {
			if running = entry.ending; running == nil {
				entry.calls += calls
			}
		})
		if running == nil {
			return nil
		}
		running.once.Do(func() { close(running.hurry) })
		select {
		case <-running.done:
		case <-ctx.Done():
			return newError(ctx, ctx.Err())
		}
	}
}

// claim is one call for a lease.
type claim struct {
	claims *claims
	key    string
}

// enter registers a call. If the lease is being given up, it first makes a last attempt to do so.
func (c *claims) enter(ctx context.Context, key string) (claim, error) {
	return claim{c, key}, c.settle(ctx, key, 1)
}

// answered records that the caller gets the answer, with the token of its lease; 0 without one.
func (c claim) answered(token uint64) {
	c.claims.update(c.key, func(entry *claimed) {
		entry.calls--
		if token != 0 {
			entry.given[token] = true
		}
	})
}

// withdraw records that the caller gets no answer. Once the call has ended, giveUp gives its
// lease up in the background, unless another call has received it or may receive it.
func (c claim) withdraw(ctx context.Context, ended func() (grant, bool), giveUp func(context.Context, grant) error) {
	c.claims.update(c.key, func(entry *claimed) {
		entry.calls--
		entry.cancelled++
	})
	go func() {
		lease, ok := ended()
		var e *ending
		c.claims.update(c.key, func(entry *claimed) {
			entry.cancelled--
			if ok && !lease.replayed {
				entry.granted[lease.token] = true
			}
			if ok && entry.granted[lease.token] && !entry.given[lease.token] && entry.calls == 0 {
				e = begin(entry)
			}
		})
		if e != nil {
			until := c.claims.client.clock.Now() + lease.left
			_ = c.claims.end(ctx, c.key, e, until, func(ctx context.Context) error { return giveUp(ctx, lease) })
		}
	}()
}

// begin registers the attempts to give up a lease.
func begin(entry *claimed) *ending {
	entry.ending = &ending{hurry: make(chan struct{}), done: make(chan struct{})}
	return entry.ending
}

// leave gives a lease up while its scope is left. It returns the error of the call, or
// DEADLINE_EXCEEDED after the deadline of one call; further attempts then follow in the background until the
// lease ends, even if ctx has ended.
func (c *claims) leave(ctx context.Context, key string, until time.Duration, try func(context.Context) error) error {
	var e *ending
	c.update(key, func(entry *claimed) { e = begin(entry) })
	failure := make(chan error, 1)
	go func() {
		failure <- c.end(ctx, key, e, until, try)
	}()
	timer := time.NewTimer(c.client.config.Deadline)
	defer timer.Stop()
	select {
	case err := <-failure:
		return err
	case <-timer.C:
		return &Error{Code: codes.DeadlineExceeded, Message: "no server has answered; further tries follow in the background"}
	}
}

// end makes a call until it is answered. Without an answer, the lease ends by itself.
func (c *claims) end(ctx context.Context, key string, e *ending, until time.Duration, try func(context.Context) error) error {
	defer func() {
		c.update(key, func(entry *claimed) {
			if entry.ending == e {
				entry.ending = nil
			}
		})
		close(e.done)
	}()
	ctx = context.WithoutCancel(ctx)
	for attempt := 1; ; attempt++ {
		once, cancel := context.WithTimeout(ctx, c.client.config.Deadline)
		err := try(once)
		cancel()
		if err == nil {
			return nil
		}
		failure := newError(ctx, err)
		bound := min(endPause<<attempt, endPauseMost)
		pause := failure.RetryAfter + bound/2 + rand.N(bound/2)
		if attempt == endTries || !repeatable(failure) || c.client.clock.Now()+pause >= until || !e.pause(c, pause) {
			return failure
		}
	}
}

// pause waits until the next attempt. It returns false if there is none.
func (e *ending) pause(c *claims, d time.Duration) bool {
	select {
	case <-e.hurry:
		return false
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.hurry:
	case <-c.closed:
		return false
	}
	return true
}
