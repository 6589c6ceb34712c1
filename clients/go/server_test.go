package tollgate

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// settings is the configuration of the test server.
const settings = `
[[policy]]
name = "three"
[[policy.limit]]
name = "minute"
max = 3
window = "1m"

[[policy]]
name = "two limits"
[[policy.limit]]
name = "burst \"1\""
max = 100
window = "1s"
[[policy.limit]]
name = "hour"
max = 1000
window = "1h"

[[policy]]
name = "crawler"
[[policy.limit]]
max = 2
window = "1m"
[[policy.tier]]
above = 1
action = "WARN"
[[policy.tier]]
above = 2
action = "BAN"
ban_durations = ["5m"]

[[sequence]]
match = "order:*"
layout = "ORD-{yyyyMMdd}-{n:06}"

[[sequence]]
match = "few:*"
layout = "{yyyyMMddHHmmssSSS}{n:01}"

[[sequence]]
match = "odd:*"
layout = "A7-{yyyyMMddHHmmssSSS}{n:01}"
`

// shared is the address of the server of most tests.
var shared string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	folder, err := os.MkdirTemp("", "tollgate-go-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "tollgate.toml")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	address, stop, err := startServer("--config", file)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer stop()
	shared = address
	return m.Run()
}

// startServer starts a server of Tollgate and waits until it answers.
func startServer(arguments ...string) (address string, stop func(), err error) {
	address = freeAddress()
	stop, err = startServerAt(address, arguments...)
	return address, stop, err
}

func startServerAt(address string, arguments ...string) (stop func(), err error) {
	binary := os.Getenv("TOLLGATE_BINARY")
	if binary == "" {
		binary = "../../target/debug/tollgate"
	}
	arguments = append([]string{"serve", "--listen", address, "--admin", "off"}, arguments...)
	server := exec.Command(binary, arguments...)
	server.Stderr = os.Stderr
	if os.Getenv("TOLLGATE_LOG") == "" {
		server.Stderr = nil
	}
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w; run cargo build, or set TOLLGATE_BINARY", err)
	}
	stop = func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}
	for range 300 {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			_ = connection.Close()
			return stop, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	return nil, fmt.Errorf("the server does not listen on %s", address)
}

// freeAddress returns an address on which nobody listens.
func freeAddress() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// testConfig is the configuration of test clients. Its deadline suits a busy machine.
func testConfig(addresses ...string) Config {
	return Config{Addresses: addresses, Deadline: 20 * time.Second, RetryFor: time.Minute}
}

// newClient returns a client that is closed at the end of the test.
func newClient(t *testing.T, config Config) *Client {
	t.Helper()
	client, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// real returns a client of the shared server.
func real(t *testing.T) *Client {
	t.Helper()
	return newClient(t, testConfig(shared))
}

// admitted fails the test unless the task is admitted.
func admitted(t *testing.T, pool *Pool, device, task string, options ...LeaseOption) *Permit {
	t.Helper()
	admission, err := pool.Admit(context.Background(), device, task, options...)
	if err != nil {
		t.Fatal(err)
	}
	if admission.Permit == nil {
		t.Fatalf("refused: %+v", *admission.Refusal)
	}
	t.Cleanup(func() { admission.Permit.Close(context.Background()) })
	return admission.Permit
}

// must returns the value, or fails the test.
func must[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, expected %v", what, got, want)
	}
}

// eventually waits until a condition holds, and fails the test after a minute.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for range 6000 {
		if condition() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

var names sync.Map

// name returns a name that only this run of the test uses.
func name(t *testing.T) string {
	found, _ := names.LoadOrStore(t, t.Name()+"-"+unique())
	return found.(string)
}
