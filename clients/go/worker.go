package tollgate

import (
	"context"
	"time"
)

// DefaultPollInterval is the pause of a [Worker] while nothing is queued for its device.
const DefaultPollInterval = time.Second

// Handler runs one task. ctx ends when the lease of the task is lost, with a cause that wraps
// [ErrLost]. The task is reported as Succeeded with the returned result, or as Failed with the
// text of the error or panic.
type Handler func(ctx context.Context, permit *Permit) (result []byte, err error)

// Worker runs the queued tasks of one device, one after another. Change the fields only before
// Run.
type Worker struct {
	// Lease is the length of leases. Default: that of the pool.
	Lease time.Duration
	// Wait is the time that each request waits for a slot of a full pool. Default: 0; the
	// worker asks again after the time that the server names.
	Wait time.Duration
	// PollInterval is the pause while nothing is queued. Default: [DefaultPollInterval].
	PollInterval time.Duration
	// OnDone is called after each report of a result, with its verdict or error. Default: nil.
	OnDone func(permit *Permit, verdict CompleteVerdict, err error)
	// OnError is called after each failed request for a task. Default: nil.
	OnError func(err error)

	pool    *Pool
	device  string
	handler Handler
}

// Worker returns a worker for a device. It makes no call before Run.
func (p *Pool) Worker(device string, handler Handler) *Worker {
	return &Worker{pool: p, device: device, handler: handler}
}

// Run takes and runs tasks until ctx ends or the client is closed. A task that runs when ctx
// ends is finished and reported before Run returns: its context does not end with ctx. Run
// returns the number of tasks whose result was reported.
//
// After an error of a request Run tries again, with pauses of up to 5 s. Permanent errors, such
// as a wrong token, are reported to OnError only.
func (w *Worker) Run(ctx context.Context) int {
	done := 0
	pauses := backoff{first: 100 * time.Millisecond, most: 5 * time.Second}
	options := []LeaseOption{WithWait(w.Wait), WithLease(w.Lease)}
	for ctx.Err() == nil {
		var pause time.Duration
		admission, err := w.poll(ctx, options)
		switch {
		case ctx.Err() != nil && admission.Permit == nil:
			return done
		case err != nil:
			if w.OnError != nil {
				w.OnError(err)
			}
			if w.pool.client.waits.isClosed() {
				return done
			}
			pause = pauses.next(newError(ctx, err).RetryAfter)
		case admission.Permit != nil:
			pauses.failures = 0
			if w.work(context.WithoutCancel(ctx), admission.Permit) {
				done++
			}
		case admission.Refusal.RetryAfter > 0:
			pause = jittered(admission.Refusal.RetryAfter)
		default:
			pause = jittered(w.interval())
		}
		if pause > 0 && !pauseFor(ctx, pause) {
			return done
		}
	}
	return done
}

// poll asks for a task. The permit must outlive ctx, but a wait must end with it.
func (w *Worker) poll(ctx context.Context, options []LeaseOption) (Admission, error) {
	admission, err := w.pool.Poll(ctx, w.device, options...)
	if admission.Permit != nil {
		admission.Permit.detach()
	}
	return admission, err
}

func (w *Worker) interval() time.Duration {
	if w.PollInterval > 0 {
		return w.PollInterval
	}
	return DefaultPollInterval
}

// work runs one task and reports its result.
func (w *Worker) work(ctx context.Context, permit *Permit) (reported bool) {
	defer permit.Close(ctx)
	result, err := w.handler(permit.Context(), permit)
	outcome := Succeeded
	if err != nil {
		outcome, result = Failed, failureText(err.Error())
	}
	// A lease that is lost still takes its result. Retries end when nobody waits for it.
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	verdict, err := permit.Complete(ctx, outcome, result)
	if w.OnDone != nil {
		w.OnDone(permit, verdict, err)
	}
	return err == nil
}

// pauseFor waits for d or until ctx ends, which it reports as false.
func pauseFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
