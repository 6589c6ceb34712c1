// Command device is the backend of one device: it runs the queued tasks of the device on an
// external system that accepts a limited number of tasks at once.
package main

import (
	"cmp"
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	tollgate "github.com/tollgate/tollgate/clients/go"
)

func main() {
	address := cmp.Or(os.Getenv("TOLLGATE"), "127.0.0.1:50051")
	device := cmp.Or(os.Getenv("DEVICE"), "device-1")

	client, err := tollgate.New(tollgate.Config{Addresses: []string{address}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	// SIGTERM stops the worker after its running task.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()

	worker := client.Pool("ar:0571").Worker(device, process)
	worker.OnDone = func(permit *tollgate.Permit, verdict tollgate.CompleteVerdict, err error) {
		log.Printf("task %s, attempt %d: %s %v", permit.Task(), permit.Attempt(), verdict, err)
	}
	worker.OnError = func(err error) { log.Print(err) }
	log.Printf("%d tasks done", worker.Run(ctx))
}

// process sends one task to the external system. The token lets that system refuse a request
// of a device that lost its slot.
func process(ctx context.Context, permit *tollgate.Permit) ([]byte, error) {
	log.Printf("task %s with token %d: %s", permit.Task(), permit.Token(), permit.Payload())
	select {
	case <-time.After(100 * time.Millisecond): // The request to the external system.
		return []byte("done"), nil
	case <-ctx.Done(): // The lease is lost: stop immediately.
		return nil, context.Cause(ctx)
	}
}
