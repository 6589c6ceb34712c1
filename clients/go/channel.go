package tollgate

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/health" // Lets channels skip servers that are not serving.
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

const (
	roundRobin   = `{"loadBalancingConfig":[{"round_robin":{}}]}`
	healthyFirst = `{"loadBalancingConfig":[{"round_robin":{}}],"healthCheckConfig":{"serviceName":""}}`
)

// channel sends calls to the servers in turn.
//
// Of several servers it skips those that are not serving. If none is serving, it calls any:
// a server without its store still gives the fallback answers of its configuration.
type channel struct {
	any     *grpc.ClientConn
	healthy *grpc.ClientConn // Nil for a single server.
}

func newChannel(config Config) (*channel, error) {
	all, err := dial(config, roundRobin)
	if err != nil {
		return nil, err
	}
	c := &channel{any: all}
	if len(config.Addresses) == 1 && isIP(config.Addresses[0]) {
		return c, nil
	}
	if c.healthy, err = dial(config, healthyFirst); err != nil {
		_ = all.Close()
		return nil, err
	}
	return c, nil
}

func isIP(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && net.ParseIP(host) != nil
}

// dial opens a connection to all addresses. It does not wait for the servers.
func dial(config Config, balancing string) (*grpc.ClientConn, error) {
	var security credentials.TransportCredentials = config.plainText
	if config.TLS != nil {
		security = credentials.NewTLS(config.TLS)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(security),
		grpc.WithUserAgent("tollgate-go/" + Version),
		grpc.WithPerRPCCredentials(newCaller(config)),
		grpc.WithDefaultServiceConfig(balancing),
		grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: grpcbackoff.Config{
				BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second,
			},
			MinConnectTimeout: 2 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
	}
	target := "dns:///" + config.Addresses[0]
	if len(config.Addresses) > 1 {
		servers := manual.NewBuilderWithScheme("tollgate")
		state := resolver.State{}
		for _, address := range config.Addresses {
			host, _, _ := strings.Cut(address, ":")
			if name, _, err := net.SplitHostPort(address); err == nil {
				host = name
			}
			endpoint := resolver.Address{Addr: address, ServerName: host}
			state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{endpoint}})
		}
		servers.InitialState(state)
		options = append(options, grpc.WithResolvers(servers))
		target = "tollgate:///servers"
	}
	return grpc.NewClient(target, append(options, config.DialOptions...)...)
}

// conn returns the connection for the next call.
func (c *channel) conn() *grpc.ClientConn {
	if c.healthy != nil && c.healthy.GetState() != connectivity.TransientFailure {
		return c.healthy
	}
	return c.any
}

// Invoke implements grpc.ClientConnInterface.
func (c *channel) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c.conn().Invoke(ctx, method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (c *channel) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.conn().NewStream(ctx, desc, method, opts...)
}

func (c *channel) close() {
	_ = c.any.Close()
	if c.healthy != nil {
		_ = c.healthy.Close()
	}
}

// waitsPerChannel is the number of calls that wait on one channel. Servers accept 256 calls
// on a connection by default.
const waitsPerChannel = 200

// waitChannels are the channels of waiting calls and watches, which would otherwise use up
// the streams of the connections that renew leases.
type waitChannels struct {
	config Config

	mu       sync.Mutex
	closed   bool
	channels []*waitChannel
}

type waitChannel struct {
	*channel
	waits int
}

// take returns a channel with room for one more waiting call, and a function that returns
// the room.
func (w *waitChannels) take() (*channel, func(), error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, nil, status.Error(codes.Canceled, "the client is closed")
	}
	for _, c := range w.channels {
		if c.waits < waitsPerChannel {
			c.waits++
			return c.channel, func() { w.give(c) }, nil
		}
	}
	opened, err := newChannel(w.config)
	if err != nil {
		return nil, nil, err
	}
	c := &waitChannel{opened, 1}
	w.channels = append(w.channels, c)
	return c.channel, func() { w.give(c) }, nil
}

func (w *waitChannels) give(c *waitChannel) {
	w.mu.Lock()
	c.waits--
	w.mu.Unlock()
}

// isClosed tells whether the client is closed.
func (w *waitChannels) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

func (w *waitChannels) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, c := range w.channels {
		c.close()
	}
}
