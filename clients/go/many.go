package tollgate

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

// TaskRef names a task that was admitted.
type TaskRef struct {
	// Pool is the pool to which the task was admitted.
	Pool string
	// Device is the device that runs it.
	Device string
	// Task is the task.
	Task string
	// Token is the fencing token of the lease. 0 means that it is not compared.
	Token uint64
}

func (t TaskRef) token() *uint64 {
	if t.Token == 0 {
		return nil
	}
	return proto.Uint64(t.Token)
}

// AdmitItem is one request of [Client.AdmitMany].
type AdmitItem struct {
	// Pool is the pool to admit to.
	Pool string
	// Device is the device that would run the task.
	Device string
	// Task is the task. Empty takes a queued task, as Poll does.
	Task string
	// Lease is the length of the lease. Default: that of the pool.
	Lease time.Duration
}

// AdmitResult is the answer to one request: an admission or an error.
type AdmitResult struct {
	// Admission is the answer, unless Err is set.
	Admission Admission
	// Err says why the request was not decided, or is nil.
	Err *Error
}

// AdmitMany decides many admissions with few requests: 1,000 items travel in one. Each item is
// decided as a call of its own, and the results have the order of the items. Of the options
// only WithoutKeeper applies.
//
// Items that fail are retried as other calls are. One item never fails the others. Close
// every permit of the results.
func (c *Client) AdmitMany(ctx context.Context, items []AdmitItem, options ...LeaseOption) []AdmitResult {
	shared := collect(options)
	requests := make([]*pb.AdmitTaskRequest, len(items))
	for i, item := range items {
		requests[i] = &pb.AdmitTaskRequest{
			Pool: item.Pool, DeviceId: item.Device, TaskId: item.Task, LeaseDuration: optional(item.Lease),
		}
	}
	send := sendWith(c,
		func(requests []*pb.AdmitTaskRequest) *pb.AdmitTasksRequest {
			return &pb.AdmitTasksRequest{Requests: requests}
		},
		c.admissions.AdmitTasks, (*pb.AdmitTasksResponse).GetResults,
		func(r *pb.AdmitTaskResult) (*pb.AdmitTaskResponse, *pb.ItemError) {
			return r.GetResponse(), r.GetError()
		})
	results := make([]AdmitResult, len(items))
	for i, item := range bulk(ctx, c, requests, send) {
		if item.err != nil {
			results[i].Err = item.err
			continue
		}
		o := leaseOptions{lease: items[i].Lease, noKeeper: shared.noKeeper}
		admission, err := c.admission(ctx, requests[i], grantedTask(item.answer, item.sent), o)
		if err != nil {
			results[i].Err = newError(ctx, err)
		}
		results[i].Admission = admission
	}
	return results
}

// CompleteItem is one request of [Client.CompleteMany].
type CompleteItem struct {
	TaskRef
	// Outcome says how the task went. Default: Succeeded.
	Outcome Outcome
	// Result has at most 65,536 bytes.
	Result []byte
}

// CompleteResult is the answer to one report: a verdict or an error.
type CompleteResult struct {
	// Verdict reports whether the result was recorded, unless Err is set.
	Verdict CompleteVerdict
	// Err says why the report was not decided, or is nil.
	Err *Error
}

// CompleteMany reports many results with few requests, as AdmitMany does. Permits of these
// tasks still have to be closed.
func (c *Client) CompleteMany(ctx context.Context, items []CompleteItem) []CompleteResult {
	requests := make([]*pb.CompleteTaskRequest, len(items))
	for i, item := range items {
		requests[i] = item.request()
	}
	send := sendWith(c,
		func(requests []*pb.CompleteTaskRequest) *pb.CompleteTasksRequest {
			return &pb.CompleteTasksRequest{Requests: requests}
		},
		c.admissions.CompleteTasks, (*pb.CompleteTasksResponse).GetResults,
		func(r *pb.CompleteTaskResult) (*pb.CompleteTaskResponse, *pb.ItemError) {
			return r.GetResponse(), r.GetError()
		})
	results := make([]CompleteResult, len(items))
	for i, item := range bulk(ctx, c, requests, send) {
		if item.err != nil {
			results[i].Err = item.err
			continue
		}
		results[i].Verdict = named[CompleteVerdict](item.answer.GetVerdict(), "COMPLETE_VERDICT_")
	}
	return results
}

func (item CompleteItem) request() *pb.CompleteTaskRequest {
	return &pb.CompleteTaskRequest{
		Pool: item.Pool, DeviceId: item.Device, TaskId: item.Task, FencingToken: item.token(),
		Outcome: pb.Outcome(item.Outcome), Result: item.Result,
	}
}

// RenewItem is one request of [Client.RenewMany].
type RenewItem struct {
	TaskRef
	// Lease is the new length of the lease, from now on. Default: that of the pool.
	Lease time.Duration
}

// RenewResult is the answer to one renewal: a verdict or an error.
type RenewResult struct {
	// Verdict reports whether the lease was extended, unless Err is set.
	Verdict RenewVerdict
	// ValidFor is the time until the extended lease ends, counted from before the request.
	ValidFor time.Duration
	// Err says why the renewal was not decided, or is nil.
	Err *Error
}

// RenewMany extends many leases with few requests, as AdmitMany does. It is for leases without
// a permit; permits renew themselves.
func (c *Client) RenewMany(ctx context.Context, items []RenewItem) []RenewResult {
	requests := make([]*pb.RenewTaskRequest, len(items))
	for i, item := range items {
		requests[i] = item.request()
	}
	send := sendWith(c,
		func(requests []*pb.RenewTaskRequest) *pb.RenewTasksRequest {
			return &pb.RenewTasksRequest{Requests: requests}
		},
		c.admissions.RenewTasks, (*pb.RenewTasksResponse).GetResults,
		func(r *pb.RenewTaskResult) (*pb.RenewTaskResponse, *pb.ItemError) {
			return r.GetResponse(), r.GetError()
		})
	results := make([]RenewResult, len(items))
	for i, item := range bulk(ctx, c, requests, send) {
		if item.err != nil {
			results[i].Err = item.err
			continue
		}
		results[i] = c.renewResult(item.answer, item.sent)
	}
	return results
}

func (item RenewItem) request() *pb.RenewTaskRequest {
	return &pb.RenewTaskRequest{
		Pool: item.Pool, DeviceId: item.Device, TaskId: item.Task, FencingToken: item.token(),
		LeaseDuration: optional(item.Lease),
	}
}

func (c *Client) renewResult(answer *pb.RenewTaskResponse, sent time.Duration) RenewResult {
	result := RenewResult{Verdict: named[RenewVerdict](answer.GetVerdict(), "RENEW_VERDICT_")}
	if lease := answer.GetLease(); lease != nil {
		result.ValidFor = max(0, sent+lease.GetExpiresIn().AsDuration()-c.clock.Now())
	}
	return result
}

// Complete reports the result of a task without a permit, for example in another process than
// the one that was admitted. The call is retried until its verdict is known or ctx ends.
func (c *Client) Complete(ctx context.Context, item CompleteItem) (CompleteVerdict, error) {
	return c.complete(ctx, item.request())
}

// Renew extends the lease of a task without a permit.
func (c *Client) Renew(ctx context.Context, item RenewItem) (RenewResult, error) {
	answer, sent, err := call(ctx, c, c.plan(), item.request(), c.admissions.RenewTask)
	if err != nil {
		return RenewResult{}, err
	}
	return c.renewResult(answer, sent), nil
}
