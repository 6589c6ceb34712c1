package tollgate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

// tlsServer starts a server with TLS. It returns its address and the file of its authority.
func tlsServer(t *testing.T) (address, authority string) {
	t.Helper()
	cert, key, _ := certificate(t, "tollgate.example")
	file := filepath.Join(t.TempDir(), "tollgate.toml")
	text := fmt.Sprintf("[tls]\ncert = %q\nkey = %q\n", cert, key)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	address, stop, err := startServer("--config", file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return address, cert
}

func TestCallsWaitsAndWatchesOverTLS(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	address, authority := tlsServer(t)
	config := testConfig(address)
	config.TLS = must(LoadTLS(authority, "", "", "tollgate.example"))(t)
	client := newClient(t, config)
	pool := client.Pool("p")
	capacity := uint32(1)
	must(pool.Configure(ctx, PoolSettings{Capacity: &capacity}))(t)
	permit := admitted(t, pool, "d-1", "t", WithLease(time.Second))
	for event, err := range pool.Watch(ctx, "0") {
		if err != nil {
			t.Fatal(err)
		}
		if event.Kind == "RENEWED" {
			break // By the keeper.
		}
	}
	waiting := make(chan error, 1)
	go func() {
		admission, err := pool.Admit(ctx, "d-2", "t", WithWait(time.Minute))
		if err == nil && admission.Permit == nil {
			err = errors.New("refused")
		}
		waiting <- err
	}()
	eventually(t, "a call waits", func() bool { return must(pool.Status(ctx))(t).Waiters == 1 })
	equal(t, "verdict", must(permit.Complete(ctx, Succeeded, nil))(t), CompleteCompleted)
	if err := <-waiting; err != nil {
		t.Error(err)
	}
}

func TestAServerWithTLSRefusesOtherClients(t *testing.T) {
	t.Parallel()
	address, authority := tlsServer(t)
	foreign, _, _ := certificate(t, "tollgate.example")
	config := testConfig(address)
	config.Deadline, config.RetryFor = 2*time.Second, -1
	for name, change := range map[string]func(){
		"requires TLS": func() { config.TLS = nil },
		"certificate signed by unknown authority": func() {
			config.TLS = must(LoadTLS(foreign, "", "", "tollgate.example"))(t)
		},
		"not other.example": func() { config.TLS = must(LoadTLS(authority, "", "", "other.example"))(t) },
	} {
		change()
		_, err := newClient(t, config).Pool("p").Status(context.Background())
		var failed *Error
		if !errors.As(err, &failed) || failed.Code != codes.Unavailable && failed.Code != codes.DeadlineExceeded {
			t.Fatalf("%s: the error is %v", name, err)
		}
		if !strings.Contains(failed.Message, name) {
			t.Errorf("the message is %q, expected %q", failed.Message, name)
		}
	}
}
