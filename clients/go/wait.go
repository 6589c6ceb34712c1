package tollgate

import (
	"context"
	"time"
)

const (
	// waitSlice bounds the wait of one request. A longer wait is cut into several requests,
	// which keep the ticket in the queue.
	waitSlice = 10 * time.Second
	// waitOverlap is how long a request joins the queue before the one before it leaves. The
	// ticket passes to it.
	waitOverlap = 2 * time.Second
	// replayShare is the part of a lease that a request may take before the time left of the
	// lease is asked for again.
	replayShare = 20
)

// granted is the answer to a request for a lease.
type granted[A any] struct {
	answer     A
	admitted   bool
	token      uint64
	again      bool          // A further wait may help.
	retryAfter time.Duration // On a refusal.
	expiresIn  time.Duration // On a grant, from the time sent on.
	sent       time.Duration
}

// requestEnd is the end of one request of a wait.
type requestEnd[A any] struct {
	number int // Of the request, from 1.
	answer granted[A]
	err    error
}

// await requests a lease, waiting up to wait for it. request makes one request that waits up
// to the given time on the server; after a grant it also gets the answer.
//
// A lease that was granted during a waiting request is requested a second time without a
// wait: the first answer counts from before the wait, which may be longer than the lease.
func await[A any](
	ctx context.Context, c *Client, wait time.Duration,
	request func(ctx context.Context, wait time.Duration, first A) (granted[A], error),
) (granted[A], error) {
	var none A
	end := time.Now().Add(wait)
	running, cancel := context.WithCancel(ctx)
	defer cancel() // Ends requests whose answers no longer count.
	outcomes := make(chan requestEnd[A])
	for number := 1; ; number++ {
		left := time.Until(end)
		slice := min(left, waitSlice)
		if slice < time.Millisecond {
			return request(ctx, 0, none)
		}
		begin := time.Now()
		go func() {
			answer, err := request(running, slice, none)
			select {
			case outcomes <- requestEnd[A]{number, answer, err}:
			case <-running.Done():
			}
		}()
		ended, ok := firstEnd(ctx, outcomes, number, left > waitSlice)
		if !ok {
			if err := ctx.Err(); err != nil {
				return granted[A]{}, newError(ctx, err)
			}
			continue // The next request joins the queue.
		}
		first := ended.answer
		if ended.err != nil {
			return first, ended.err
		}
		if first.admitted {
			if c.clock.Now()-first.sent < first.expiresIn/replayShare {
				return first, nil
			}
			second, err := request(ctx, 0, first.answer)
			if err != nil {
				return first, nil
			}
			if second.admitted {
				if second.token == first.token {
					second.answer = first.answer
				}
				return second, nil
			}
			first = second
		}
		if !first.again || time.Until(end) <= 0 {
			return first, nil
		}
		// A server that does not queue the call answers before the slice has passed.
		if time.Since(begin) < slice/2 && !sleep(ctx, min(jittered(first.retryAfter), max(0, time.Until(end)))) {
			if err := ctx.Err(); err != nil {
				return first, newError(ctx, err)
			}
			return first, nil
		}
	}
}

// firstEnd returns the end of the request with this number, or of an earlier one that decides.
// It returns false when a further request has to join the queue, or ctx ends.
func firstEnd[A any](
	ctx context.Context, outcomes <-chan requestEnd[A], number int, hasNext bool,
) (requestEnd[A], bool) {
	var next <-chan time.Time
	if hasNext {
		timer := time.NewTimer(waitSlice - waitOverlap)
		defer timer.Stop()
		next = timer.C
	}
	for {
		select {
		case ended := <-outcomes:
			if ended.number == number || ended.err == nil && !ended.answer.again {
				return ended, true
			}
		case <-next:
			return requestEnd[A]{}, false
		case <-ctx.Done():
			return requestEnd[A]{}, false
		}
	}
}
