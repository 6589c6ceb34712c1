package main

import (
	"context"
	"time"

	tollgate "github.com/tollgate/tollgate/clients/go"
)

func enqueue(_ *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	tasks := make([]tollgate.QueuedTask, len(c.Tasks))
	for i, task := range c.Tasks {
		tasks[i] = tollgate.QueuedTask{Device: task.Device, Task: task.Task, Payload: []byte(task.Payload)}
	}
	statuses, err := client.Pool(c.Pool).Enqueue(ctx, tasks...)
	return fields{"statuses": statuses}, err
}

func evict(_ *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	answer, err := client.Pool(c.Pool).Evict(ctx, c.Device, c.Task, "")
	return fields{"verdict": answer.Verdict, "replayed": answer.Replayed}, err
}

func cancelTask(_ *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	answer, err := client.Pool(c.Pool).Cancel(ctx, c.Device, c.Task)
	return fields{"verdict": answer.Verdict, "replayed": answer.Replayed}, err
}

func requeueTask(_ *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	verdict, err := client.Pool(c.Pool).Requeue(ctx, c.Device, c.Task)
	return fields{"verdict": verdict}, err
}

func poolFields(pool tollgate.PoolStatus) fields {
	return fields{
		"capacity": pool.Usage.Capacity, "in_use": pool.Usage.InUse, "available": pool.Usage.Available,
		"paused": pool.Paused, "queued": unsigned(pool.Queued), "waiters": pool.Waiters,
	}
}

func poolStatus(_ *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	pool, err := client.Pool(c.Pool).Status(ctx)
	return poolFields(pool), err
}

func configure(_ *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	settings := tollgate.PoolSettings{Capacity: c.Capacity, Paused: c.Paused}
	if c.Lease > 0 {
		lease := c.Lease.duration()
		settings.Lease = &lease
	}
	if c.Grace != nil {
		grace := c.Grace.duration()
		settings.Grace = &grace
	}
	pool, err := client.Pool(c.Pool).Configure(ctx, settings)
	return poolFields(pool), err
}

// worker is a running worker.
type worker struct {
	stop context.CancelFunc
	done chan int
}

func workerStart(r *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	w := client.Pool(c.Pool).Worker(c.Device, func(ctx context.Context, permit *tollgate.Permit) ([]byte, error) {
		r.write(fields{"event": "task", "handle": c.Handle, "task": permit.Task(), "attempt": permit.Attempt()})
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(c.Work.duration()):
		}
		if c.Fail {
			return nil, context.DeadlineExceeded
		}
		return nil, nil
	})
	w.Lease = c.Lease.duration()
	w.OnDone = func(permit *tollgate.Permit, verdict tollgate.CompleteVerdict, _ error) {
		r.write(fields{"event": "done", "handle": c.Handle, "task": permit.Task(), "verdict": verdict})
	}
	ctx, stop := context.WithCancel(ctx)
	running := &worker{stop, make(chan int, 1)}
	r.keep(c, running)
	go func() { running.done <- w.Run(ctx) }()
	return nil, nil
}

func workerStop(_ *runner, _ context.Context, w *worker, _ *command) (fields, error) {
	w.stop()
	done := <-w.done
	w.done <- done
	return fields{"done": done}, nil
}
