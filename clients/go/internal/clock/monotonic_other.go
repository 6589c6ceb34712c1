//go:build !linux && !darwin

package clock

import "time"

func elapsed() time.Duration {
	return sinceStart()
}
