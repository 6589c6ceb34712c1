package tollgate

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

// Permit is the right of one task to use the external system, until its lease ends. The
// library renews the lease at a third of its length until the permit is completed, closed or
// lost. All methods can be called concurrently.
//
// Always close a permit:
//
//	defer permit.Close(ctx)
type Permit struct {
	lease
	pool     string
	device   string
	task     string
	asked    string // The task of the request; empty for a queued one.
	payload  []byte
	attempt  int
	length   time.Duration
	replayed bool
	degraded bool
	reported bool // Guarded by lease.mu.
}

func newPermit(ctx context.Context, c *Client, request *pb.AdmitTaskRequest, from granted[*pb.AdmitTaskResponse], o leaseOptions) *Permit {
	granted := from.answer.GetLease()
	permit := &Permit{
		pool:     request.GetPool(),
		asked:    request.GetTaskId(),
		device:   granted.GetDeviceId(),
		task:     granted.GetTaskId(),
		payload:  from.answer.GetTask().GetPayload(),
		attempt:  int(from.answer.GetTask().GetAttempt()),
		length:   o.lease,
		replayed: from.answer.GetReplayed(),
		degraded: from.answer.GetDegraded(),
	}
	permit.lease.init(ctx, c, permit, from.token, !o.noKeeper)
	permit.start(from.sent, from.expiresIn)
	return permit
}

// Pool returns the name of the pool.
func (p *Permit) Pool() string { return p.pool }

// Device returns the device.
func (p *Permit) Device() string { return p.device }

// Task returns the task.
func (p *Permit) Task() string { return p.task }

// Payload returns the payload of a queued task. Do not change it.
func (p *Permit) Payload() []byte { return p.payload }

// Attempt returns the number of dispatches of a queued task, including this one. It is 0 for a
// task that was not queued.
func (p *Permit) Attempt() int { return p.attempt }

// Replayed reports whether an earlier call was granted the lease.
func (p *Permit) Replayed() bool { return p.replayed }

// Degraded reports whether the lease belongs to the fallback share of one server, whose store
// was unreachable. Other servers do not know the lease.
func (p *Permit) Degraded() bool { return p.degraded }

// Complete reports the result of the task and frees its slot. The result has at most 65,536
// bytes. The call is retried until its verdict is known or ctx ends. It can be made after the
// lease was lost: the result is recorded, and the verdict is CompleteLate.
//
// Do not pass the context of the permit: it ends with the lease.
func (p *Permit) Complete(ctx context.Context, outcome Outcome, result []byte) (CompleteVerdict, error) {
	p.mu.Lock()
	p.expire()
	p.completing++
	p.mu.Unlock()
	verdict, err := p.client.complete(ctx, p.result(outcome, result))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.completing--
	if err != nil {
		return "", err
	}
	p.reported = true
	p.stop()
	return verdict, nil
}

func (p *Permit) result(outcome Outcome, result []byte) *pb.CompleteTaskRequest {
	return &pb.CompleteTaskRequest{
		Pool:         p.pool,
		DeviceId:     p.device,
		TaskId:       p.task,
		FencingToken: &p.token,
		Outcome:      pb.Outcome(outcome),
		Result:       result,
	}
}

// complete reports a result until the verdict is known.
func (c *Client) complete(ctx context.Context, request *pb.CompleteTaskRequest) (CompleteVerdict, error) {
	plan := c.plan()
	plan.persist = true
	answer, _, err := call(ctx, c, plan, request, c.admissions.CompleteTask)
	if err != nil {
		return "", err
	}
	return named[CompleteVerdict](answer.GetVerdict(), "COMPLETE_VERDICT_"), nil
}

// Renew extends the lease by d from now on; 0 means the length of the request or of the pool.
// It is needed only without a keeper. Any other verdict than RenewRenewed loses the permit.
func (p *Permit) Renew(ctx context.Context, d time.Duration) (RenewVerdict, error) {
	request := p.renewRequest()
	if d != 0 {
		request.LeaseDuration = optional(d)
	}
	answer, sent, err := call(ctx, p.client, p.client.plan(), request, p.client.admissions.RenewTask)
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopped && !p.expire() {
		p.apply(renewalOf(answer, sent))
		if !p.stopped {
			p.client.keeper.schedule(&p.lease, p.next())
		}
	}
	return named[RenewVerdict](answer.GetVerdict(), "RENEW_VERDICT_"), nil
}

func (p *Permit) renewRequest() *pb.RenewTaskRequest {
	return &pb.RenewTaskRequest{
		Pool:          p.pool,
		DeviceId:      p.device,
		TaskId:        p.task,
		FencingToken:  proto.Uint64(p.token),
		LeaseDuration: optional(p.length),
	}
}

// renew implements renewer.
func (p *Permit) renew(ctx context.Context) (renewal, error) {
	sent := p.client.clock.Now()
	answer, err := p.client.admissions.RenewTask(ctx, p.renewRequest())
	if err != nil {
		return renewal{}, newError(ctx, err)
	}
	return renewalOf(answer, sent), nil
}

func renewalOf(answer *pb.RenewTaskResponse, sent time.Duration) renewal {
	verdict := answer.GetVerdict()
	return renewal{
		renewed:   verdict == pb.RenewVerdict_RENEW_VERDICT_RENEWED,
		completed: verdict == pb.RenewVerdict_RENEW_VERDICT_COMPLETED,
		answer:    string(named[RenewVerdict](verdict, "RENEW_VERDICT_")),
		expiresIn: answer.GetLease().GetExpiresIn().AsDuration(),
		sent:      sent,
	}
}

// Close leaves the scope of the permit. It ends the renewals and the context of the permit.
// Without a result the lease ends at its expiry.
//
// If a panic leaves the scope and Close itself is deferred, the task is reported as Failed
// and the panic continues.
func (p *Permit) Close(ctx context.Context) {
	if panicked := recover(); panicked != nil {
		_ = p.fail(ctx, fmt.Sprint(panicked))
		panic(panicked)
	}
	p.leave()
}

// CloseWithError leaves the scope as Close does. If err is not nil and no result was
// reported, it reports the task as Failed, with the text of err as its result, even if ctx has
// ended. CloseWithError takes at most the deadline of one call and returns the error of the
// report: DEADLINE_EXCEEDED if the report continues in the background, until the lease ends.
func (p *Permit) CloseWithError(ctx context.Context, err error) error {
	if err == nil {
		p.leave()
		return nil
	}
	return p.fail(ctx, err.Error())
}

// fail leaves the scope, and reports the task as failed unless a result was reported.
func (p *Permit) fail(ctx context.Context, text string) error {
	p.leave()
	p.mu.Lock()
	reported, until := p.reported, p.expiry
	p.mu.Unlock()
	if reported {
		return nil
	}
	request := p.result(Failed, failureText(text))
	return p.client.claims.leave(ctx, identity("task", p.pool, p.device, p.asked), until, func(ctx context.Context) error {
		_, err := p.client.admissions.CompleteTask(ctx, request)
		if err == nil {
			p.mu.Lock()
			p.reported = true
			p.mu.Unlock()
		}
		return err
	})
}

// failureText returns the result of a failed task: the text of its error, at most 1 KiB.
func failureText(text string) []byte {
	return []byte(text[:min(len(text), 1024)])
}
