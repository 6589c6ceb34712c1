package tollgate

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

// shortestLease is the minimum lease that a server grants.
const shortestLease = 100 * time.Millisecond

// Pool is one external system, of which a limited number of tasks may run at once. A pool
// needs no creation.
type Pool struct {
	client *Client
	name   string
}

// Pool returns the pool with a name of 1 to 256 bytes, for example "ar:0571". It makes no
// call.
func (c *Client) Pool(name string) *Pool {
	return &Pool{c, name}
}

// Name returns the name of the pool.
func (p *Pool) Name() string {
	return p.name
}

// Admission is the answer to a request for a slot: a permit or a refusal.
type Admission struct {
	// Permit is the right to run the task. It is nil on a refusal.
	Permit *Permit
	// Refusal says why the task may not run. It is nil if it was admitted.
	Refusal *Refusal
	// Usage is the usage of the pool, including this task.
	Usage Usage
}

// Refusal says why a task may not run now, and when to ask again.
type Refusal struct {
	// Reason is Full, Paused, AlreadyCompleted or NoTask.
	Reason Reason
	// RetryAfter is the time after which to ask again. It is 0 unless Reason is Full or Paused.
	RetryAfter time.Duration
	// Degraded is true for a fallback answer: the store of the server is unreachable.
	Degraded bool
}

// Usage is the usage of a pool.
type Usage struct {
	// Capacity is the number of slots.
	Capacity int
	// InUse is the number of slots that leases hold.
	InUse int
	// Available is the number of free slots.
	Available int
	// OverBy is the number of slots in use beyond a capacity that was lowered.
	OverBy int
	// Cached is true for numbers of a cached refusal.
	Cached bool
}

func newUsage(u *pb.Usage) Usage {
	return Usage{
		Capacity:  int(u.GetCapacity()),
		InUse:     int(u.GetInUse()),
		Available: int(u.GetAvailable()),
		OverBy:    int(u.GetOverBy()),
		Cached:    u.GetCached(),
	}
}

// Admit asks for a slot for a task of a device. The task name is unique within its device.
//
// A repeat while the lease runs returns a permit of the same lease. If Admit fails, the lease
// may have been granted: it ends at its expiry, and a repeat gets it. A lease that a cancelled
// wait has just got is ended in the background.
//
// The context of the permit descends from ctx.
func (p *Pool) Admit(ctx context.Context, device, task string, options ...LeaseOption) (Admission, error) {
	if task == "" {
		return Admission{}, missing("task_id", "expected 1 to 256 bytes; Poll takes a queued task")
	}
	return p.admit(ctx, device, task, collect(options))
}

// Poll asks for a slot for the oldest queued task of a device. [Permit.Task] and
// [Permit.Payload] describe the task. The refusal is NoTask if none is queued.
//
// A device has one queued task at a time: until that task ends, each Poll returns it.
func (p *Pool) Poll(ctx context.Context, device string, options ...LeaseOption) (Admission, error) {
	return p.admit(ctx, device, "", collect(options))
}

// Run asks for a slot as Admit does, and runs work with it. The context of work ends when the
// lease is lost. The result of work is reported: Succeeded, or Failed on an error or a panic.
//
// On a refusal work is not called. Run returns the error of the request, of work, or of the
// report.
func (p *Pool) Run(
	ctx context.Context, device, task string,
	work func(ctx context.Context, permit *Permit) error, options ...LeaseOption,
) (Admission, error) {
	admission, err := p.Admit(ctx, device, task, options...)
	if err != nil || admission.Permit == nil {
		return admission, err
	}
	permit := admission.Permit
	defer permit.Close(ctx)
	if err := work(permit.Context(), permit); err != nil {
		_ = permit.CloseWithError(ctx, err)
		return admission, err
	}
	_, err = permit.Complete(ctx, Succeeded, nil)
	return admission, err
}

// admit requests a slot. Without a task it takes a queued one.
func (p *Pool) admit(ctx context.Context, device, task string, o leaseOptions) (Admission, error) {
	request := &pb.AdmitTaskRequest{Pool: p.name, DeviceId: device, TaskId: task, LeaseDuration: optional(o.lease)}
	claim, err := p.client.claims.enter(ctx, identity("task", p.name, device, task))
	if err != nil {
		return Admission{}, err
	}
	answer, last, err := await(ctx, p.client, o.wait, func(ctx context.Context, wait time.Duration, first *pb.AdmitTaskResponse) (granted[*pb.AdmitTaskResponse], error) {
		request := proto.CloneOf(request) // Requests of one wait overlap.
		request.MaxWait = optional(wait)
		if id := first.GetLease().GetTaskId(); id != "" {
			request.TaskId = id
		}
		return p.request(ctx, request, wait)
	})
	if err != nil {
		claim.withdraw(ctx, func() (grant, bool) {
			from, ok := last()
			return grant{from.token, from.answer.GetReplayed(), from.answer.GetLease().GetTaskId(), from.expiresIn}, ok
		}, func(ctx context.Context, lease grant) error {
			return p.shorten(ctx, device, lease)
		})
		return Admission{}, err
	}
	claim.answered(answer.token)
	return p.client.admission(ctx, request, answer, o)
}

// shorten ends a lease that no caller has received, by renewing it for the minimum time and waiting
// until it ends. The task therefore has no result, and a later call gets a new lease.
func (p *Pool) shorten(ctx context.Context, device string, lease grant) error {
	_, err := p.client.admissions.RenewTask(ctx, &pb.RenewTaskRequest{
		Pool: p.name, DeviceId: device, TaskId: lease.task,
		FencingToken: proto.Uint64(lease.token), LeaseDuration: optional(shortestLease),
	})
	if err == nil {
		time.Sleep(shortestLease)
	}
	return err
}

// request makes one request for a slot.
func (p *Pool) request(ctx context.Context, request *pb.AdmitTaskRequest, wait time.Duration) (granted[*pb.AdmitTaskResponse], error) {
	c := p.client
	plan, stub := c.plan(), c.admissions
	if wait > 0 {
		channel, done, err := c.waits.take()
		if err != nil {
			return granted[*pb.AdmitTaskResponse]{}, newError(ctx, err)
		}
		defer done()
		plan.deadline += wait
		plan.waits = true
		stub = pb.NewAdmissionServiceClient(channel)
	}
	answer, sent, err := call(ctx, c, plan, request, stub.AdmitTask)
	if err != nil {
		return granted[*pb.AdmitTaskResponse]{}, err
	}
	return grantedTask(answer, sent), nil
}

func grantedTask(answer *pb.AdmitTaskResponse, sent time.Duration) granted[*pb.AdmitTaskResponse] {
	lease := answer.GetLease()
	return granted[*pb.AdmitTaskResponse]{
		answer:     answer,
		admitted:   answer.GetDecision() == pb.AdmitDecision_ADMIT_DECISION_ADMITTED && lease != nil,
		token:      lease.GetFencingToken(),
		again:      answer.GetDecision() == pb.AdmitDecision_ADMIT_DECISION_FULL,
		retryAfter: answer.GetRetryAfter().AsDuration(),
		expiresIn:  lease.GetExpiresIn().AsDuration(),
		sent:       sent,
	}
}

// admission makes the permit or the refusal of an answer.
func (c *Client) admission(ctx context.Context, request *pb.AdmitTaskRequest, from granted[*pb.AdmitTaskResponse], o leaseOptions) (Admission, error) {
	answer := from.answer
	admission := Admission{Usage: newUsage(answer.GetUsage())}
	if !from.admitted {
		switch answer.GetDecision() {
		case pb.AdmitDecision_ADMIT_DECISION_FULL, pb.AdmitDecision_ADMIT_DECISION_PAUSED,
			pb.AdmitDecision_ADMIT_DECISION_NO_TASK, pb.AdmitDecision_ADMIT_DECISION_ALREADY_COMPLETED:
		default:
			return Admission{}, unknown(answer.GetDecision())
		}
		admission.Refusal = &Refusal{
			Reason:     named[Reason](answer.GetDecision(), "ADMIT_DECISION_"),
			RetryAfter: from.retryAfter,
			Degraded:   answer.GetDegraded(),
		}
		return admission, nil
	}
	admission.Permit = newPermit(ctx, c, request, from, o)
	return admission, nil
}
