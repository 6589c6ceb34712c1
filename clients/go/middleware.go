package tollgate

import (
	"context"
	"errors"
	"net/http"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Middleware limits HTTP requests. key returns the key of a request, for example the API key of
// its caller. Requests with an empty key are not checked. Nil means [ByAddress] with [IPv6Bits].
//
// Each checked answer has the headers RateLimit and RateLimit-Policy. A refused request gets 429 with
// Retry-After. A request that cannot be decided gets 503, unless the policy has FailOpen or
// FailClosed.
func (p *Policy) Middleware(key func(r *http.Request) string) func(next http.Handler) http.Handler {
	if key == nil {
		key = ByAddress(IPv6Bits)
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			caller := key(r)
			if caller == "" {
				next.ServeHTTP(w, r)
				return
			}
			answer, err := p.Check(r.Context(), caller)
			if err != nil {
				p.log("the request gets 503", err)
				var failure *Error
				if errors.As(err, &failure) && failure.RetryAfter > 0 {
					w.Header().Set("Retry-After", seconds(failure.RetryAfter))
				}
				http.Error(w, "rate limit cannot be checked", http.StatusServiceUnavailable)
				return
			}
			answer.SetHeaders(w.Header())
			if !answer.Allowed {
				http.Error(w, "rate limit exceeded", http.StatusTooManyRequests)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// UnaryServerInterceptor limits unary gRPC calls. key returns the key of a call; calls with an
// empty key are not checked. Nil means [ByPeer] with [IPv6Bits]. method is the full name, such as
// "/shop.v1.Orders/Create".
//
// A refused call fails with RESOURCE_EXHAUSTED, with RetryInfo and the reason RATE_LIMITED of
// ErrorInfo. A call that cannot be decided fails with UNAVAILABLE, unless the policy has
// FailOpen or FailClosed.
func (p *Policy) UnaryServerInterceptor(key func(ctx context.Context, method string) string) grpc.UnaryServerInterceptor {
	if key == nil {
		key = ByPeer(IPv6Bits)
	}
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if err := p.admitCall(ctx, key(ctx, info.FullMethod)); err != nil {
			return nil, err
		}
		return handler(ctx, request)
	}
}

// StreamServerInterceptor limits streams: each stream counts as one call, at its start. It
// refuses as [Policy.UnaryServerInterceptor] does.
func (p *Policy) StreamServerInterceptor(key func(ctx context.Context, method string) string) grpc.StreamServerInterceptor {
	if key == nil {
		key = ByPeer(IPv6Bits)
	}
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if err := p.admitCall(stream.Context(), key(stream.Context(), info.FullMethod)); err != nil {
			return err
		}
		return handler(server, stream)
	}
}

// admitCall returns the status of a call that may not pass.
func (p *Policy) admitCall(ctx context.Context, key string) error {
	if key == "" {
		return nil
	}
	answer, err := p.Check(ctx, key)
	if err != nil {
		p.log("the call gets UNAVAILABLE", err)
		return status.Error(codes.Unavailable, "rate limit cannot be checked")
	}
	if answer.Allowed {
		return nil
	}
	refusal := status.New(codes.ResourceExhausted, "rate limit exceeded")
	detailed, err := refusal.WithDetails(
		&errdetails.RetryInfo{RetryDelay: durationpb.New(answer.RetryAfter)},
		&errdetails.ErrorInfo{Domain: "tollgate", Reason: "RATE_LIMITED"},
	)
	if err != nil {
		return refusal.Err()
	}
	return detailed.Err()
}
