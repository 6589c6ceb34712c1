package tollgate

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tollgate/tollgate/clients/go/internal/clock"
	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

// fake is a server whose answers a test chooses.
type fake struct {
	pb.UnimplementedAdmissionServiceServer
	pb.UnimplementedRateServiceServer
	pb.UnimplementedSequenceServiceServer
	pb.UnimplementedStockServiceServer
	pb.UnimplementedLockServiceServer

	address string
	health  *health.Server
	watch   func(request *pb.WatchPoolRequest, stream grpc.ServerStreamingServer[pb.WatchPoolResponse]) error

	mu       sync.Mutex
	answer   func(n int, request proto.Message) (proto.Message, error)
	requests []proto.Message
	metadata []metadata.MD
}

// newFake starts a server. answer gets the number of the request, from 1 on.
func newFake(t *testing.T, answer func(n int, request proto.Message) (proto.Message, error), options ...grpc.ServerOption) *fake {
	t.Helper()
	f := &fake{answer: answer, health: health.NewServer()}
	intercept := grpc.UnaryInterceptor(func(ctx context.Context, request any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
		return f.play(ctx, request.(proto.Message))
	})
	server := grpc.NewServer(append(options, intercept)...)
	pb.RegisterAdmissionServiceServer(server, f)
	pb.RegisterRateServiceServer(server, f)
	pb.RegisterSequenceServiceServer(server, f)
	pb.RegisterStockServiceServer(server, f)
	pb.RegisterLockServiceServer(server, f)
	healthpb.RegisterHealthServer(server, f.health)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.address = listener.Addr().String()
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return f
}

func (f *fake) play(ctx context.Context, request proto.Message) (proto.Message, error) {
	f.mu.Lock()
	f.requests = append(f.requests, request)
	sent, _ := metadata.FromIncomingContext(ctx)
	f.metadata = append(f.metadata, sent)
	n := len(f.requests)
	f.mu.Unlock()
	answer, err := f.answer(n, request)
	if answer == nil && err == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return answer, err
}

func (f *fake) WatchPool(request *pb.WatchPoolRequest, stream grpc.ServerStreamingServer[pb.WatchPoolResponse]) error {
	return f.watch(request, stream)
}

// count returns the number of requests.
func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests)
}

// request returns the n-th request, from 1 on.
func (f *fake) request(n int) proto.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests[n-1]
}

// client returns a client of the fake with a clock of its own.
func (f *fake) client(t *testing.T) (*Client, *clock.Clock) {
	t.Helper()
	config := testConfig(f.address)
	config.clock = &clock.Clock{}
	return newClient(t, config), config.clock
}

// failure is an error of a server, with RetryInfo if retryAfter is above 0.
func failure(code codes.Code, retryAfter time.Duration) error {
	answer := status.New(code, "refused by the test")
	if retryAfter > 0 {
		answer, _ = answer.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(retryAfter)})
	}
	return answer.Err()
}

// admission is an ADMITTED answer.
func admission(expiresIn time.Duration) *pb.AdmitTaskResponse {
	return &pb.AdmitTaskResponse{
		Decision: pb.AdmitDecision_ADMIT_DECISION_ADMITTED,
		Lease:    lasting(expiresIn),
	}
}

func lasting(expiresIn time.Duration) *pb.Lease {
	return &pb.Lease{Pool: "p", DeviceId: "d", TaskId: "t", FencingToken: 7, ExpiresIn: durationpb.New(expiresIn)}
}

// leases answers admissions and renewals of a lease of the given length. Other answers take
// precedence.
func leases(expiresIn time.Duration, other func(n int, request proto.Message) (proto.Message, error)) func(int, proto.Message) (proto.Message, error) {
	return func(n int, request proto.Message) (proto.Message, error) {
		if other != nil {
			if answer, err := other(n, request); answer != nil || err != nil {
				return answer, err
			}
		}
		switch request.(type) {
		case *pb.AdmitTaskRequest:
			return admission(expiresIn), nil
		case *pb.RenewTaskRequest:
			return &pb.RenewTaskResponse{Verdict: pb.RenewVerdict_RENEW_VERDICT_RENEWED, Lease: lasting(expiresIn)}, nil
		case *pb.CompleteTaskRequest:
			return &pb.CompleteTaskResponse{Verdict: pb.CompleteVerdict_COMPLETE_VERDICT_COMPLETED}, nil
		}
		return nil, status.Error(codes.Unimplemented, "not part of the test")
	}
}
