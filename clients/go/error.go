package tollgate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

// Error reports a call without a known decision. Refusals are answers, never errors. After
// UNAVAILABLE and DEADLINE_EXCEEDED the call may have been executed.
//
// Use [errors.As] to get it. If the context of the caller ended the call, [errors.Is] finds
// [context.Canceled] or [context.DeadlineExceeded] in it.
type Error struct {
	// Code is the gRPC status code.
	Code codes.Code
	// Reason is the reason of ErrorInfo, such as "STORE_REFUSES". It may be empty.
	Reason string
	// Message says what failed.
	Message string
	// Violations names every bad field. It is empty unless Code is InvalidArgument.
	Violations []Violation
	// RetryAfter is the time of RetryInfo after which a repeat may succeed. 0 means that the
	// server named none.
	RetryAfter time.Duration

	cause error
}

// Violation is a bad field of a request.
type Violation struct {
	// Field is the path of the field in the request, such as "tasks[3].device_id".
	Field string
	// Description says what was expected.
	Description string
}

// Error returns code, reason, message and violations.
func (e *Error) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "tollgate: %s", e.Code)
	if e.Reason != "" {
		fmt.Fprintf(&text, " (%s)", e.Reason)
	}
	if e.Message != "" {
		fmt.Fprintf(&text, ": %s", e.Message)
	}
	for _, violation := range e.Violations {
		fmt.Fprintf(&text, "; %s: %s", violation.Field, violation.Description)
	}
	return text.String()
}

// Unwrap returns the error that caused this one.
func (e *Error) Unwrap() error {
	return e.cause
}

// newError describes an error of gRPC. ctx is the context of the caller.
func newError(ctx context.Context, err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	answer := status.Convert(err)
	e := &Error{Code: answer.Code(), Message: answer.Message(), cause: err}
	for _, detail := range answer.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			e.Reason = detail.GetReason()
		case *errdetails.RetryInfo:
			e.RetryAfter = detail.GetRetryDelay().AsDuration()
		case *errdetails.BadRequest:
			for _, violation := range detail.GetFieldViolations() {
				e.Violations = append(e.Violations, Violation{violation.GetField(), violation.GetDescription()})
			}
		}
	}
	if cause := ctx.Err(); cause != nil {
		e.cause = cause
		e.Code = codes.Canceled
		if errors.Is(cause, context.DeadlineExceeded) {
			e.Code = codes.DeadlineExceeded
		}
	}
	return e
}

// itemError describes the error of an item of a batch. It returns nil without one.
func itemError(item *pb.ItemError) *Error {
	if item == nil {
		return nil
	}
	e := &Error{
		Code:       codes.Code(item.GetCode()),
		Reason:     item.GetReason(),
		Message:    item.GetMessage(),
		RetryAfter: item.GetRetryAfter().AsDuration(),
	}
	for _, violation := range item.GetViolations() {
		e.Violations = append(e.Violations, Violation{violation.GetField(), violation.GetDescription()})
	}
	return e
}

// missing is the error of a request that the library does not send.
func missing(field, description string) *Error {
	return &Error{
		Code:       codes.InvalidArgument,
		Message:    "the request has a bad field",
		Violations: []Violation{{field, description}},
	}
}
