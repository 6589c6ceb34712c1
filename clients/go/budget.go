package tollgate

import (
	"math/rand/v2"
	"sync"
	"time"
)

// The retry budget: each call earns a fifth of a repeat, and at most ten are in reserve.
const (
	retryShare   = 0.2
	retryReserve = 10
)

// budget limits repeats to a share of the calls, so that repeats cannot multiply the load on
// servers that fail.
type budget struct {
	mu     sync.Mutex
	tokens float64
}

func newBudget() *budget {
	return &budget{tokens: retryReserve}
}

// earn counts a call.
func (b *budget) earn() {
	b.mu.Lock()
	b.tokens = min(b.tokens+retryShare, retryReserve)
	b.mu.Unlock()
}

// spend takes a repeat from the budget. It returns false if none is left.
func (b *budget) spend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// backoff returns the pauses between the attempts of a call.
type backoff struct {
	first, most time.Duration
	failures    int
}

// next returns a random pause of up to the exponential bound (full jitter), after
// retryAfter.
func (b *backoff) next(retryAfter time.Duration) time.Duration {
	bound := b.first << min(b.failures, 16)
	if bound > b.most || bound <= 0 {
		bound = b.most
	}
	b.failures++
	return retryAfter + rand.N(bound+1)
}

// jittered returns d plus up to a quarter of it, so that callers do not return together.
func jittered(d time.Duration) time.Duration {
	return d + rand.N(d/4+1)
}
