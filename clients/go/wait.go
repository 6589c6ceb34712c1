package tollgate

import (
	"context"
	"time"
)

const (
	// waitSlice bounds the wait of one request. A longer wait is cut into several requests,
	// which keep the ticket in the queue.
	waitSlice = 10 * time.Second
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

// await requests a lease, waiting up to wait for it. request makes one request that waits up
// to the given time on the server.
//
// A lease that was granted during a waiting request is requested a second time without a
// wait: the first answer counts from before the wait, which may be longer than the lease.
func await[A any](
	ctx context.Context, c *Client, wait time.Duration,
	request func(ctx context.Context, wait time.Duration) (granted[A], error),
) (granted[A], error) {
	end := time.Now().Add(wait)
	for {
		slice := min(time.Until(end), waitSlice)
		if slice < time.Millisecond {
			return request(ctx, 0)
		}
		begin := time.Now()
		first, err := request(ctx, slice)
		if err != nil {
			return first, err
		}
		if first.admitted {
			if c.clock.Now()-first.sent < first.expiresIn/replayShare {
				return first, nil
			}
			second, err := request(ctx, 0)
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
