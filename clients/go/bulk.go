package tollgate

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

const (
	// bulkItems is the number of items of one request.
	bulkItems = 1000
	// bulkBytes is the size of one request, below the 4 MiB of the contract.
	bulkBytes = 3 << 20
	// bulkDeadlines is the deadline of one request, in deadlines of a single call.
	bulkDeadlines = 5
)

// chunks cuts items into parts that fit into one request each.
func chunks[Q proto.Message](items []Q) [][]Q {
	var parts [][]Q
	from, bytes := 0, 0
	for i, item := range items {
		size := proto.Size(item) + 8
		if i > from && (i-from == bulkItems || bytes+size > bulkBytes) {
			parts = append(parts, items[from:i])
			from, bytes = i, 0
		}
		bytes += size
	}
	if from < len(items) {
		parts = append(parts, items[from:])
	}
	return parts
}

// outcome is the answer to one item, or its error.
type outcome[A any] struct {
	answer A
	sent   time.Duration
	err    *Error
}

// bulk sends items in as few requests as possible. Items that fail with a repeatable error are
// sent again within the retry budget. Items that gRPC cannot encode are not sent. send makes one
// request.
func bulk[Q proto.Message, A any](
	ctx context.Context, c *Client, items []Q,
	send func(ctx context.Context, p plan, items []Q) ([]outcome[A], error),
) []outcome[A] {
	results := make([]outcome[A], len(items))
	pending := make([]int, 0, len(items))
	for i, item := range items {
		if err := invalidText(item, fmt.Sprintf("requests[%d].", i)); err != nil {
			results[i].err = err
			continue
		}
		pending = append(pending, i)
	}
	pauses := backoff{first: 50 * time.Millisecond, most: time.Second}
	end := time.Now().Add(c.config.RetryFor)
	plan := c.plan()
	plan.deadline *= bulkDeadlines
	for {
		batch := make([]Q, len(pending))
		for i, index := range pending {
			batch[i] = items[index]
		}
		var failed []int
		var retryAfter time.Duration
		at := 0
		for _, part := range chunks(batch) {
			answers, decided := sendPart(ctx, plan, part, send)
			for i, answer := range answers {
				index := pending[at+i]
				if answer.err != nil {
					renumber(answer.err, index)
					if decided && repeatable(answer.err) {
						failed = append(failed, index)
						retryAfter = max(retryAfter, answer.err.RetryAfter)
					}
				}
				results[index] = answer
			}
			at += len(part)
		}
		pause := pauses.next(retryAfter)
		if len(failed) == 0 || ctx.Err() != nil || !time.Now().Add(pause).Before(end) || !c.budget.spend() || !sleep(ctx, pause) {
			return results
		}
		pending = failed
	}
}

// sendPart makes one request and returns an answer for each item, and whether the server
// decided the request. If it did not, the request was repeated already.
func sendPart[Q proto.Message, A any](
	ctx context.Context, p plan, part []Q,
	send func(ctx context.Context, p plan, items []Q) ([]outcome[A], error),
) ([]outcome[A], bool) {
	answers, err := send(ctx, p, part)
	if err == nil && len(answers) != len(part) {
		err = &Error{Code: codes.Internal, Message: fmt.Sprintf("%d answers for %d items", len(answers), len(part))}
	}
	if err == nil {
		return answers, true
	}
	answers = make([]outcome[A], len(part))
	for i := range answers {
		failure := *newError(ctx, err)
		answers[i].err = &failure
	}
	return answers, false
}

var itemPath = regexp.MustCompile(`^requests\[\d+\]`)

// renumber makes violations name the index in the list of the caller.
func renumber(e *Error, index int) {
	for i := range e.Violations {
		e.Violations[i].Field = itemPath.ReplaceAllLiteralString(e.Violations[i].Field, "requests["+strconv.Itoa(index)+"]")
	}
}

// sendWith returns the function that makes one request of a bulk call.
func sendWith[Q, R, S, T, A any](
	c *Client, wrap func([]Q) R, rpc func(context.Context, R, ...grpc.CallOption) (S, error),
	results func(S) []T, unwrap func(T) (A, *pb.ItemError),
) func(context.Context, plan, []Q) ([]outcome[A], error) {
	return func(ctx context.Context, p plan, items []Q) ([]outcome[A], error) {
		answer, sent, err := call(ctx, c, p, wrap(items), rpc)
		if err != nil {
			return nil, err
		}
		outcomes := make([]outcome[A], 0, len(items))
		for _, result := range results(answer) {
			item, failure := unwrap(result)
			outcomes = append(outcomes, outcome[A]{item, sent, itemError(failure)})
		}
		return outcomes, nil
	}
}
