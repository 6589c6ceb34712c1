package tollgate

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

const (
	// lateMax is the number of consecutive deadlines after which one of several servers gets no calls
	// until a health check succeeds.
	lateMax = 2
	// healthPause is the time between two health checks of such a server, healthTimeout the
	// deadline of each.
	healthPause   = 500 * time.Millisecond
	healthTimeout = 2 * time.Second

	// notTLS is the error of package tls for an answer that is not a TLS record.
	notTLS = "first record does not look like a TLS handshake"
	// reasonTLSMismatch is the reason of an error: the server uses TLS and the client does not, or
	// vice versa.
	reasonTLSMismatch = "TLS_MISMATCH"
)

// server contains what is known about a server. All connections to it share this.
type server struct {
	address   string
	alone     bool // There is no other server.
	plainText plainText
	late      atomic.Int32 // Deadlines since the last answer.
	hanging   atomic.Bool  // True from lateMax deadlines until a health check succeeds.
}

// record counts the end of a call on conn. It returns the error, with a hint if TLS is the reason.
func (s *server) record(err error, conn *grpc.ClientConn) error {
	if err == nil {
		s.late.Store(0)
		return nil
	}
	answer := status.Convert(err)
	switch answer.Code() {
	case codes.DeadlineExceeded:
		if s.late.Add(1) >= lateMax && !s.alone && s.hanging.CompareAndSwap(false, true) {
			go s.recover(conn)
		}
	case codes.Unavailable, codes.Canceled:
	default:
		s.late.Store(0)
		return err
	}
	return s.explain(answer, err)
}

// recover checks the health of a server that does not answer, until a check succeeds.
func (s *server) recover(conn *grpc.ClientConn) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
		answer, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
		cancel()
		healthy := false
		switch status.Code(err) {
		case codes.OK:
			healthy = answer.GetStatus() == healthpb.HealthCheckResponse_SERVING
		case codes.Unimplemented, codes.Unauthenticated, codes.PermissionDenied:
			healthy = true // It answers, but reports no health to this caller.
		case codes.Canceled: // The client is closed.
			return
		}
		if healthy {
			s.late.Store(0)
			s.hanging.Store(false)
			return
		}
		time.Sleep(healthPause)
	}
}

// explain adds to an error that client and server disagree about TLS.
func (s *server) explain(answer *status.Status, err error) error {
	hint := ""
	switch {
	case answer.Code() == codes.Canceled:
	case s.plainText.refusal.known():
		hint = "the server requires TLS: set Config.TLS"
	case strings.Contains(answer.Message(), notTLS):
		hint = "the server does not use TLS: leave Config.TLS nil"
	}
	if hint == "" {
		return err
	}
	explained := status.New(answer.Code(), answer.Message()+"; "+hint)
	info := &errdetails.ErrorInfo{Domain: "tollgate", Reason: reasonTLSMismatch}
	if detailed, failed := explained.WithDetails(info); failed == nil {
		explained = detailed
	}
	return explained.Err()
}
