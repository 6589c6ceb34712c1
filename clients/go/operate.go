package tollgate

import (
	"context"
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

// QueuedTask is a task for a device.
type QueuedTask struct {
	// Device is the device that is to run the task.
	Device string
	// Task is unique within its device.
	Task string
	// Payload has at most 65,536 bytes.
	Payload []byte
	// Expires is the time after which the task is not dispatched. Default: no end.
	Expires time.Time
}

// Enqueue queues tasks for their devices in the given order, 1,000 in one request. It returns
// a status for each task. If it fails, some tasks may be queued: a repeat with the same tasks
// is safe.
func (p *Pool) Enqueue(ctx context.Context, tasks ...QueuedTask) ([]EnqueueStatus, error) {
	wire := make([]*pb.QueuedTask, len(tasks))
	for i, task := range tasks {
		wire[i] = &pb.QueuedTask{DeviceId: task.Device, TaskId: task.Task, Payload: task.Payload}
		if !task.Expires.IsZero() {
			wire[i].ExpireTime = timestamppb.New(task.Expires)
		}
	}
	plan := p.client.plan()
	plan.deadline *= bulkDeadlines
	statuses := make([]EnqueueStatus, 0, len(tasks))
	for _, part := range chunks(wire) {
		request := &pb.EnqueueTasksRequest{Pool: p.name, Tasks: part}
		answer, _, err := call(ctx, p.client, plan, request, p.client.admissions.EnqueueTasks)
		if err != nil {
			return nil, err
		}
		for _, result := range answer.GetResults() {
			statuses = append(statuses, named[EnqueueStatus](result.GetStatus(), "ENQUEUE_STATUS_"))
		}
	}
	return statuses, nil
}

// EvictAnswer is the answer to Evict.
type EvictAnswer struct {
	// Verdict reports whether the slot was freed.
	Verdict EvictVerdict
	// Replayed is true if this call or an earlier one evicted the task.
	Replayed bool
}

// Evict frees the slot of a task whose device will not return. The reason has at most 256
// bytes and may be empty.
func (p *Pool) Evict(ctx context.Context, device, task, reason string) (EvictAnswer, error) {
	request := &pb.EvictTaskRequest{Pool: p.name, DeviceId: device, TaskId: task, Reason: reason}
	answer, _, err := call(ctx, p.client, p.client.plan(), request, p.client.admissions.EvictTask)
	if err != nil {
		return EvictAnswer{}, err
	}
	return EvictAnswer{named[EvictVerdict](answer.GetVerdict(), "EVICT_VERDICT_"), answer.GetReplayed()}, nil
}

// CancelAnswer is the answer to Cancel.
type CancelAnswer struct {
	// Verdict reports whether the task was cancelled.
	Verdict CancelVerdict
	// Replayed is true if this call or an earlier one cancelled the task.
	Replayed bool
}

// Cancel removes a task from the queue of its device.
func (p *Pool) Cancel(ctx context.Context, device, task string) (CancelAnswer, error) {
	request := &pb.CancelTaskRequest{Pool: p.name, DeviceId: device, TaskId: task}
	answer, _, err := call(ctx, p.client, p.client.plan(), request, p.client.admissions.CancelTask)
	if err != nil {
		return CancelAnswer{}, err
	}
	return CancelAnswer{named[CancelVerdict](answer.GetVerdict(), "CANCEL_VERDICT_"), answer.GetReplayed()}, nil
}

// Requeue queues a dead task again, at the end of the queue of its device, with its payload.
// Its attempts start again.
func (p *Pool) Requeue(ctx context.Context, device, task string) (RequeueVerdict, error) {
	request := &pb.RequeueTaskRequest{Pool: p.name, DeviceId: device, TaskId: task}
	answer, _, err := call(ctx, p.client, p.client.plan(), request, p.client.admissions.RequeueTask)
	if err != nil {
		return "", err
	}
	return named[RequeueVerdict](answer.GetVerdict(), "REQUEUE_VERDICT_"), nil
}

// PoolStatus is a pool as it is now.
type PoolStatus struct {
	// Name is the name of the pool.
	Name string
	// Usage is its usage.
	Usage Usage
	// Paused is true if no new task is admitted.
	Paused bool
	// Lease is the default length of leases.
	Lease time.Duration
	// Grace is the time for which a lease that ended without a result keeps its slot.
	Grace time.Duration
	// MaxAttempts is the number of attempts of a queued task.
	MaxAttempts int
	// Queued is the number of queued tasks, including running ones.
	Queued uint64
	// Waiters is the number of calls that wait for a slot, on all servers.
	Waiters int
	// Details is the whole answer of the server.
	Details *pb.Pool
}

func newPoolStatus(p *pb.Pool) PoolStatus {
	return PoolStatus{
		Name:        p.GetPool(),
		Usage:       newUsage(p.GetUsage()),
		Paused:      p.GetConfig().GetPaused(),
		Lease:       p.GetConfig().GetLeaseDuration().AsDuration(),
		Grace:       p.GetConfig().GetExpiryGrace().AsDuration(),
		MaxAttempts: int(p.GetConfig().GetMaxAttempts()),
		Queued:      p.GetQueued(),
		Waiters:     int(p.GetWaiters()),
		Details:     p,
	}
}

// Status returns the settings and the usage of the pool.
func (p *Pool) Status(ctx context.Context) (PoolStatus, error) {
	answer, _, err := call(ctx, p.client, p.client.plan(), &pb.GetPoolRequest{Pool: p.name}, p.client.admissions.GetPool)
	if err != nil {
		return PoolStatus{}, err
	}
	return newPoolStatus(answer.GetPool()), nil
}

// PoolSettings are settings to change. A nil setting stays as it is.
type PoolSettings struct {
	// Capacity is the number of slots, 0 to 1,000,000.
	Capacity *uint32
	// Lease is the length of new leases, 100 ms to 24 h.
	Lease *time.Duration
	// Grace is the time for which a lease that ended without a result keeps its slot, 0 to 30
	// days.
	Grace *time.Duration
	// Paused reports whether no new task is admitted.
	Paused *bool
	// MaxAttempts is the number of attempts of a queued task, 1 to 1,000.
	MaxAttempts *uint32
	// Reset first removes all settings of earlier calls.
	Reset bool
}

// Configure changes settings of the pool at run time, for all servers of a Redis. It returns
// the pool after the change.
func (p *Pool) Configure(ctx context.Context, settings PoolSettings) (PoolStatus, error) {
	request := &pb.ConfigurePoolRequest{
		Pool: p.name, Capacity: settings.Capacity, Paused: settings.Paused, MaxAttempts: settings.MaxAttempts,
		LeaseDuration: given(settings.Lease), ExpiryGrace: given(settings.Grace),
	}
	if settings.Reset {
		request.Reset_ = &settings.Reset
	}
	answer, _, err := call(ctx, p.client, p.client.plan(), request, p.client.admissions.ConfigurePool)
	if err != nil {
		return PoolStatus{}, err
	}
	return newPoolStatus(answer.GetPool()), nil
}

// Pools lists the pools that hold leases or run-time settings. After an error it ends.
func (c *Client) Pools(ctx context.Context) iter.Seq2[PoolStatus, error] {
	return pages(func(token string) ([]*pb.Pool, string, error) {
		answer, _, err := call(ctx, c, c.plan(), &pb.ListPoolsRequest{PageToken: token}, c.admissions.ListPools)
		return answer.GetPools(), answer.GetNextPageToken(), err
	}, newPoolStatus)
}

// LeaseStatus is a lease that holds a slot.
type LeaseStatus struct {
	TaskRef
	// Granted is when it was granted, on the clock of the engine.
	Granted time.Time
	// Expires is when it ends unless it is renewed, on the clock of the engine.
	Expires time.Time
	// ExpiresIn is the time until then, at the moment of the answer.
	ExpiresIn time.Duration
}

// Leases lists the leases that hold a slot, the earliest expiry first. After an error it ends.
func (p *Pool) Leases(ctx context.Context) iter.Seq2[LeaseStatus, error] {
	return pages(func(token string) ([]*pb.Lease, string, error) {
		request := &pb.ListLeasesRequest{Pool: p.name, PageToken: token}
		answer, _, err := call(ctx, p.client, p.client.plan(), request, p.client.admissions.ListLeases)
		return answer.GetLeases(), answer.GetNextPageToken(), err
	}, func(l *pb.Lease) LeaseStatus {
		return LeaseStatus{
			TaskRef:   TaskRef{p.name, l.GetDeviceId(), l.GetTaskId(), l.GetFencingToken()},
			Granted:   l.GetGrantTime().AsTime(),
			Expires:   l.GetExpireTime().AsTime(),
			ExpiresIn: l.GetExpiresIn().AsDuration(),
		}
	})
}
