package tollgate

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/tollgate/tollgate/clients/go/internal/clock"
	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

// Client is a connection to one or more servers. Create it once and share it: all its methods can
// be called concurrently.
type Client struct {
	config Config
	clock  *clock.Clock
	budget *budget
	flying inFlight
	main   *channel
	waits  *waitChannels
	keeper *keeper
	claims *claims
	checks *checkLog

	admissions pb.AdmissionServiceClient
	rates      pb.RateServiceClient
	sequences  pb.SequenceServiceClient
	locks      pb.LockServiceClient
	stock      pb.StockServiceClient
}

// New returns a client. It connects in the background; a server that does not answer fails
// the calls, not New. A token or namespace with a bad character fails with an [*Error] that
// names the field. Close the client after use.
func New(config Config) (*Client, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	main, err := newChannel(config)
	if err != nil {
		return nil, err
	}
	client := &Client{
		config:     config,
		clock:      config.clock,
		budget:     newBudget(),
		flying:     newInFlight(),
		main:       main,
		waits:      &waitChannels{config: config},
		keeper:     newKeeper(config.clock),
		checks:     newCheckLog(config.Logger),
		admissions: pb.NewAdmissionServiceClient(main),
		rates:      pb.NewRateServiceClient(main),
		sequences:  pb.NewSequenceServiceClient(main),
		locks:      pb.NewLockServiceClient(main),
		stock:      pb.NewStockServiceClient(main),
	}
	client.claims = newClaims(client)
	return client, nil
}

// Close closes all permits and locks, and ends all calls and connections. Leases without a result
// end on the server at their expiry, and so do locks.
func (c *Client) Close() error {
	c.keeper.close()
	c.claims.close()
	c.waits.close()
	c.main.close()
	return nil
}

// Conn returns the connection, for calls with the generated code of package tollgatepb. Such
// calls carry token and namespace, but have no deadline and are not retried.
func (c *Client) Conn() grpc.ClientConnInterface {
	return c.main
}

// plan says how a call is made.
type plan struct {
	deadline time.Duration // Of each attempt.
	waits    bool          // The call travels on a connection for waiting calls.
	once     bool          // The call is never repeated.
	persist  bool          // The call is repeated until the context of the caller ends.
}

func (c *Client) plan() plan {
	return plan{deadline: c.config.Deadline}
}

// call makes a call and repeats it as the plan says. It also returns the time on the clock of
// the client before the answered request was sent.
func call[Q, A any](
	ctx context.Context, c *Client, p plan, request Q,
	rpc func(context.Context, Q, ...grpc.CallOption) (A, error),
) (A, time.Duration, error) {
	c.budget.earn()
	pauses := backoff{first: 50 * time.Millisecond, most: time.Second}
	var end time.Time // Of the retries.
	for {
		done, err := c.flying.take(ctx, p, request)
		if err != nil {
			var none A
			return none, 0, err
		}
		if end.IsZero() {
			end = time.Now().Add(c.config.RetryFor + p.deadline - c.config.Deadline)
		}
		sent := c.clock.Now()
		attempt, cancel := context.WithTimeout(ctx, p.deadline)
		answer, err := rpc(attempt, request)
		cancel()
		done()
		if err == nil {
			return answer, sent, nil
		}
		failure := newError(ctx, err)
		if message, ok := any(request).(proto.Message); ok && failure.Code == codes.Internal {
			if invalid := invalidText(message, ""); invalid != nil {
				return answer, sent, invalid
			}
		}
		pause := pauses.next(failure.RetryAfter)
		again := ctx.Err() == nil && !p.once && repeatable(failure)
		if again && !p.persist {
			again = time.Now().Add(pause).Before(end) && c.budget.spend()
		}
		if !again {
			return answer, sent, failure
		}
		if !sleep(ctx, pause) {
			if err := ctx.Err(); err != nil {
				failure = newError(ctx, err)
			}
			return answer, sent, failure
		}
	}
}

// repeatable reports whether a repeat of a safe call may succeed after an error.
func repeatable(e *Error) bool {
	switch e.Code {
	case codes.Unavailable, codes.DeadlineExceeded:
		return true
	case codes.ResourceExhausted:
		return e.RetryAfter > 0
	default:
		return false
	}
}

// sleep waits for d. It returns false if the context ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	if end, set := ctx.Deadline(); set && time.Until(end) < d {
		return false
	}
	return pauseFor(ctx, d)
}
