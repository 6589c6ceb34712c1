package tollgate

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

func TestCheckCountsAndRefuses(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	policy := real(t).Policy("three")
	for n := uint64(1); n <= 3; n++ {
		answer := must(policy.Check(ctx, name(t)))(t)
		equal(t, "allowed", answer.Allowed, true)
		equal(t, "verdict", answer.Verdict, Allow)
		equal(t, "count", answer.Limits[0].Count, n)
		equal(t, "max", answer.Limits[0].Max, 3)
	}
	refused := must(policy.Check(ctx, name(t)))(t)
	equal(t, "allowed", refused.Allowed, false)
	equal(t, "verdict", refused.Verdict, Throttle)
	if refused.RetryAfter <= 0 {
		t.Errorf("retry after %v", refused.RetryAfter)
	}
	equal(t, "existed", must(policy.Reset(ctx, name(t)))(t), true)
	first := must(policy.Check(ctx, name(t), WithCost(2), WithRequestID("r")))(t)
	repeat := must(policy.Check(ctx, name(t), WithCost(2), WithRequestID("r")))(t)
	equal(t, "replayed", first.Replayed, false)
	equal(t, "replayed", repeat.Replayed, true)
	equal(t, "count", repeat.Limits[0].Count, 2)
}

// threeAnHour is a rule for calls.
func threeAnHour() *pb.Rule {
	three := uint64(3)
	return &pb.Rule{Limits: []*pb.Limit{{Max: &three, Window: durationpb.New(time.Hour)}}}
}

func TestRuleOfTheCaller(t *testing.T) {
	t.Parallel()
	policy := real(t).Policy("", WithRule(threeAnHour()))
	equal(t, "first", must(policy.Check(context.Background(), name(t), WithCost(3)))(t).Allowed, true)
	equal(t, "second", must(policy.Check(context.Background(), name(t)))(t).Allowed, false)
}

func TestBans(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	policy := real(t).Policy("crawler")
	verdicts := []Verdict{}
	var last RateAnswer
	for range 3 {
		last = must(policy.Check(ctx, name(t)))(t)
		verdicts = append(verdicts, last.Verdict)
	}
	if !slices.Equal(verdicts, []Verdict{Allow, Warn, Banned}) {
		t.Errorf("verdicts are %v", verdicts)
	}
	equal(t, "crossed", last.Crossed, true)
	equal(t, "banned key", last.Ban.Key, name(t))
	found := false
	for ban, err := range policy.Bans(ctx) {
		equal(t, "error", err, nil)
		found = found || ban.Key == name(t)
	}
	equal(t, "listed", found, true)
	key := must(policy.Key(ctx, name(t)))(t)
	equal(t, "banned until", key.Ban.Until, last.Ban.Until)
	equal(t, "strikes", key.Strikes, 1)
	equal(t, "limits", len(key.Limits), len(last.Limits))
	equal(t, "unban", must(policy.Unban(ctx, name(t)))(t), true)
	ban := must(policy.Ban(ctx, name(t), time.Hour, "by hand"))(t)
	equal(t, "reason", ban.Reason, "by hand")
}

func TestFailOpenAndFailClosed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	config := testConfig(freeAddress())
	config.Deadline = 200 * time.Millisecond
	client := newClient(t, config)
	open := must(client.Policy("three", FailOpen()).Check(ctx, "k"))(t)
	if !open.Allowed || !open.Degraded || open.Err == nil || open.Verdict != "" {
		t.Errorf("FailOpen answers %+v", open)
	}
	closed := must(client.Policy("three", FailClosed()).Check(ctx, "k"))(t)
	if closed.Allowed || !closed.Degraded || closed.Err == nil || closed.RetryAfter < time.Second {
		t.Errorf("FailClosed answers %+v", closed)
	}
	unknown := must(real(t).Policy("never configured", FailOpen()).Check(ctx, "k"))(t)
	var failed *Error
	if !unknown.Allowed || !unknown.Degraded || !errors.As(unknown.Err, &failed) || failed.Reason != "POLICY_NOT_FOUND" {
		t.Errorf("an unknown policy answers %+v", unknown)
	}
	if _, err := real(t).Policy("never configured", FailClosed()).Check(ctx, "k"); !errors.As(err, &failed) || failed.Code != codes.NotFound {
		t.Errorf("an unknown policy answers %v", err)
	}
	if _, err := real(t).Policy("three", FailOpen()).Check(ctx, ""); !errors.As(err, &failed) || failed.Code != codes.InvalidArgument {
		t.Errorf("a bad key answers %v", err)
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	header := http.Header{}
	RateAnswer{RetryAfter: 1500 * time.Millisecond, Limits: []LimitUsage{
		{Max: 10, Remaining: 4, ResetAfter: 29001 * time.Millisecond, Window: time.Minute},
		{Name: "a \"b\" ü", Max: 1 << 40, Window: time.Hour},
	}}.SetHeaders(header)
	equal(t, "RateLimit", header.Get("RateLimit"), `"default";r=4;t=30, "a \"b\" %C3%BC";r=0;t=0`)
	equal(t, "RateLimit-Policy", header.Get("RateLimit-Policy"), `"default";q=10;w=60, "a \"b\" %C3%BC";q=1099511627776;w=3600`)
	equal(t, "Retry-After", header.Get("Retry-After"), "2")
	allowed := http.Header{}
	RateAnswer{Allowed: true}.SetHeaders(allowed)
	equal(t, "headers of an answer without limits", len(allowed), 0)
}

// get makes a request of a caller and returns its status and headers.
func get(t *testing.T, address, caller string) (int, http.Header) {
	t.Helper()
	request := must(http.NewRequest(http.MethodGet, address, nil))(t)
	request.Header.Set("X-Caller", caller)
	response := must(http.DefaultClient.Do(request))(t)
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Header
}

func byHeader(r *http.Request) string { return r.Header.Get("X-Caller") }

func TestMiddlewareOfHTTP(t *testing.T) {
	t.Parallel()
	served := 0
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ })
	server := httptest.NewServer(real(t).Policy("three").Middleware(byHeader)(handler))
	defer server.Close()
	for n := range 3 {
		status, header := get(t, server.URL, name(t))
		equal(t, "status", status, 200)
		equal(t, "limit", header.Get("RateLimit")[:13], `"minute";r=`+string(rune('2'-n))+";")
		equal(t, "policy", header.Get("RateLimit-Policy"), `"minute";q=3;w=60`)
		equal(t, "Retry-After", header.Get("Retry-After"), "")
	}
	status, header := get(t, server.URL, name(t))
	equal(t, "status", status, 429)
	equal(t, "has Retry-After", header.Get("Retry-After") != "", true)
	equal(t, "limit", header.Get("RateLimit")[:13], `"minute";r=0;`)
	status, header = get(t, server.URL, "")
	equal(t, "status without a key", status, 200)
	equal(t, "header without a key", header.Get("RateLimit"), "")
	equal(t, "served", served, 4)
}

func TestMiddlewareOfHTTPWithoutAServer(t *testing.T) {
	t.Parallel()
	config := testConfig(freeAddress())
	config.Deadline, config.RetryFor = 200*time.Millisecond, time.Millisecond
	client := newClient(t, config)
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, test := range []struct {
		policy *Policy
		status int
	}{
		{client.Policy("three"), 503}, {client.Policy("three", FailOpen()), 200}, {client.Policy("three", FailClosed()), 429},
	} {
		server := httptest.NewServer(test.policy.Middleware(byHeader)(handler))
		status, _ := get(t, server.URL, "k")
		equal(t, "status", status, test.status)
		server.Close()
	}
}

func TestInterceptorsOfGRPC(t *testing.T) {
	t.Parallel()
	policy := real(t).Policy("three")
	key := func(kind string) func(context.Context, string) string {
		return func(_ context.Context, method string) string { return name(t) + kind + method }
	}
	server := grpc.NewServer(
		grpc.UnaryInterceptor(policy.UnaryServerInterceptor(key("unary"))),
		grpc.StreamInterceptor(policy.StreamServerInterceptor(key("stream"))),
	)
	healthpb.RegisterHealthServer(server, health.NewServer())
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	connection := must(grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer connection.Close()
	client := healthpb.NewHealthClient(connection)

	unary := func() error {
		_, err := client.Check(context.Background(), &healthpb.HealthCheckRequest{})
		return err
	}
	stream := func() error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		answers, err := client.Watch(ctx, &healthpb.HealthCheckRequest{})
		if err != nil {
			return err
		}
		_, err = answers.Recv()
		return err
	}
	for _, call := range []func() error{unary, stream} {
		for range 3 {
			if err := call(); err != nil {
				t.Fatal(err)
			}
		}
		refused := newError(context.Background(), call())
		equal(t, "code", refused.Code, codes.ResourceExhausted)
		equal(t, "reason", refused.Reason, "RATE_LIMITED")
		equal(t, "has RetryInfo", refused.RetryAfter > 0, true)
	}
}
