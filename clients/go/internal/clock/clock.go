// Package clock measures elapsed time, including the time in which the machine sleeps.
package clock

import (
	"sync/atomic"
	"time"
)

// Clock is a monotonic clock. The zero value is ready for use.
type Clock struct {
	offset atomic.Int64
}

// System is the clock of all clients without a clock of their own.
var System Clock

// Now returns the time since an arbitrary fixed moment.
func (c *Clock) Now() time.Duration {
	return elapsed() + time.Duration(c.offset.Load())
}

// Advance moves the clock forward by d, as if the machine had slept.
func (c *Clock) Advance(d time.Duration) {
	c.offset.Add(int64(d))
}
