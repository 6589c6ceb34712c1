package tollgate

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

// named returns the name of an enum value of the contract without the prefix of its enum.
func named[T ~string](value fmt.Stringer, prefix string) T {
	return T(strings.TrimPrefix(value.String(), prefix))
}

// unknown is the error of an answer that this version of the library does not know, or that
// lacks its lease.
func unknown(value protoreflect.Enum) *Error {
	return &Error{
		Code:   codes.Internal,
		Reason: "ANSWER_UNKNOWN",
		Message: fmt.Sprintf("the server answered %s %d, which this version of the library cannot use: update the library",
			value.Descriptor().Name(), value.Number()),
	}
}

// Reason says why a task was not admitted.
type Reason string

const (
	// Full means that all slots are in use or reserved for waiting calls.
	Full Reason = "FULL"
	// Paused means that the pool is paused, has capacity 0 or is on hold after a failover.
	Paused Reason = "PAUSED"
	// AlreadyCompleted means that the task has a result, or that it was queued and is
	// cancelled, expired or dead. Do not run it again.
	AlreadyCompleted Reason = "ALREADY_COMPLETED"
	// NoTask means that no task is queued for the device.
	NoTask Reason = "NO_TASK"
)

// Outcome says how a task went.
type Outcome int32

const (
	// Succeeded means that the task is done.
	Succeeded = Outcome(pb.Outcome_OUTCOME_SUCCEEDED)
	// Failed means that the task ran and failed. A queued task is dispatched again while it
	// has attempts left.
	Failed = Outcome(pb.Outcome_OUTCOME_FAILED)
)

// String returns the name of the outcome.
func (o Outcome) String() string {
	return strings.TrimPrefix(pb.Outcome(o).String(), "OUTCOME_")
}

// CompleteVerdict reports whether a result was recorded.
type CompleteVerdict string

const (
	// CompleteCompleted means that the result is recorded and the slot is free.
	CompleteCompleted CompleteVerdict = "COMPLETED"
	// CompleteAlready means that the task already had a result, which stays. A repeat of a
	// call whose answer was lost gets it too.
	CompleteAlready CompleteVerdict = "ALREADY_COMPLETED"
	// CompleteLate means that the lease had ended. The result is recorded.
	CompleteLate CompleteVerdict = "LATE"
	// CompleteStaleToken means that the task was admitted again. The result is not recorded.
	CompleteStaleToken CompleteVerdict = "STALE_TOKEN"
	// CompleteUnknown means that the task is unknown. The result is not recorded.
	CompleteUnknown CompleteVerdict = "UNKNOWN"
)

// RenewVerdict reports whether a lease was extended.
type RenewVerdict string

const (
	// RenewRenewed means that the lease runs on.
	RenewRenewed RenewVerdict = "RENEWED"
	// RenewExpired means that the lease and its grace have ended.
	RenewExpired RenewVerdict = "EXPIRED"
	// RenewCompleted means that the task has a result.
	RenewCompleted RenewVerdict = "COMPLETED"
	// RenewStaleToken means that the task was admitted again.
	RenewStaleToken RenewVerdict = "STALE_TOKEN"
	// RenewUnknown means that the task is unknown.
	RenewUnknown RenewVerdict = "UNKNOWN"
)

// EnqueueStatus reports whether a task was queued.
type EnqueueStatus string

const (
	// EnqueueEnqueued means that the task is the last one in the queue of its device.
	EnqueueEnqueued EnqueueStatus = "ENQUEUED"
	// EnqueueDuplicate means that the task is known. Nothing changed. A repeat of a call
	// whose answer was lost gets it too.
	EnqueueDuplicate EnqueueStatus = "DUPLICATE"
	// EnqueueExpired means that the expiry of the task had passed.
	EnqueueExpired EnqueueStatus = "EXPIRED"
	// EnqueueFull means that the pool has its maximum of queued tasks.
	EnqueueFull EnqueueStatus = "FULL"
	// EnqueueUnreadable means that a stored value of the task cannot be read.
	EnqueueUnreadable EnqueueStatus = "UNREADABLE"
	// EnqueueUnavailable means that the store refused the task. Queue it again.
	EnqueueUnavailable EnqueueStatus = "UNAVAILABLE"
)

// EvictVerdict reports whether a slot was freed.
type EvictVerdict string

const (
	// EvictEvicted means that the slot is free.
	EvictEvicted EvictVerdict = "EVICTED"
	// EvictEnded means that the task held no slot.
	EvictEnded EvictVerdict = "ENDED"
	// EvictUnknown means that the task is unknown.
	EvictUnknown EvictVerdict = "UNKNOWN"
)

// CancelVerdict reports whether a queued task was cancelled.
type CancelVerdict string

const (
	// CancelCancelled means that the task is not dispatched again.
	CancelCancelled CancelVerdict = "CANCELLED"
	// CancelRunning means that the task is not dispatched again, but its lease runs.
	CancelRunning CancelVerdict = "RUNNING"
	// CancelCompleted means that the task has a result.
	CancelCompleted CancelVerdict = "COMPLETED"
	// CancelUnknown means that no such task was queued.
	CancelUnknown CancelVerdict = "UNKNOWN"
)

// RequeueVerdict reports whether a dead task was queued again.
type RequeueVerdict string

const (
	// RequeueRequeued means that the task was dead, and is the last one of its device.
	RequeueRequeued RequeueVerdict = "REQUEUED"
	// RequeueAlreadyQueued means that the task is in the queue, waiting or running.
	RequeueAlreadyQueued RequeueVerdict = "ALREADY_QUEUED"
	// RequeueNotDead means that the task has a result, or was cancelled.
	RequeueNotDead RequeueVerdict = "NOT_DEAD"
	// RequeueExpired means that the expire time of the task has passed.
	RequeueExpired RequeueVerdict = "EXPIRED"
	// RequeueFull means that the pool has its maximum of queued tasks.
	RequeueFull RequeueVerdict = "FULL"
	// RequeueUnknown means that no such task was queued.
	RequeueUnknown RequeueVerdict = "UNKNOWN"
)
