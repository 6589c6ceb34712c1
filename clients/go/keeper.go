package tollgate

import (
	"container/heap"
	"sync"
	"time"

	"github.com/tollgate/tollgate/clients/go/internal/clock"
)

const (
	// keeperRenewals is the number of renewals that run at a time.
	keeperRenewals = 128
	// keeperNap bounds the time until the keeper notices that the machine has slept: timers
	// do not run during sleep.
	keeperNap = 250 * time.Millisecond
)

// keeper watches all leases of a client: it renews them and declares them lost. One
// goroutine serves all of them, and it runs only while there are leases.
type keeper struct {
	clock *clock.Clock
	wake  chan struct{}

	mu       sync.Mutex
	running  bool
	closed   bool
	queue    leaseQueue
	ready    []*lease // Leases to renew, oldest first.
	renewals int      // Number of goroutines that renew.
}

func newKeeper(clock *clock.Clock) *keeper {
	return &keeper{clock: clock, wake: make(chan struct{}, 1)}
}

// schedule makes the keeper look at a lease at the given time.
func (k *keeper) schedule(l *lease, due time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	l.due = due
	if l.index < 0 {
		heap.Push(&k.queue, l)
	} else {
		heap.Fix(&k.queue, l.index)
	}
	if !k.running {
		k.running = true
		go k.run()
	} else if l.index == 0 {
		select {
		case k.wake <- struct{}{}:
		default:
		}
	}
}

// forget removes a lease.
func (k *keeper) forget(l *lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.index >= 0 {
		heap.Remove(&k.queue, l.index)
	}
}

// close leaves the scopes of all leases.
func (k *keeper) close() {
	k.mu.Lock()
	k.closed = true
	leases := append([]*lease(nil), k.queue...)
	k.mu.Unlock()
	for _, l := range leases {
		l.leave()
	}
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// run looks at leases when they are due. It returns when there are none.
func (k *keeper) run() {
	timer := time.NewTimer(keeperNap)
	defer timer.Stop()
	for {
		k.mu.Lock()
		if len(k.queue) == 0 {
			k.running = false
			k.mu.Unlock()
			return
		}
		pause := k.queue[0].due - k.clock.Now()
		if pause <= 0 {
			l := heap.Pop(&k.queue).(*lease)
			k.mu.Unlock()
			l.check()
			continue
		}
		k.mu.Unlock()
		timer.Reset(min(pause, keeperNap))
		select {
		case <-timer.C:
		case <-k.wake:
		}
	}
}

// renew renews a lease as soon as fewer than keeperRenewals renewals run.
func (k *keeper) renew(l *lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ready = append(k.ready, l)
	if k.renewals < keeperRenewals {
		k.renewals++
		go k.renewReady()
	}
}

// renewReady renews leases until no lease is ready.
func (k *keeper) renewReady() {
	for {
		k.mu.Lock()
		if len(k.ready) == 0 {
			k.renewals--
			k.mu.Unlock()
			return
		}
		l := k.ready[0]
		k.ready[0] = nil
		k.ready = k.ready[1:]
		k.mu.Unlock()
		l.renewOnce()
	}
}

// leaseQueue is a heap of leases, the earliest due one first.
type leaseQueue []*lease

func (q leaseQueue) Len() int           { return len(q) }
func (q leaseQueue) Less(i, j int) bool { return q[i].due < q[j].due }

func (q leaseQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *leaseQueue) Push(x any) {
	l := x.(*lease)
	l.index = len(*q)
	*q = append(*q, l)
}

func (q *leaseQueue) Pop() any {
	last := len(*q) - 1
	l := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	l.index = -1
	return l
}
