package tollgate

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy forwards connections to a server. A test can cut them, and can drop the answers.
type proxy struct {
	address string
	silent  atomic.Bool // Drops the bytes of the server.

	mu          sync.Mutex
	connections []net.Conn
}

func newProxy(t *testing.T, server string) *proxy {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &proxy{address: listener.Addr().String()}
	t.Cleanup(func() {
		_ = listener.Close()
		p.cut()
	})
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server)
			if err != nil {
				_ = near.Close()
				continue
			}
			p.mu.Lock()
			p.connections = append(p.connections, near, far)
			p.mu.Unlock()
			go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
			go func() { _, _ = io.Copy(answers{p, near}, far); _ = near.Close() }()
		}
	}()
	return p
}

// answers writes to a connection unless the proxy is silent.
type answers struct {
	proxy *proxy
	to    io.Writer
}

func (a answers) Write(text []byte) (int, error) {
	if a.proxy.silent.Load() {
		return len(text), nil
	}
	return a.to.Write(text)
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, connection := range p.connections {
		_ = connection.Close()
	}
	p.connections = nil
}

func TestCutConnectionsLoseNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	proxy := newProxy(t, shared)
	client := newClient(t, testConfig(proxy.address))
	stock := client.Stock(name(t))
	must(stock.Set(ctx, 1000))(t)
	pool := client.Pool(name(t))
	for i := range 200 {
		if i%20 == 10 {
			cut := time.AfterFunc(time.Duration(i)*10*time.Microsecond, proxy.cut)
			defer cut.Stop()
		}
		must(stock.Add(ctx, 1, ""))(t)
		permit := admitted(t, pool, fmt.Sprint("d", i), "t")
		verdict := must(permit.Complete(ctx, Succeeded, nil))(t)
		if verdict != CompleteCompleted && verdict != CompleteAlready {
			t.Errorf("verdict is %s", verdict)
		}
	}
	equal(t, "on hand", must(stock.Status(ctx))(t).OnHand, 1200)
	equal(t, "in use", must(pool.Status(ctx))(t).Usage.InUse, 0)
}

func TestDroppedAnswersAreReplayed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	proxy := newProxy(t, shared)
	config := testConfig(proxy.address)
	config.Deadline = 2 * time.Second
	client := newClient(t, config)
	sequence := client.Sequence(name(t))
	must(sequence.Next(ctx, NextOptions{}))(t)

	proxy.silent.Store(true)
	answered := make(chan Values, 1)
	go func() {
		values, err := sequence.Next(ctx, NextOptions{})
		if err != nil {
			t.Error(err)
		}
		answered <- values
	}()
	direct := real(t).Sequence(name(t))
	eventually(t, "the server takes the value", func() bool {
		last, _, err := direct.Last(ctx)
		return err == nil && last == 2
	})
	proxy.cut()
	proxy.silent.Store(false)
	values := <-answered
	equal(t, "value", values.First, 2)
	equal(t, "replayed", values.Replayed, true)
}

func TestPermitSurvivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	address, data := freeAddress(), t.TempDir()
	stop, err := startServerAt(address, "--data-dir", data)
	if err != nil {
		t.Fatal(err)
	}
	client := newClient(t, testConfig(address))
	permit := admitted(t, client.Pool(name(t)), "d", "t", WithLease(time.Hour))
	time.Sleep(2 * time.Second) // The server writes its state each second.
	stop()
	completed := make(chan CompleteVerdict, 1)
	go func() {
		verdict, err := permit.Complete(ctx, Succeeded, nil)
		if err != nil {
			t.Error(err)
		}
		completed <- verdict
	}()
	if stop, err = startServerAt(address, "--data-dir", data); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	equal(t, "verdict", <-completed, CompleteCompleted)
}
