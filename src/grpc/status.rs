//! Turns errors into gRPC status, with details a program can read.

use std::{collections::HashMap, time::Duration};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

use crate::{error::Error, names::Name, rate::NAMES_MAX, stock::QUANTITY_MAX, time::Millis};

const DOMAIN: &str = "tollgate";
/// Bad fields that the message names; the details name more.
const FIELDS_IN_MESSAGE: usize = 8;
const RETRY_UNAVAILABLE: Duration = Duration::from_secs(1);
const RETRY_OVERLOADED: Duration = Duration::from_millis(100);

impl From<Error> for Status {
    fn from(error: Error) -> Status {
        tracing::debug!(%error, "call failed");
        let message = error.to_string();
        let (code, details) = match error {
            Error::Unavailable(_) => {
                (Code::Unavailable, ErrorDetails::with_retry_info(Some(RETRY_UNAVAILABLE)))
            }
            Error::Overloaded => {
                (Code::ResourceExhausted, ErrorDetails::with_retry_info(Some(RETRY_OVERLOADED)))
            }
            Error::Unconfirmed { is_void: true, .. } => {
                (Code::Unavailable, again("UNCONFIRMED", RETRY_UNAVAILABLE))
            }
            Error::Unconfirmed { .. } => (Code::DeadlineExceeded, info("UNCONFIRMED")),
            Error::Ending => (Code::Unavailable, again("SERVER_ENDING", RETRY_UNAVAILABLE)),
            Error::MemoryFull => (Code::ResourceExhausted, again("MEMORY_FULL", RETRY_UNAVAILABLE)),
            Error::TooManyWatchers => {
                (Code::ResourceExhausted, again("TOO_MANY_WATCHERS", RETRY_UNAVAILABLE))
            }
            Error::SlowWatcher => {
                (Code::ResourceExhausted, again("WATCHER_TOO_SLOW", RETRY_OVERLOADED))
            }
            Error::DeadlineExceeded => (Code::DeadlineExceeded, info("FATE_UNKNOWN")),
            Error::Corrupt(_) => (Code::Internal, info("STORED_VALUE_UNREADABLE")),
        };
        Status::with_error_details(code, message, details)
    }
}

fn info(reason: &str) -> ErrorDetails {
    ErrorDetails::with_error_info(reason, DOMAIN, HashMap::new())
}

/// Why, and when to try again.
fn again(reason: &str, after: Duration) -> ErrorDetails {
    let mut details = info(reason);
    details.set_retry_info(Some(after));
    details
}

/// DEADLINE_EXCEEDED: a call's message was not all there in time.
pub(super) fn not_all_said() -> Status {
    let message = "the deadline has come before all of the call's message; nothing was decided";
    Status::with_error_details(Code::DeadlineExceeded, message, info("MESSAGE_INCOMPLETE"))
}

/// NOT_FOUND: no policy of this name is configured.
pub(super) fn no_policy(policy: &Name) -> Status {
    let message = format!("no policy `{policy}`; ListPolicies lists those of the configuration");
    Status::with_error_details(Code::NotFound, message, info("POLICY_NOT_FOUND"))
}

/// FAILED_PRECONDITION: no further limit of a key can be counted.
pub(super) fn too_many_names() -> Status {
    let description = format!("at most {NAMES_MAX} names of limits count at a time");
    let message = format!("limits of this key: {description}; ResetRate forgets them");
    let details = ErrorDetails::with_precondition_failure_violation("LIMITS", "key", description);
    Status::with_error_details(Code::FailedPrecondition, message, details)
}

/// OUT_OF_RANGE: a sequence has not so many values left.
pub(super) fn no_values_left() -> Status {
    let message = "there are not so many values left in this sequence; nothing changed";
    Status::with_error_details(Code::OutOfRange, message, info("VALUES_EXHAUSTED"))
}

/// OUT_OF_RANGE: the numbers of the clock's period are used up, and those of as many
/// later ones as may be begun.
pub(super) fn numbers_used_up(ahead_max: Millis) -> Status {
    let most = humantime::format_duration(ahead_max.duration());
    let message = format!(
        "the numbers of this period, and of those up to {most} beyond the engine's clock, are used \
         up; nothing changed; a wider {{n:…}} or a finer calendar has more"
    );
    Status::with_error_details(Code::OutOfRange, message, info("PERIOD_EXHAUSTED"))
}

/// INVALID_ARGUMENT: the floor lies further beyond the engine's clock than that.
pub(super) fn floor_too_far_ahead(ahead_max: Millis) -> Status {
    let most = humantime::format_duration(ahead_max.duration());
    let description = format!("must be at most {most} beyond the engine's clock");
    invalid(vec![FieldViolation::new("floor", description)], 0)
}

/// NOT_FOUND: the stock of a sku was never set.
pub(super) fn no_stock(sku: &Name) -> Status {
    let message = format!("no stock of `{sku}`; SetStock sets how many there are");
    Status::with_error_details(Code::NotFound, message, info("STOCK_NOT_FOUND"))
}

/// FAILED_PRECONDITION: more of a sku are reserved than would be on hand.
pub(super) fn below_reserved(sku: &Name, reserved: u64) -> Status {
    let description = format!("must not go below what is reserved, {reserved}");
    let message = format!("stock of `{sku}` {description}; nothing changed");
    let subject = sku.as_str();
    let details =
        ErrorDetails::with_precondition_failure_violation("RESERVED", subject, description);
    Status::with_error_details(Code::FailedPrecondition, message, details)
}

/// OUT_OF_RANGE: what is on hand and sold of a sku would be more than can be counted.
pub(super) fn too_much_stock() -> Status {
    let message =
        format!("on_hand and sold together must be at most {QUANTITY_MAX}; nothing changed");
    Status::with_error_details(Code::OutOfRange, message, info("QUANTITY_TOO_LARGE"))
}

/// INVALID_ARGUMENT, naming every bad field, and how many more there were.
pub(super) fn invalid(violations: Vec<FieldViolation>, unnamed: usize) -> Status {
    let named = violations.iter().map(|bad| format!("{} {}", bad.field, bad.description));
    let mut fields: Vec<String> = named.take(FIELDS_IN_MESSAGE).collect();
    let more = violations.len() - fields.len() + unnamed;
    if more > 0 {
        fields.push(format!("and {more} more"));
    }
    tracing::debug!(?fields, "bad request");
    let details = ErrorDetails::with_bad_request(violations);
    Status::with_error_details(Code::InvalidArgument, fields.join("; "), details)
}
