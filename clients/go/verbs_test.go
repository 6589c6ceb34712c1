package tollgate

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

func TestNextReturnsExactValues(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	sequence := real(t).Sequence(name(t))
	floor := uint64(1<<53 + 1)
	values := must(sequence.Next(ctx, NextOptions{Count: 3, Step: 2, Floor: &floor, RequestID: "r"}))(t)
	equal(t, "first", values.First, floor)
	equal(t, "last", values.Last, floor+4)
	equal(t, "floor applied", values.FloorApplied, true)
	repeat := must(sequence.Next(ctx, NextOptions{Count: 3, Step: 2, Floor: &floor, RequestID: "r"}))(t)
	equal(t, "first", repeat.First, floor)
	equal(t, "replayed", repeat.Replayed, true)
	last, _, err := sequence.Last(ctx)
	equal(t, "error", err, nil)
	equal(t, "last", last, floor+4)
	serial := must(real(t).Sequence("order:"+name(t)).Next(ctx, NextOptions{}))(t)
	equal(t, "layout", strings.HasPrefix(serial.Serials[0], "ORD-"), true)
}

func TestAllocatorsNeverRepeatAValue(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, prefix := range []string{"plain:", "order:", "few:", "odd:"} {
		sequence := real(t).Sequence(prefix + name(t))
		allocators := []*Allocator{sequence.Allocator(7), sequence.Allocator(25)}
		var mu sync.Mutex
		numbers, serials := map[uint64]bool{}, map[string]bool{}
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				for range 50 {
					value, err := allocators[i%2].Next(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					if numbers[value.Number] || serials[value.Serial] && value.Serial != "" {
						t.Errorf("%v is repeated", value)
					}
					if value.Serial != "" && strings.HasPrefix(value.Serial, "2") && digits(value.Serial) != value.Number {
						t.Errorf("%v: the serial is of another value", value)
					}
					numbers[value.Number], serials[value.Serial] = true, true
					mu.Unlock()
				}
			})
		}
		group.Wait()
		equal(t, "values of "+prefix, len(numbers), 400)
	}
}

func TestAllocatorReportsErrorsAndRecovers(t *testing.T) {
	t.Parallel()
	allocator := real(t).Sequence(name(t)).Allocator(20_000)
	var failed *Error
	if _, err := allocator.Next(context.Background()); !errors.As(err, &failed) || failed.Code != codes.InvalidArgument {
		t.Errorf("error is %v", err)
	}
	allocator.block = 10
	equal(t, "value", must(allocator.Next(context.Background()))(t).Number, 1)
}

func TestLockScope(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := real(t)
	lock := client.Lock(name(t), "")
	answer := must(lock.Acquire(ctx))(t)
	lease := answer.Lease
	equal(t, "valid", lease.Valid(), true)
	status := must(lock.Status(ctx))(t)
	equal(t, "status", status, LockStatus{true, lease.Owner(), lease.Token(), 0})

	held := must(lock.Run(ctx, func(context.Context, *LockLease) error {
		t.Error("the work runs while another owner holds the lock")
		return nil
	}))(t)
	if held.Lease != nil || held.Holder != lease.Owner() || held.RetryAfter <= 0 {
		t.Errorf("a held lock answers %+v", held)
	}
	same := must(client.Lock(name(t), lease.Owner()).Acquire(ctx))(t)
	equal(t, "replayed", same.Lease.Replayed(), true)
	equal(t, "token", same.Lease.Token(), lease.Token())

	guarded := lease.Context()
	lease.Close(ctx)
	equal(t, "cause", context.Cause(guarded), ErrClosed)
	equal(t, "held", must(lock.Status(ctx))(t).Held, false)
	equal(t, "release", must(lease.Release(ctx))(t), Released)

	ran := false
	next := must(lock.Run(ctx, func(_ context.Context, lease *LockLease) error { ran = lease.Valid(); return nil }))(t)
	equal(t, "ran", ran, true)
	if next.Lease.Token() <= lease.Token() {
		t.Errorf("token %d follows %d", next.Lease.Token(), lease.Token())
	}
	equal(t, "held", must(lock.Status(ctx))(t).Held, false)
}

func TestLockIsLostWhenItIsReleasedElsewhere(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := real(t)
	owner := client.Lock(name(t), "owner")
	first := must(owner.Acquire(ctx, WithLease(3*time.Second)))(t).Lease
	second := must(owner.Acquire(ctx, WithLease(3*time.Second)))(t).Lease
	must(second.Release(ctx))(t)
	<-first.Lost()
	equal(t, "lost", errors.Is(first.Err(), ErrLost), true)
	equal(t, "lost", second.Err(), nil)
	equal(t, "outcome", must(client.Lock(name(t), "other").Acquire(ctx))(t).Holder, "")
}

func TestWaitForALock(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	lock := real(t).Lock(name(t), "")
	first := must(lock.Acquire(ctx))(t).Lease
	waited := make(chan *LockLease, 1)
	go func() {
		answer, err := lock.Acquire(ctx, WithWait(5*time.Minute))
		if err != nil {
			t.Error(err)
		}
		waited <- answer.Lease
	}()
	eventually(t, "a waiter", func() bool { return must(lock.Status(ctx))(t).Waiters == 1 })
	first.Close(ctx)
	second := <-waited
	defer second.Close(ctx)
	if second.Token() <= first.Token() || !second.Valid() {
		t.Errorf("token %d follows %d", second.Token(), first.Token())
	}
	abandoned, cancel := context.WithCancel(ctx)
	go func() {
		_, err := lock.Acquire(abandoned, WithWait(5*time.Minute))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled wait answers %v", err)
		}
		waited <- nil
	}()
	eventually(t, "a waiter", func() bool { return must(lock.Status(ctx))(t).Waiters == 1 })
	cancel()
	<-waited
	eventually(t, "no waiter", func() bool { return must(lock.Status(ctx))(t).Waiters == 0 })
}

func TestStock(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	stock := real(t).Stock(name(t))
	var failed *Error
	if _, err := stock.Status(ctx); !errors.As(err, &failed) || failed.Code != codes.NotFound {
		t.Errorf("unknown stock answers %v", err)
	}
	must(stock.Set(ctx, 10))(t)
	added := must(stock.Add(ctx, -2, "r"))(t)
	equal(t, "on hand", added.OnHand, 8)
	equal(t, "replayed", must(stock.Add(ctx, -2, "r"))(t).Replayed, true)

	short := must(stock.Reserve(ctx, "big", 9, ReserveOptions{}))(t)
	if short.Outcome != Short || short.Reservation != nil {
		t.Errorf("too many answer %+v", short)
	}
	paid := must(stock.Reserve(ctx, "paid", 3, ReserveOptions{Buyer: "b", BuyerLimit: 4}))(t)
	equal(t, "quantity", paid.Reservation.Quantity(), 3)
	equal(t, "valid", paid.Reservation.ValidFor() > time.Minute, true)
	limited := must(stock.Reserve(ctx, "more", 2, ReserveOptions{Buyer: "b", BuyerLimit: 4}))(t)
	equal(t, "outcome", limited.Outcome, BuyerLimit)
	equal(t, "buyer", limited.BuyerQuantity, 3)
	equal(t, "confirm", must(paid.Reservation.Confirm(ctx))(t).Outcome, Confirmed)
	paid.Reservation.Close(ctx)
	equal(t, "confirm again", must(stock.Confirm(ctx, "paid"))(t).Outcome, ConfirmedBefore)

	left := must(stock.Reserve(ctx, "left", 5, ReserveOptions{}))(t)
	equal(t, "available", left.Stock.Available, 0)
	equal(t, "held", must(stock.Status(ctx))(t), StockStatus{OnHand: 5, Reserved: 5, Sold: 3, Holds: 1})
	left.Reservation.Close(ctx)
	equal(t, "cancel again", must(stock.Cancel(ctx, "left"))(t), CancelledBefore)
	equal(t, "stock", must(stock.Status(ctx))(t), StockStatus{OnHand: 5, Available: 5, Sold: 3})
	equal(t, "settled", must(stock.Reserve(ctx, "paid", 1, ReserveOptions{}))(t).Outcome, AlreadySettled)
}

func TestLatePaymentTakesTheQuantityAgain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	stock := real(t).Stock(name(t))
	must(stock.Set(ctx, 1))(t)
	must(stock.Reserve(ctx, "late", 1, ReserveOptions{Hold: 50 * time.Millisecond}))(t)
	eventually(t, "the hold lapses", func() bool { return must(stock.Status(ctx))(t).Reserved == 0 })
	answer := must(stock.Confirm(ctx, "late"))(t)
	equal(t, "outcome", answer.Outcome, Confirmed)
	equal(t, "retaken", answer.Retaken, true)
}

func TestNamesAreListedByPrefix(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := real(t)
	prefix := name(t)
	for _, suffix := range []string{":a", ":b"} {
		answer := must(client.Lock(prefix+suffix, "o").Acquire(ctx))(t)
		defer answer.Lease.Close(ctx)
		must(client.Sequence(prefix+suffix).Next(ctx, NextOptions{Count: 3}))(t)
		must(client.Stock(prefix+suffix).Set(ctx, 7))(t)
	}
	locks, sequences, stocks := 0, 0, 0
	for lock, err := range client.Locks(ctx, prefix) {
		equal(t, "error", err, nil)
		equal(t, "held", lock.Held && lock.Token > 0 && lock.ExpiresIn > 0, true)
		locks++
	}
	for sequence, err := range client.Sequences(ctx, prefix+":b") {
		equal(t, "error", err, nil)
		equal(t, "sequence", sequence, NamedSequence{prefix + ":b", 3, ""})
		sequences++
	}
	for stock, err := range client.Stocks(ctx, prefix+":a") {
		equal(t, "error", err, nil)
		equal(t, "stock", stock, NamedStock{prefix + ":a", StockStatus{OnHand: 7, Available: 7}})
		stocks++
	}
	equal(t, "entries", [3]int{locks, sequences, stocks}, [3]int{2, 1, 1})
}
