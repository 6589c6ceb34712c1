package tollgate

import (
	"context"
	"iter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

// KindGap is the kind of an event that stands for events that were missed.
const KindGap = "GAP"

// PoolEvent is a change of the state of a pool.
type PoolEvent struct {
	// Cursor is the position after this event, from which a watch can resume. It is empty for
	// a gap before the first event of a watch.
	Cursor string
	// Kind is ENQUEUED, ADMITTED, RENEWED, COMPLETED, LATE, EXPIRED, EVICTED, CANCELLED, DEAD,
	// CONFIGURED or GAP.
	Kind string
	// Device is the device; empty on CONFIGURED and GAP.
	Device string
	// Task is the task; empty on CONFIGURED and GAP.
	Task string
	// Token is the fencing token; 0 without a lease.
	Token uint64
	// Attempt is the attempt of a queued task, or 0.
	Attempt int
	// Outcome says how the task went, on COMPLETED and LATE.
	Outcome Outcome
	// Time is when it happened, on the clock of the engine; zero on GAP.
	Time time.Time
}

// RateEvent is a notice about a key, or a change of its ban.
type RateEvent struct {
	// Cursor is the position after this event, from which a watch can resume. It is empty for
	// a gap before the first event of a watch.
	Cursor string
	// Kind is WARNED, THROTTLED, BANNED, UNBANNED or GAP.
	Kind string
	// Key is the key; empty on GAP.
	Key string
	// Above is the tier that was reached, on WARNED, THROTTLED and BANNED by a rule.
	Above uint64
	// Count is the count on the first limit, with Above.
	Count uint64
	// Ban is the ban, on BANNED; else nil.
	Ban *Ban
	// Actor is the person or program that lifted the ban, on UNBANNED.
	Actor string
	// Time is when it happened, on the clock of the engine; zero on GAP.
	Time time.Time
}

// Watch returns the stored and new events of the pool after a cursor. "0" starts with the
// oldest stored event, empty with the next new one.
//
// The watch resumes at its cursor when its server is unreachable, with pauses of up to 5 s. It
// yields an event of kind GAP where events were missed. It ends with an error when ctx ends or
// when a retry cannot help, for example for a bad cursor.
func (p *Pool) Watch(ctx context.Context, after string) iter.Seq2[PoolEvent, error] {
	open := func(ctx context.Context, channel *channel, after *string) (grpc.ServerStreamingClient[pb.WatchPoolResponse], error) {
		return pb.NewAdmissionServiceClient(channel).WatchPool(ctx, &pb.WatchPoolRequest{Pool: p.name, After: after})
	}
	return watch(ctx, p.client, after, open, func(r *pb.WatchPoolResponse) (PoolEvent, string) {
		e := r.GetEvent()
		return PoolEvent{
			Cursor: e.GetCursor(), Kind: named[string](e.GetKind(), "POOL_EVENT_KIND_"),
			Device: e.GetDeviceId(), Task: e.GetTaskId(), Token: e.GetFencingToken(),
			Attempt: int(e.GetAttempt()), Outcome: Outcome(e.GetOutcome()), Time: timeOf(e.GetEventTime()),
		}, e.GetCursor()
	}, PoolEvent{Kind: KindGap})
}

// Watch returns the notices and bans of the keys of the policy, as [Pool.Watch] does.
func (p *Policy) Watch(ctx context.Context, after string) iter.Seq2[RateEvent, error] {
	open := func(ctx context.Context, channel *channel, after *string) (grpc.ServerStreamingClient[pb.WatchRatesResponse], error) {
		return pb.NewRateServiceClient(channel).WatchRates(ctx, &pb.WatchRatesRequest{Policy: p.name, After: after})
	}
	return watch(ctx, p.client, after, open, func(r *pb.WatchRatesResponse) (RateEvent, string) {
		e := r.GetEvent()
		return RateEvent{
			Cursor: e.GetCursor(), Kind: named[string](e.GetKind(), "RATE_EVENT_KIND_"), Key: e.GetKey(),
			Above: e.GetAbove(), Count: e.GetCount(), Ban: newBan(e.GetBan()), Actor: e.GetActor(), Time: timeOf(e.GetEventTime()),
		}, e.GetCursor()
	}, RateEvent{Kind: KindGap})
}

// watch reads streams one after another, each from the cursor of the last event on.
func watch[R, E any](
	ctx context.Context, c *Client, after string,
	open func(context.Context, *channel, *string) (grpc.ServerStreamingClient[R], error),
	convert func(*R) (E, string), gap E,
) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		pauses := backoff{first: 100 * time.Millisecond, most: 5 * time.Second}
		cursor, missed := after, false
		established := func() bool {
			// Without a cursor the events since the last stream are lost.
			report := missed && cursor == ""
			missed = true
			return !report || yield(gap, nil)
		}
		for {
			err := readStream(ctx, c, cursor, open, established, func(response *R) bool {
				event, position := convert(response)
				cursor = position
				pauses.failures = 0
				return yield(event, nil)
			})
			if err == nil {
				return
			}
			failure := newError(ctx, err)
			if ctx.Err() == nil && resumable(failure) {
				if sleep(ctx, pauses.next(failure.RetryAfter)) {
					continue
				}
				if err := ctx.Err(); err != nil {
					failure = newError(ctx, err)
				}
			}
			var none E
			yield(none, failure)
			return
		}
	}
}

// readStream reads one stream. It returns nil if established or next returns false.
func readStream[R any](
	ctx context.Context, c *Client, cursor string,
	open func(context.Context, *channel, *string) (grpc.ServerStreamingClient[R], error),
	established func() bool, next func(*R) bool,
) error {
	channel, done, err := c.waits.take()
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var after *string
	if cursor != "" {
		after = proto.String(cursor)
	}
	stream, err := open(ctx, channel, after)
	if err != nil {
		return err
	}
	if header, err := stream.Header(); err == nil && header != nil && !established() {
		return nil
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		if !next(response) {
			return nil
		}
	}
}

// resumable reports whether a watch may continue with a new stream after an error. The end of a
// stream without an error counts as one.
func resumable(e *Error) bool {
	switch e.Code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Internal, codes.Unknown, codes.Aborted:
		return true
	default:
		return false
	}
}
