package tollgate

import (
	"context"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

// callsInFlight is the number of calls that a client sends at a time. Servers accept 256 calls
// on a connection by default; gRPC would queue further calls while their deadlines run.
const callsInFlight = 200

// inFlight are the calls that a client has sent. Further calls wait for their turn.
type inFlight chan struct{}

func newInFlight() inFlight {
	return make(inFlight, callsInFlight)
}

// take waits until a request may be sent. It returns a function to call after the answer, or
// the error of the context. Requests that keep or end a lease do not wait, nor those that
// travel on connections of their own.
func (f inFlight) take(ctx context.Context, p plan, request any) (func(), error) {
	if p.waits {
		return func() {}, nil
	}
	switch request.(type) {
	case *pb.RenewTaskRequest, *pb.RenewTasksRequest, *pb.RenewLockRequest,
		*pb.CompleteTaskRequest, *pb.CompleteTasksRequest, *pb.ReleaseLockRequest:
		return func() {}, nil
	}
	select {
	case f <- struct{}{}:
		return func() { <-f }, nil
	case <-ctx.Done():
		return nil, newError(ctx, ctx.Err())
	}
}
