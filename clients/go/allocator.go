package tollgate

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// DefaultBlock is the number of values that an [Allocator] takes at a time.
const DefaultBlock = 100

// Value is one value of a sequence.
type Value struct {
	// Number is the value.
	Number uint64
	// Serial is the value in the layout of the name. It is empty without a layout.
	Serial string
}

// Allocator hands out values of a sequence from blocks that it takes in advance. It never
// hands out a value twice. Values that it has not handed out are skipped when the program
// ends. Between several allocators values are distinct, but not in order of time.
type Allocator struct {
	sequence *Sequence
	block    uint32

	mu      sync.Mutex
	values  []Value
	pending chan struct{} // Closed when the running request has ended; nil without one.
	err     error         // Of the last request.
}

// Allocator returns an allocator that takes block values at a time: 1 to 10,000, 0 means
// [DefaultBlock]. It makes no call before the first Next.
func (s *Sequence) Allocator(block uint32) *Allocator {
	if block == 0 {
		block = DefaultBlock
	}
	return &Allocator{sequence: s, block: block}
}

// Next returns the next value. It waits for a request only if no value is left. The next block
// is requested in the background when half of the values are handed out.
func (a *Allocator) Next(ctx context.Context) (Value, error) {
	for {
		a.mu.Lock()
		if len(a.values) > 0 {
			value := a.values[0]
			a.values = a.values[1:]
			if len(a.values) <= int(a.block)/2 {
				a.fetch(ctx)
			}
			a.mu.Unlock()
			return value, nil
		}
		pending := a.fetch(ctx)
		a.mu.Unlock()
		select {
		case <-ctx.Done():
			return Value{}, newError(ctx, ctx.Err())
		case <-pending:
		}
		a.mu.Lock()
		err := a.err
		empty := len(a.values) == 0
		a.mu.Unlock()
		if empty && err != nil {
			return Value{}, err
		}
	}
}

// fetch requests a block unless a request runs. It returns the channel that is closed when
// the request has ended.
func (a *Allocator) fetch(ctx context.Context) <-chan struct{} {
	if a.pending != nil {
		return a.pending
	}
	pending := make(chan struct{})
	a.pending, a.err = pending, nil
	go func() {
		got, err := a.sequence.Next(context.WithoutCancel(ctx), NextOptions{Count: a.block})
		var values []Value
		if err == nil {
			values, err = got.list(int(a.block))
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.values = append(a.values, values...)
		a.err, a.pending = err, nil
		close(pending)
	}()
	return pending
}

// list returns the single values.
//
// With a calendar in the layout the values between first and last are known only from the
// digits of their serials. If these are not the digits of the values, because the layout has
// other digits, it returns the first and the last value and skips the others.
func (v Values) list(count int) ([]Value, error) {
	if v.Step == 0 || v.Last < v.First || (len(v.Serials) != 0 && len(v.Serials) != count) {
		return nil, fmt.Errorf("tollgate: values %d to %d with step %d and %d serials", v.First, v.Last, v.Step, len(v.Serials))
	}
	values := make([]Value, count)
	regular := (v.Last-v.First)/v.Step == uint64(count-1)
	for i := range values {
		if len(v.Serials) > 0 {
			values[i].Serial = v.Serials[i]
		}
		if regular {
			values[i].Number = v.First + uint64(i)*v.Step
		} else {
			values[i].Number = digits(values[i].Serial)
		}
	}
	if regular {
		return values, nil
	}
	first, last := Value{v.First, values[0].Serial}, Value{v.Last, values[count-1].Serial}
	if values[0] != first || values[count-1] != last {
		return []Value{first, last}, nil
	}
	return values, nil
}

// digits returns the number of all digits of a serial.
func digits(serial string) uint64 {
	number, _ := strconv.ParseUint(strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, serial), 10, 64)
	return number
}
