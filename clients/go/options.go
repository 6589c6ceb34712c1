package tollgate

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
)

// LeaseOption changes how a lease is requested: by Admit, Poll, Run and Acquire.
type LeaseOption func(*leaseOptions)

type leaseOptions struct {
	lease    time.Duration
	wait     time.Duration
	noKeeper bool
}

// WithLease sets the length of the lease. Permits: 100 ms to 24 h, by default that of the pool.
// Locks: 1 ms to 30 days, by default 30 s.
func WithLease(d time.Duration) LeaseOption {
	return func(o *leaseOptions) { o.lease = d }
}

// WithWait makes the call wait up to d for a slot or the lock. Default: no waiting. Waiting
// calls are served in order of arrival and travel on connections of their own.
func WithWait(d time.Duration) LeaseOption {
	return func(o *leaseOptions) { o.wait = d }
}

// WithoutKeeper stops the library from renewing the lease. It then ends at its expiry, unless
// it is renewed with Renew.
func WithoutKeeper() LeaseOption {
	return func(o *leaseOptions) { o.noKeeper = true }
}

func collect(options []LeaseOption) leaseOptions {
	var o leaseOptions
	for _, option := range options {
		option(&o)
	}
	return o
}

// optional returns the duration for the wire, and nil for the default.
func optional(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}
