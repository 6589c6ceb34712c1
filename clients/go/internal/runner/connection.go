package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	tollgate "github.com/tollgate/tollgate/clients/go"
	"github.com/tollgate/tollgate/clients/go/internal/clock"
)

func open(r *runner, _ context.Context, c *command) (fields, error) {
	config := tollgate.Config{
		Addresses: c.Addresses, Token: string(c.Token), TokenFile: c.TokenFile, Namespace: c.Namespace,
		Deadline:    c.Deadline.duration(),
		DialOptions: []grpc.DialOption{grpc.WithStatsHandler(callCounter{&r.calls})},
	}
	if c.TokenCallback != "" {
		config.TokenSource = func(context.Context) (string, error) {
			text, err := os.ReadFile(c.TokenCallback)
			return strings.TrimSpace(string(text)), err
		}
	}
	if c.CA != "" {
		tls, err := tollgate.LoadTLS(c.CA, c.Cert, c.Key, c.ServerName)
		if err != nil {
			return nil, err
		}
		config.TLS = tls
	}
	client, err := tollgate.New(config)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	old := r.clients[c.Connection]
	r.clients[c.Connection] = client
	r.mu.Unlock()
	if old != nil {
		_ = old.Close()
	}
	return nil, nil
}

func closeConnection(r *runner, _ context.Context, c *command) (fields, error) {
	client, err := r.client(c)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	delete(r.clients, c.Connection)
	r.mu.Unlock()
	return nil, client.Close()
}

func cancelCommand(r *runner, _ context.Context, c *command) (fields, error) {
	r.mu.Lock()
	cancel := r.running[string(c.Target)]
	r.mu.Unlock()
	if cancel == nil {
		return nil, fmt.Errorf("command %s is not running", c.Target)
	}
	cancel()
	return nil, nil
}

func advanceClock(_ *runner, _ context.Context, c *command) (fields, error) {
	clock.System.Advance(c.Advance.duration())
	return nil, nil
}

func usage(r *runner, _ context.Context, _ *command) (fields, error) {
	debug.FreeOSMemory()
	var times syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &times); err != nil {
		return nil, err
	}
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return nil, err
	}
	var size, resident int
	if _, err := fmt.Sscan(string(statm), &size, &resident); err != nil {
		return nil, err
	}
	return fields{
		"cpu_seconds": (time.Duration(times.Utime.Nano()) + time.Duration(times.Stime.Nano())).Seconds(),
		"rss_bytes":   resident * os.Getpagesize(),
		"calls":       r.calls.Load(),
	}, nil
}

// callCounter counts requests, other than those of health checks.
type callCounter struct {
	calls *atomic.Int64
}

func (callCounter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	return ctx
}

func (c callCounter) HandleRPC(_ context.Context, event stats.RPCStats) {
	header, sent := event.(*stats.OutHeader)
	if sent && !strings.HasPrefix(header.FullMethod, "/grpc.health.") {
		c.calls.Add(1)
	}
}

func (callCounter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return ctx
}

func (callCounter) HandleConn(context.Context, stats.ConnStats) {}
