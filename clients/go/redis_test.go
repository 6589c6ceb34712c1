package tollgate

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

// startRedis starts a Redis and returns its address and a function that ends it.
func startRedis(t *testing.T) (address string, stop func()) {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed")
	}
	address = freeAddress()
	_, port, _ := net.SplitHostPort(address)
	redis := exec.Command(binary, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	if err := redis.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	stop = func() {
		if !ended {
			ended = true
			_ = redis.Process.Kill()
			_ = redis.Wait()
		}
	}
	t.Cleanup(stop)
	eventually(t, "Redis listens", func() bool {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		return connection.Close() == nil
	})
	return address, stop
}

func TestServersOfARedisAndItsOutage(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	redis, stopRedis := startRedis(t)
	var addresses []string
	for range 2 {
		address, stop, err := startServer("--engine", "redis://"+redis)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		addresses = append(addresses, address)
	}
	client := newClient(t, testConfig(addresses...))
	pool := sized(t, client, name(t), 1)
	permit := admitted(t, pool, "d", "t", WithLease(time.Hour))
	for range 4 { // Both servers know the lease.
		equal(t, "verdict", must(permit.Renew(ctx, 0))(t), RenewRenewed)
		equal(t, "token", admitted(t, pool, "d", "t").Token(), permit.Token())
	}
	lock := must(client.Lock(name(t), "").Acquire(ctx, WithWait(time.Minute)))(t).Lease
	defer lock.Close(ctx)

	stopRedis()
	config := testConfig(addresses...)
	config.Deadline, config.RetryFor = 5*time.Second, time.Millisecond
	broken := newClient(t, config)
	eventually(t, "UNAVAILABLE", func() bool {
		_, err := broken.Pool("p").Status(ctx)
		var failed *Error
		return errors.As(err, &failed) && failed.Code == codes.Unavailable
	})
	rule := WithRule(threeAnHour())
	open := must(broken.Policy("", rule, FailOpen()).Check(ctx, "k"))(t)
	equal(t, "allowed", open.Allowed && open.Degraded, true)
	closed := must(broken.Policy("", rule, FailClosed()).Check(ctx, "k"))(t)
	equal(t, "allowed", closed.Allowed, false)
	equal(t, "the permit runs on", permit.Valid(), true)
}
