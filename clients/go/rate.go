package tollgate

import (
	"context"
	"iter"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

// Policy checks rates against a policy of the configuration of the server.
type Policy struct {
	client *Client
	name   string
	rule   *pb.Rule
	open   *bool // Decides calls without an answer: true lets them pass.
}

// PolicyOption changes a [Policy].
type PolicyOption func(*Policy)

// FailOpen lets calls pass if no server decides within one deadline, or if the configuration has a
// mistake, such as an unknown policy. It logs that, see [Config.Logger].
func FailOpen() PolicyOption {
	return func(p *Policy) { open := true; p.open = &open }
}

// FailClosed refuses calls if no server decides within one deadline. It logs that, see
// [Config.Logger].
func FailClosed() PolicyOption {
	return func(p *Policy) { open := false; p.open = &open }
}

// WithRule checks against a rule of the caller instead of a policy of the server. The name of
// the policy is then not used.
func WithRule(rule *pb.Rule) PolicyOption {
	return func(p *Policy) { p.rule = rule }
}

// Policy returns the policy with a name. It makes no call. Without FailOpen or FailClosed a
// check that cannot be decided returns an error.
func (c *Client) Policy(name string, options ...PolicyOption) *Policy {
	p := &Policy{client: c, name: name}
	for _, option := range options {
		option(p)
	}
	return p
}

// Verdict is the answer of a policy. It is empty for an answer by FailOpen or FailClosed.
type Verdict string

const (
	// Allow means that the call is within all limits.
	Allow Verdict = "ALLOW"
	// Warn means that the call may pass, but the count is above a WARN tier.
	Warn Verdict = "WARN"
	// Throttle means that the call may not pass.
	Throttle Verdict = "THROTTLE"
	// Banned means that the key is banned.
	Banned Verdict = "BAN"
)

// LimitUsage is the usage of one limit of a policy.
type LimitUsage struct {
	// Name is the name of the limit. It may be empty.
	Name string
	// Max is the number of calls of a window, or the burst of a token bucket.
	Max uint64
	// Count is the number of calls that were counted.
	Count uint64
	// Remaining is Max less Count, at least 0.
	Remaining uint64
	// ResetAfter is the time until all usage is given back without further calls.
	ResetAfter time.Duration
	// Window is the length of the window.
	Window time.Duration
	// Refused reports whether this limit refused the call.
	Refused bool
}

// Ban is a running ban.
type Ban struct {
	// Key is the banned key.
	Key string
	// Until is when the ban ends, on the clock of the engine.
	Until time.Time
	// Reason is the reason; it may be empty.
	Reason string
	// Strikes is the number of bans of the key, including this one, each within ban_memory of
	// the one before.
	Strikes int
	// Actor is the person or program that set the ban; empty for a ban by a rule.
	Actor string
}

func newBan(b *pb.Ban) *Ban {
	if b == nil {
		return nil
	}
	return &Ban{b.GetKey(), timeOf(b.GetUntil()), b.GetReason(), int(b.GetStrikes()), b.GetActor()}
}

// timeOf returns the time of the wire, or the zero time if it is not set.
func timeOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

// RateAnswer reports whether a call may pass.
type RateAnswer struct {
	// Allowed reports whether the call may pass.
	Allowed bool
	// Verdict is the answer of the policy.
	Verdict Verdict
	// Limits is the usage of the limits, including this call.
	Limits []LimitUsage
	// Crossed is true on exactly one call per tier and window: send a notice now.
	Crossed bool
	// RetryAfter is the time until the same call passes. It is above 0 on a refusal.
	RetryAfter time.Duration
	// Ban is the running ban, or nil.
	Ban *Ban
	// Replayed is true if an earlier request with the same id got this answer.
	Replayed bool
	// Degraded is true for an answer without the store: a fallback answer of the server, or
	// that of FailOpen or FailClosed.
	Degraded bool
	// Err says why FailOpen or FailClosed decided. Otherwise it is nil.
	Err error
}

// CheckOption changes a check.
type CheckOption func(*pb.CheckRateRequest)

// WithCost sets the cost of the call, 0 to 1,000,000,000. Default: 1. With 0 nothing is
// counted.
func WithCost(cost uint64) CheckOption {
	return func(r *pb.CheckRateRequest) { r.Cost = proto.Uint64(cost) }
}

// WithRequestID identifies the check: a repeat within 5 minutes returns the first answer and
// counts nothing. Default, and for "": a new id for each check, which its retries keep.
func WithRequestID(id string) CheckOption {
	return func(r *pb.CheckRateRequest) { r.RequestId = id }
}

// Check counts a call of a key and decides whether it may pass. The key has 1 to 256 bytes and
// names a caller, for example "ip:192.0.2.7".
func (p *Policy) Check(ctx context.Context, key string, options ...CheckOption) (RateAnswer, error) {
	request := &pb.CheckRateRequest{Key: key, Against: &pb.CheckRateRequest_Policy{Policy: p.name}}
	if p.rule != nil {
		request.Against = &pb.CheckRateRequest_Rule{Rule: p.rule}
	}
	for _, option := range options {
		option(request)
	}
	if request.RequestId == "" {
		request.RequestId = unique()
	}
	limited := ctx
	if p.open != nil {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, p.client.config.Deadline)
		defer cancel()
	}
	answer, _, err := call(limited, p.client, p.client.plan(), request, p.client.rates.CheckRate)
	if err == nil {
		return newRateAnswer(answer), nil
	}
	failure := newError(ctx, err)
	if p.open == nil || ctx.Err() != nil || !p.decides(failure) {
		return RateAnswer{}, err
	}
	effect := "the call is refused (fail closed)"
	if *p.open {
		effect = "the call passes (fail open)"
	}
	p.log(effect, err)
	decided := RateAnswer{Allowed: *p.open, Degraded: true, Err: err}
	if !decided.Allowed {
		decided.RetryAfter = max(failure.RetryAfter, time.Second)
	}
	return decided, nil
}

// decides reports whether FailOpen or FailClosed decides after an error. A mistake of the
// configuration, such as an unknown policy, must not stop a service that fails open. A bad request
// has a key that its caller chose, and so passes no limiter.
func (p *Policy) decides(e *Error) bool {
	if *p.open {
		return e.Code != codes.InvalidArgument
	}
	switch e.Code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Internal, codes.Unknown, codes.Canceled:
		return true
	default:
		return false
	}
}

// log logs that a check was not decided, and what happens to its call.
func (p *Policy) log(effect string, err error) {
	name := p.name
	if p.rule != nil {
		name = "a rule"
	}
	p.client.checks.undecided(name, effect, err)
}

func newRateAnswer(r *pb.CheckRateResponse) RateAnswer {
	answer := RateAnswer{
		Allowed: r.GetAllowed(), Verdict: named[Verdict](r.GetVerdict(), "RATE_VERDICT_"), Crossed: r.GetCrossed(),
		RetryAfter: r.GetRetryAfter().AsDuration(), Ban: newBan(r.GetBan()), Replayed: r.GetReplayed(), Degraded: r.GetDegraded(),
	}
	answer.Limits = newLimits(r.GetLimits())
	return answer
}

func newLimits(wire []*pb.LimitUsage) []LimitUsage {
	var limits []LimitUsage
	for _, l := range wire {
		limits = append(limits, LimitUsage{
			Name: l.GetName(), Max: l.GetMax(), Count: l.GetCount(), Remaining: l.GetRemaining(),
			ResetAfter: l.GetResetAfter().AsDuration(), Window: l.GetWindow().AsDuration(), Refused: l.GetRefused(),
		})
	}
	return limits
}

// KeyStatus is a key under a policy.
type KeyStatus struct {
	// Limits is the usage of the limits. Refused is false in each.
	Limits []LimitUsage
	// Ban is the running ban, or nil.
	Ban *Ban
	// Strikes is the number of bans of the key, each within ban_memory of the one before.
	Strikes int
}

// Key returns the usage, the ban and the strikes of a key. It counts no call. The policy must
// be one of the server: the usage of a rule of the caller cannot be read.
func (p *Policy) Key(ctx context.Context, key string) (KeyStatus, error) {
	request := &pb.GetKeyRequest{Key: key, Policy: p.name}
	answer, _, err := call(ctx, p.client, p.client.plan(), request, p.client.rates.GetKey)
	if err != nil {
		return KeyStatus{}, err
	}
	return KeyStatus{newLimits(answer.GetLimits()), newBan(answer.GetBan()), int(answer.GetStrikes())}, nil
}

// Reset clears the usage of a key; a ban stays. It reports whether the key had usage.
func (p *Policy) Reset(ctx context.Context, key string) (bool, error) {
	request := &pb.ResetRateRequest{Key: key, Policy: p.name}
	answer, _, err := call(ctx, p.client, p.client.plan(), request, p.client.rates.ResetRate)
	return answer.GetExisted(), err
}

// Ban bans a key for d from now on, 1 ms to 30 days. The reason has at most 256 bytes.
func (p *Policy) Ban(ctx context.Context, key string, d time.Duration, reason string) (*Ban, error) {
	request := &pb.BanRequest{Key: key, Policy: p.name, Duration: optional(d), Reason: reason}
	answer, _, err := call(ctx, p.client, p.client.plan(), request, p.client.rates.Ban)
	return newBan(answer.GetBan()), err
}

// Unban lifts the ban of a key, and clears its strikes and usage. It reports whether the key was
// banned.
func (p *Policy) Unban(ctx context.Context, key string) (bool, error) {
	request := &pb.UnbanRequest{Key: key, Policy: p.name}
	answer, _, err := call(ctx, p.client, p.client.plan(), request, p.client.rates.Unban)
	return answer.GetExisted(), err
}

// Bans lists the running bans, the earliest end first. After an error it ends.
func (p *Policy) Bans(ctx context.Context) iter.Seq2[*Ban, error] {
	return pages(func(token string) ([]*pb.Ban, string, error) {
		request := &pb.ListBansRequest{Policy: p.name, PageToken: token}
		answer, _, err := call(ctx, p.client, p.client.plan(), request, p.client.rates.ListBans)
		return answer.GetBans(), answer.GetNextPageToken(), err
	}, newBan)
}
