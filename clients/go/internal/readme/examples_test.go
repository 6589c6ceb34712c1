package readme

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	tollgate "github.com/tollgate/tollgate/clients/go"
)

// built builds an example and returns its path.
func built(t *testing.T, name string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	command(t, "../..", nil, "go build -o "+program+" ./examples/"+name)
	return program
}

func TestExampleOfADevice(t *testing.T) {
	ctx := context.Background()
	address := startServer(t)
	client, err := tollgate.New(tollgate.Config{Addresses: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	pool := client.Pool("ar:0571")
	if _, err := pool.Enqueue(ctx, tollgate.QueuedTask{Device: "d-7", Task: "t-1", Payload: []byte("lift")}); err != nil {
		t.Fatal(err)
	}
	device, output := start(t, []string{"TOLLGATE=" + address, "DEVICE=d-7"}, built(t, "device"))
	for event, err := range pool.Watch(ctx, "0") {
		if err != nil {
			t.Fatal(err)
		}
		if event.Kind == "COMPLETED" {
			break
		}
	}
	if err := device.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := device.Wait(); err != nil {
		t.Fatalf("the device ends with %v\n%s", err, output)
	}
	for _, line := range []string{": lift", "task t-1, attempt 1: COMPLETED", "1 tasks done"} {
		if !strings.Contains(output.String(), line) {
			t.Errorf("%q is missing in\n%s", line, output)
		}
	}
}

func TestExampleOfAWebService(t *testing.T) {
	listen := freeAddress(t)
	start(t, []string{"TOLLGATE=" + startServer(t), "LISTEN=" + listen}, built(t, "web"))
	listens(t, listen)
	for _, status := range []int{200, 200, 429} {
		response, err := http.Get("http://" + listen)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != status {
			t.Errorf("status is %d, expected %d", response.StatusCode, status)
		}
		if policy := response.Header.Get("RateLimit-Policy"); policy != `"minute";q=2;w=60` {
			t.Errorf("RateLimit-Policy is %s", policy)
		}
	}
}
