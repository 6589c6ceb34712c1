package tollgate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// ErrLost is the cause with which the context of a permit or lock ends when its lease is
// lost. Use [errors.Is] with [context.Cause].
var ErrLost = errors.New("tollgate: lease lost")

// ErrClosed is the cause with which the context of a permit or lock ends when it is closed.
var ErrClosed = errors.New("tollgate: lease closed")

// renewal is the answer to one renewal of a lease.
type renewal struct {
	renewed   bool
	completed bool          // The task has a result.
	answer    string        // The answer of the server, for the cause.
	expiresIn time.Duration // From the time sent on.
	sent      time.Duration
}

// renewer renews the lease of a permit or a lock with one request.
type renewer interface {
	renew(ctx context.Context) (renewal, error)
}

// lease is what permits and locks share: a time of expiry on the local clock, the signal that
// the lease is lost, and renewals.
type lease struct {
	client *Client
	owner  renewer
	parent context.Context
	token  uint64
	keep   bool

	mu         sync.Mutex
	ctx        context.Context // Made at the first use, as gone.
	cancel     context.CancelCauseFunc
	gone       chan struct{}
	lost       error         // Why the lease is lost.
	stopped    bool          // No longer renewed or watched.
	closed     bool          // The scope was left.
	completing int           // Number of running calls that report a result.
	sent       time.Duration // When the newest answered request was sent.
	expiry     time.Duration // Never later than the expiry on the server.
	renewAt    time.Duration
	failures   int

	due   time.Duration // Guarded by the keeper.
	index int           // Guarded by the keeper.
}

func (l *lease) init(parent context.Context, c *Client, owner renewer, token uint64, keep bool) {
	l.parent, l.client, l.owner, l.token, l.keep = parent, c, owner, token, keep
	l.index = -1
}

// start begins to watch a lease that was granted for expiresIn by a request sent at the given
// time.
func (l *lease) start(sent, expiresIn time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.extend(sent, expiresIn)
	l.client.keeper.schedule(l, l.next())
}

// extend sets the times after an answer.
func (l *lease) extend(sent, expiresIn time.Duration) {
	if sent < l.sent {
		return
	}
	expiresIn = max(expiresIn, 0)
	margin := min(max(expiresIn/50, 10*time.Millisecond), time.Second, expiresIn/2)
	third := expiresIn / 3
	l.sent = sent
	l.expiry = sent + expiresIn - margin
	l.renewAt = sent + third - rand.N(third/5+1)
	l.failures = 0
}

// next returns when the keeper has to look at the lease.
func (l *lease) next() time.Duration {
	if l.keep {
		return min(l.expiry, l.renewAt)
	}
	return l.expiry
}

// check declares the lease lost if it has ended, and renews it if that is due. The keeper
// calls it.
func (l *lease) check() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped || l.expire() {
		return
	}
	if l.keep && l.client.clock.Now() >= l.renewAt {
		l.renewAt = l.expiry
		l.client.keeper.renew(l)
	}
	l.client.keeper.schedule(l, l.next())
}

// expire declares the lease lost if its time is over.
func (l *lease) expire() bool {
	if !l.stopped && l.client.clock.Now() >= l.expiry {
		l.lose("it was not renewed in time")
	}
	return l.lost != nil
}

// lose declares the lease lost.
func (l *lease) lose(reason string) {
	l.lost = fmt.Errorf("%w: %s", ErrLost, reason)
	l.stop()
	if l.gone != nil {
		close(l.gone)
	}
	if l.cancel != nil {
		l.cancel(l.lost)
	}
}

// stop ends renewals and the watch.
func (l *lease) stop() {
	l.stopped = true
	l.client.keeper.forget(l)
}

// renewOnce renews the lease with one request. The keeper calls it.
func (l *lease) renewOnce() {
	l.mu.Lock()
	if l.stopped || l.expire() {
		l.mu.Unlock()
		return
	}
	left := l.expiry - l.client.clock.Now()
	values := context.WithoutCancel(l.parent)
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(values, min(left, l.client.config.Deadline))
	answer, err := l.owner.renew(ctx)
	cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped || l.expire() {
		return
	}
	if err != nil {
		l.postpone(err)
	} else {
		l.apply(answer)
	}
	if !l.stopped {
		l.client.keeper.schedule(l, l.next())
	}
}

// postpone sets the time of the next attempt after a failed renewal.
func (l *lease) postpone(err error) {
	now := l.client.clock.Now()
	var failure *Error
	var retryAfter time.Duration
	if errors.As(err, &failure) {
		retryAfter = failure.RetryAfter
	}
	left := l.expiry - now
	pauses := backoff{first: 20 * time.Millisecond, most: min(5*time.Second, left/4), failures: l.failures}
	l.failures++
	l.renewAt = now + min(pauses.next(retryAfter), left/2) + time.Millisecond
}

// apply takes over the answer to a renewal.
func (l *lease) apply(answer renewal) {
	switch {
	case answer.renewed:
		l.extend(answer.sent, answer.expiresIn)
	case answer.completed && l.completing > 0:
		l.stop()
	default:
		l.lose("the renewal was answered " + answer.answer)
	}
}

// Token returns the fencing token. It is higher than every earlier token of the pool or lock.
// Let the external system refuse a token below the highest one it has seen.
func (l *lease) Token() uint64 {
	return l.token
}

// Valid reports whether the lease runs. It is false after the lease was lost, completed,
// released or closed.
func (l *lease) Valid() bool {
	return l.ValidFor() > 0
}

// ValidFor returns the time until the lease ends unless it is renewed, a little less than on
// the server. It is 0 if the lease is no longer valid.
func (l *lease) ValidFor() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped || l.expire() {
		return 0
	}
	return max(0, l.expiry-l.client.clock.Now())
}

// Lost returns a channel that is closed when the lease is lost: its time is over, or a renewal
// was not answered RENEWED. It stays open if the lease is completed, released or closed
// before.
func (l *lease) Lost() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire()
	if l.gone == nil {
		l.gone = make(chan struct{})
		if l.lost != nil {
			close(l.gone)
		}
	}
	return l.gone
}

// Err returns why the lease is lost, an error that wraps [ErrLost], or nil if it is not.
func (l *lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire()
	return l.lost
}

// Context returns a context for the guarded work. It descends from the context with which the
// lease was requested. It ends when the lease is lost, with a cause that wraps [ErrLost], and
// when the scope is left, with [ErrClosed].
//
// Report results with another context: this one may have ended.
func (l *lease) Context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire()
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancelCause(l.parent)
		if l.lost != nil {
			l.cancel(l.lost)
		} else if l.closed {
			l.cancel(ErrClosed)
		}
	}
	return l.ctx
}

// leave ends renewals and the context.
func (l *lease) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire()
	l.closed = true
	l.stop()
	if l.cancel != nil {
		l.cancel(ErrClosed)
	}
}

// detach makes the context independent of the end of the context of the request. It must be
// called before Context.
func (l *lease) detach() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parent = context.WithoutCancel(l.parent)
}
