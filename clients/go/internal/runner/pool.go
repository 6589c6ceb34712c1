package main

import (
	"context"
	"errors"
	"time"

	tollgate "github.com/tollgate/tollgate/clients/go"
)

func admit(r *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	pool := client.Pool(c.Pool)
	var admission tollgate.Admission
	var err error
	if c.Do == "poll" {
		admission, err = pool.Poll(ctx, c.Device, c.leaseOptions()...)
	} else {
		admission, err = pool.Admit(ctx, c.Device, c.Task, c.leaseOptions()...)
	}
	if err != nil {
		return nil, err
	}
	if permit := admission.Permit; permit != nil {
		if old, known := r.keep(c, permit).(*tollgate.Permit); known {
			old.Close(ctx)
		}
		r.reportLoss(permit.Context(), permit, c.Handle)
	}
	return admissionFields(admission), nil
}

// reportLoss writes the event `lost` if the permit or lock is lost.
func (r *runner) reportLoss(ctx context.Context, lease interface{ Err() error }, handle string) {
	go func() {
		<-ctx.Done()
		if lease.Err() != nil {
			r.write(fields{"event": "lost", "handle": handle})
		}
	}()
}

func admissionFields(admission tollgate.Admission) fields {
	if refusal := admission.Refusal; refusal != nil {
		answer := fields{"outcome": refusal.Reason}
		if refusal.RetryAfter > 0 {
			answer["retry_after"] = refusal.RetryAfter.Seconds()
		}
		return answer
	}
	permit := admission.Permit
	answer := fields{
		"outcome": "ADMITTED", "token": unsigned(permit.Token()), "replayed": permit.Replayed(),
		"valid_for": permit.ValidFor().Seconds(),
	}
	if permit.Attempt() > 0 {
		answer["task"] = permit.Task()
		answer["payload"] = string(permit.Payload())
		answer["attempt"] = permit.Attempt()
	}
	return answer
}

func permitState(_ *runner, _ context.Context, permit *tollgate.Permit, _ *command) (fields, error) {
	return leaseFields(permit), nil
}

func leaseFields(lease interface {
	Valid() bool
	Err() error
	ValidFor() time.Duration
	Token() uint64
}) fields {
	return fields{
		"valid": lease.Valid(), "lost": lease.Err() != nil,
		"valid_for": lease.ValidFor().Seconds(), "token": unsigned(lease.Token()),
	}
}

func complete(_ *runner, ctx context.Context, permit *tollgate.Permit, c *command) (fields, error) {
	verdict, err := permit.Complete(ctx, c.outcome(), []byte(c.Result))
	if err != nil {
		return nil, err
	}
	permit.Close(ctx)
	return fields{"verdict": verdict}, nil
}

func leave(_ *runner, ctx context.Context, permit *tollgate.Permit, c *command) (fields, error) {
	if c.Failed {
		// The error of the report is not that of the body, which the caller of Run gets.
		_ = permit.CloseWithError(ctx, errors.New("the scope was left with an error"))
	} else {
		permit.Close(ctx)
	}
	return fields{"delivered": c.Failed}, nil
}

func completeTask(_ *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	item := tollgate.CompleteItem{TaskRef: c.ref(), Outcome: c.outcome(), Result: []byte(c.Result)}
	verdict, err := client.Complete(ctx, item)
	return fields{"verdict": verdict}, err
}

func renewTask(_ *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	result, err := client.Renew(ctx, tollgate.RenewItem{TaskRef: c.ref(), Lease: c.Lease.duration()})
	answer := fields{"verdict": result.Verdict}
	if result.Verdict == tollgate.RenewRenewed {
		answer["valid_for"] = result.ValidFor.Seconds()
	}
	return answer, err
}

func admitMany(_ *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	items := make([]tollgate.AdmitItem, len(c.Items))
	for i, item := range c.Items {
		items[i] = tollgate.AdmitItem{Pool: item.Pool, Device: item.Device, Task: item.Task, Lease: item.Lease.duration()}
	}
	results := make([]fields, len(items))
	for i, result := range client.AdmitMany(ctx, items, tollgate.WithoutKeeper()) {
		if result.Err != nil {
			results[i] = fields{"error": errorFields(result.Err)}
			continue
		}
		results[i] = admissionFields(result.Admission)
		if permit := result.Admission.Permit; permit != nil {
			permit.Close(ctx)
		}
	}
	return fields{"results": results}, nil
}

func completeMany(_ *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	items := make([]tollgate.CompleteItem, len(c.Items))
	for i, item := range c.Items {
		items[i] = tollgate.CompleteItem{TaskRef: item.ref()}
	}
	results := make([]fields, len(items))
	for i, result := range client.CompleteMany(ctx, items) {
		results[i] = verdictFields(string(result.Verdict), result.Err)
	}
	return fields{"results": results}, nil
}

func renewMany(_ *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	items := make([]tollgate.RenewItem, len(c.Items))
	for i, item := range c.Items {
		items[i] = tollgate.RenewItem{TaskRef: item.ref(), Lease: item.Lease.duration()}
	}
	results := make([]fields, len(items))
	for i, result := range client.RenewMany(ctx, items) {
		results[i] = verdictFields(string(result.Verdict), result.Err)
	}
	return fields{"results": results}, nil
}

func verdictFields(verdict string, err *tollgate.Error) fields {
	if err != nil {
		return fields{"error": errorFields(err)}
	}
	return fields{"verdict": verdict}
}
