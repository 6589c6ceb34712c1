package clock

import "time"

var start = time.Now()

// sinceStart is the fallback: it may stop while the machine sleeps.
func sinceStart() time.Duration {
	return time.Since(start)
}
