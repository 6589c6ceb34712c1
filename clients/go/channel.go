package tollgate

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/health" // Lets channels skip servers that are not serving.
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

const (
	roundRobin   = `{"loadBalancingConfig":[{"round_robin":{}}]}`
	healthyFirst = `{"loadBalancingConfig":[{"round_robin":{}}],"healthCheckConfig":{"serviceName":""}}`
)

// channel sends calls to the servers in turn.
//
// It skips servers that hang, that are unreachable or that are not serving. If none is left, it
// calls any: a server without its store still gives the fallback answers of its configuration.
type channel struct {
	members []*member
	next    atomic.Uint32
}

// member is a server with its connections.
type member struct {
	*server
	any     *grpc.ClientConn
	healthy *grpc.ClientConn // Skips addresses that are not serving. Nil for one address.
}

func newChannel(config Config) (*channel, error) {
	c := &channel{}
	for _, server := range config.servers {
		m, err := newMember(config, server)
		if err != nil {
			c.close()
			return nil, err
		}
		c.members = append(c.members, m)
	}
	return c, nil
}

func newMember(config Config, server *server) (*member, error) {
	all, err := dial(config, server, roundRobin)
	if err != nil {
		return nil, err
	}
	m := &member{server: server, any: all}
	if server.alone && isIP(server.address) {
		return m, nil
	}
	if m.healthy, err = dial(config, server, healthyFirst); err != nil {
		_ = all.Close()
		return nil, err
	}
	if !server.alone {
		m.healthy.Connect()
	}
	return m, nil
}

func isIP(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && net.ParseIP(host) != nil
}

// dial opens a connection to a server. It does not wait for the server.
func dial(config Config, server *server, balancing string) (*grpc.ClientConn, error) {
	var security credentials.TransportCredentials = server.plainText
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
	// A name of several addresses stands for a set of servers only if it is the only one.
	target := "dns:///" + server.address
	if !server.alone {
		target = "passthrough:///" + server.address
	}
	return grpc.NewClient(target, append(options, config.DialOptions...)...)
}

// pick returns the server for the next call: the best one, and of equal ones the next in turn.
func (c *channel) pick() *member {
	first := c.next.Add(1)
	var best *member
	most := -1
	for i := range c.members {
		m := c.members[(uint(first)+uint(i))%uint(len(c.members))]
		if rank := m.rank(); rank > most {
			best, most = m, rank
		}
	}
	return best
}

// rank says how well a server takes calls.
func (m *member) rank() int {
	if m.alone {
		return 0
	}
	if m.hanging.Load() {
		return 0
	}
	switch m.healthy.GetState() {
	case connectivity.Ready:
		return 4
	case connectivity.Idle:
		m.healthy.Connect()
		return 3
	case connectivity.Connecting:
		return 3
	}
	if m.any.GetState() == connectivity.TransientFailure {
		return 1
	}
	return 2 // It may be reachable without serving.
}

// conn returns the connection for the next call.
func (m *member) conn() *grpc.ClientConn {
	if m.healthy != nil && m.healthy.GetState() != connectivity.TransientFailure {
		return m.healthy
	}
	return m.any
}

// Invoke implements grpc.ClientConnInterface.
func (c *channel) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	m := c.pick()
	return m.record(m.conn().Invoke(ctx, method, args, reply, opts...), m.any)
}

// NewStream implements grpc.ClientConnInterface.
func (c *channel) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	m := c.pick()
	stream, err := m.conn().NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, m.record(err, m.any)
	}
	return stream, nil
}

func (c *channel) close() {
	for _, m := range c.members {
		_ = m.any.Close()
		if m.healthy != nil {
			_ = m.healthy.Close()
		}
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

// isClosed reports whether the client is closed.
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
