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
	// lease is requested again.
	replayShare = 20
	// waitGrace is how long a wait that has ended without an answer still takes one that is on
	// its way.
	waitGrace = 500 * time.Millisecond
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

// requests are the running requests of a wait.
type requests[A any] struct {
	outcomes chan requestEnd[A]
	running  int
	cancel   context.CancelFunc
}

// last cancels the requests after a moment and waits for their end. It returns a grant if one
// of them still gets it.
func (s *requests[A]) last() (granted[A], bool) {
	timer := time.AfterFunc(waitGrace, s.cancel)
	defer timer.Stop()
	var answer granted[A]
	for ; s.running > 0; s.running-- {
		if ended := <-s.outcomes; ended.err == nil && ended.answer.admitted {
			answer = ended.answer
			s.cancel()
		}
	}
	s.cancel()
	return answer, answer.admitted
}

// end cancels the requests.
func (s *requests[A]) end() {
	s.cancel()
	if s.running > 0 {
		go s.last()
	}
}

// await requests a lease, waiting up to wait for it. request makes one request that waits up
// to the given time on the server; after a grant it also gets the answer.
//
// A lease that was granted during a waiting request is requested a second time without a
// wait: the first answer counts from before the wait, which may be longer than the lease.
//
// With an error await also returns a function that ends the requests. It waits for them, and
// returns a grant whose answer was on its way.
func await[A any](
	ctx context.Context, c *Client, wait time.Duration,
	request func(ctx context.Context, wait time.Duration, first A) (granted[A], error),
) (granted[A], func() (granted[A], bool), error) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &requests[A]{outcomes: make(chan requestEnd[A]), cancel: cancel}
	answer, err := s.await(ctx, running, c, wait, request)
	if err != nil {
		return answer, s.last, err
	}
	s.end()
	return answer, nil, nil
}

func (s *requests[A]) await(
	ctx, running context.Context, c *Client, wait time.Duration,
	request func(ctx context.Context, wait time.Duration, first A) (granted[A], error),
) (granted[A], error) {
	var none A
	end := time.Now().Add(wait)
	for number := 1; ; number++ {
		left := time.Until(end)
		slice := min(left, waitSlice)
		if slice < time.Millisecond {
			return request(ctx, 0, none)
		}
		begin := time.Now()
		s.running++
		go func() {
			answer, err := request(running, slice, none)
			s.outcomes <- requestEnd[A]{number, answer, err}
		}()
		ended, ok := s.firstEnd(ctx, number, left > waitSlice)
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
func (s *requests[A]) firstEnd(ctx context.Context, number int, hasNext bool) (requestEnd[A], bool) {
	var next <-chan time.Time
	if hasNext {
		timer := time.NewTimer(waitSlice - waitOverlap)
		defer timer.Stop()
		next = timer.C
	}
	for {
		select {
		case ended := <-s.outcomes:
			s.running--
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
