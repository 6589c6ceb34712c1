package main

import (
	"context"
	"fmt"
	"os"

	tollgate "github.com/tollgate/tollgate/clients/go"
)

func next(_ *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	options := tollgate.NextOptions{Count: uint32(c.Count), Step: int64(c.Step), RequestID: c.RequestID}
	if c.Floor != nil {
		floor := uint64(*c.Floor)
		options.Floor = &floor
	}
	values, err := client.Sequence(c.Name).Next(ctx, options)
	serials := values.Serials
	if serials == nil {
		serials = []string{}
	}
	return fields{
		"first": unsigned(values.First), "last": unsigned(values.Last), "step": unsigned(values.Step),
		"serials": serials, "replayed": values.Replayed,
	}, err
}

func setFloor(_ *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	applied, err := client.Sequence(c.Name).SetFloor(ctx, uint64(*c.Floor))
	return fields{"applied": applied}, err
}

func allocator(r *runner, _ context.Context, client *tollgate.Client, c *command) (fields, error) {
	r.keep(c, client.Sequence(c.Name).Allocator(uint32(c.Block)))
	return nil, nil
}

func allocate(_ *runner, ctx context.Context, a *tollgate.Allocator, _ *command) (fields, error) {
	value, err := a.Next(ctx)
	answer := fields{"value": unsigned(value.Number)}
	if value.Serial != "" {
		answer["serial"] = value.Serial
	}
	return answer, err
}

func lock(r *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	answer, err := client.Lock(c.Name, c.Owner).Acquire(ctx, c.leaseOptions()...)
	if err != nil {
		return nil, err
	}
	if answer.Lease == nil {
		return fields{"outcome": "HELD", "holder": answer.Holder, "retry_after": answer.RetryAfter.Seconds()}, nil
	}
	r.keep(c, answer.Lease)
	r.reportLoss(answer.Lease.Context(), answer.Lease, c.Handle)
	return fields{
		"outcome": "ACQUIRED", "token": unsigned(answer.Lease.Token()), "replayed": answer.Lease.Replayed(),
		"valid_for": answer.Lease.ValidFor().Seconds(),
	}, nil
}

func lockState(_ *runner, _ context.Context, lease *tollgate.LockLease, _ *command) (fields, error) {
	return leaseFields(lease), nil
}

func unlock(_ *runner, ctx context.Context, lease *tollgate.LockLease, _ *command) (fields, error) {
	outcome, err := lease.Release(ctx)
	return fields{"outcome": outcome}, err
}

func leaveLock(_ *runner, ctx context.Context, lease *tollgate.LockLease, c *command) (fields, error) {
	lease.Close(ctx)
	return fields{"delivered": c.Failed}, nil
}

func stockFields(s tollgate.StockStatus) fields {
	return fields{
		"on_hand": unsigned(s.OnHand), "available": unsigned(s.Available),
		"reserved": unsigned(s.Reserved), "sold": unsigned(s.Sold),
	}
}

func setStock(_ *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	status, err := client.Stock(c.SKU).Set(ctx, int64(c.OnHand))
	return stockFields(status), err
}

func addStock(_ *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	status, err := client.Stock(c.SKU).Add(ctx, int64(c.Delta), c.RequestID)
	answer := stockFields(status)
	answer["replayed"] = status.Replayed
	return answer, err
}

func stock(_ *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	status, err := client.Stock(c.SKU).Status(ctx)
	answer := stockFields(status)
	answer["holds"] = unsigned(status.Holds)
	return answer, err
}

func reserve(r *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	options := tollgate.ReserveOptions{Hold: c.Hold.duration(), Buyer: c.Buyer, BuyerLimit: int64(c.BuyerLimit)}
	answer, err := client.Stock(c.SKU).Reserve(ctx, c.Order, int64(c.Quantity), options)
	if err != nil {
		return nil, err
	}
	result := fields{"outcome": answer.Outcome, "replayed": false}
	if answer.Reservation != nil {
		r.keep(c, answer.Reservation)
		result["replayed"] = answer.Reservation.Replayed()
		result["valid_for"] = answer.Reservation.ValidFor().Seconds()
	}
	if answer.RetryAfter > 0 {
		result["retry_after"] = answer.RetryAfter.Seconds()
	}
	return result, nil
}

func confirm(_ *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	answer, err := client.Stock(c.SKU).Confirm(ctx, c.Order)
	return fields{"outcome": answer.Outcome, "retaken": answer.Retaken}, err
}

func cancelReservation(_ *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	outcome, err := client.Stock(c.SKU).Cancel(ctx, c.Order)
	return fields{"outcome": outcome}, err
}

func leaveReservation(_ *runner, ctx context.Context, reservation *tollgate.Reservation, c *command) (fields, error) {
	defer reservation.Close(ctx)
	if c.Confirm {
		_, err := reservation.Confirm(ctx)
		return nil, err
	}
	return fields{"delivered": c.Failed}, nil
}

// watch is a running watch.
type watch struct {
	stop context.CancelFunc
	done chan struct{}
}

func (r *runner) startWatch(ctx context.Context, c *command, read func(ctx context.Context) error) {
	ctx, stop := context.WithCancel(ctx)
	w := &watch{stop, make(chan struct{})}
	r.keep(c, w)
	go func() {
		defer close(w.done)
		if err := read(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "watch %s: %v\n", c.Handle, err)
		}
	}()
}

func watchPool(r *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	r.startWatch(ctx, c, func(ctx context.Context) error {
		for event, err := range client.Pool(c.Pool).Watch(ctx, c.After) {
			if err != nil {
				return err
			}
			r.write(fields{
				"event": "pool", "handle": c.Handle, "kind": event.Kind, "cursor": event.Cursor,
				"device": event.Device, "task": event.Task,
			})
		}
		return nil
	})
	return nil, nil
}

func watchRates(r *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	r.startWatch(ctx, c, func(ctx context.Context) error {
		for event, err := range client.Policy(c.Policy).Watch(ctx, c.After) {
			if err != nil {
				return err
			}
			r.write(fields{
				"event": "rate", "handle": c.Handle, "kind": event.Kind, "cursor": event.Cursor, "key": event.Key,
			})
		}
		return nil
	})
	return nil, nil
}

func watchStop(_ *runner, _ context.Context, w *watch, _ *command) (fields, error) {
	w.stop()
	<-w.done
	return nil, nil
}
