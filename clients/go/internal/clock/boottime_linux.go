package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// CLOCK_BOOTTIME advances while the machine sleeps. The monotonic clock of package time does
// not.
func elapsed() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return sinceStart()
	}
	return time.Duration(now.Nano())
}
