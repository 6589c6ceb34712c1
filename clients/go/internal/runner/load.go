package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	tollgate "github.com/tollgate/tollgate/clients/go"
)

// each calls work for 0 to count-1 with the given number of goroutines. It returns the first
// error.
func each(count, parallel int, work func(i int) error) error {
	var next atomic.Int64
	var first error
	var once sync.Once
	var group sync.WaitGroup
	for range max(1, min(parallel, count)) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < count; i = int(next.Add(1)) - 1 {
				if err := work(i); err != nil {
					once.Do(func() { first = err })
					return
				}
			}
		})
	}
	group.Wait()
	return first
}

func hold(r *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	permits := make([]*tollgate.Permit, c.Count)
	options := []tollgate.LeaseOption{tollgate.WithLease(c.Lease.duration())}
	err := each(len(permits), 64, func(i int) error {
		admission, err := client.Pool(c.Pool).Admit(ctx, fmt.Sprintf("%s-%d", c.Handle, i), "task", options...)
		permits[i] = admission.Permit
		return err
	})
	admitted := make([]*tollgate.Permit, 0, len(permits))
	for _, permit := range permits {
		if permit != nil {
			admitted = append(admitted, permit)
		}
	}
	r.keep(c, admitted)
	return fields{"admitted": len(admitted)}, err
}

func held(_ *runner, _ context.Context, permits []*tollgate.Permit, _ *command) (fields, error) {
	valid, lost := 0, 0
	for _, permit := range permits {
		if permit.Valid() {
			valid++
		}
		if permit.Err() != nil {
			lost++
		}
	}
	return fields{"valid": valid, "lost": lost}, nil
}

func release(r *runner, ctx context.Context, permits []*tollgate.Permit, c *command) (fields, error) {
	var completed atomic.Int64
	err := each(len(permits), 64, func(i int) error {
		defer permits[i].Close(ctx)
		verdict, err := permits[i].Complete(ctx, tollgate.Succeeded, nil)
		if verdict == tollgate.CompleteCompleted || verdict == tollgate.CompleteAlready {
			completed.Add(1)
		}
		return err
	})
	r.keep(c, nil)
	return fields{"completed": completed.Load()}, err
}

func pairs(_ *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	var completed atomic.Int64
	err := each(int(c.Count), c.Parallel, func(i int) error {
		_, err := client.Pool(c.Pool).Run(ctx, fmt.Sprintf("pair-%d", i), "task",
			func(context.Context, *tollgate.Permit) error {
				completed.Add(1)
				return nil
			})
		return err
	})
	return fields{"completed": completed.Load()}, err
}
