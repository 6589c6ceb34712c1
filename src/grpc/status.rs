//! Converts errors to gRPC status, with machine-readable details. Those of the transport are in
//! `crates/http/src/rejections.rs`.
//!
//! | code | the call |
//! |---|---|
//! | UNAVAILABLE | had no effect; a retry, here or elsewhere, is safe |
//! | RESOURCE_EXHAUSTED | was not executed, or its stream ends, because of a limit |
//! | INVALID_ARGUMENT, UNAUTHENTICATED, PERMISSION_DENIED, UNIMPLEMENTED | was not executed; a retry fails again |
//! | NOT_FOUND, FAILED_PRECONDITION, OUT_OF_RANGE | changed nothing |
//! | DEADLINE_EXCEEDED | may have been executed, unless the reason is MESSAGE_INCOMPLETE or NOT_REACHED |
//! | INTERNAL | read a stored value that is unreadable; the message names the repair, if one exists |
//!
//! Details have an `ErrorInfo` with a reason in capitals and the domain `tollgate`, and `RetryInfo`
//! where a retry can succeed. Programs compare reasons; messages are for people and can change.

use std::{collections::HashMap, time::Duration};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

use tollgate_core::{
    error::Error, names::Name, rate::NAMES_MAX, stock::QUANTITY_MAX, time::Millis,
};
use tollgate_telemetry::{line_pace::LinePaces, spans, text};

/// The domain of all reasons.
pub(super) const DOMAIN: &str = "tollgate";
/// Maximum number of violations in the message. The details contain more.
const FIELDS_IN_MESSAGE: usize = 8;
// Retry delays for callers.
const RETRY_UNAVAILABLE: Duration = Duration::from_secs(1);
const RETRY_OVERLOADED: Duration = Duration::from_millis(100);
/// Limits the lines about unknown policies: one a minute for each name, for up to 64 names.
static UNKNOWN_POLICIES: LinePaces<String> = LinePaces::new(1, Duration::from_secs(60), 64);
/// Maximum number of bytes of a name in such a line.
const POLICY_BYTES_MAX: usize = 256;

/// Returns the status of a call that could not be decided.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(crate) fn from_error(error: Error) -> Status {
    let message = error.to_string();
    let (code, details) = match error {
        Error::Unavailable(_) => {
            (Code::Unavailable, ErrorDetails::with_retry_info(Some(RETRY_UNAVAILABLE)))
        }
        Error::Refused(_) => (Code::Unavailable, again("STORE_REFUSES", RETRY_UNAVAILABLE)),
        Error::StoreLost => (Code::Unavailable, again("STORE_LOST", RETRY_UNAVAILABLE)),
        Error::Overloaded => (Code::ResourceExhausted, again("OVERLOADED", RETRY_OVERLOADED)),
        Error::Unacknowledged { is_void: true, .. } => {
            (Code::Unavailable, again("UNCONFIRMED", RETRY_UNAVAILABLE))
        }
        Error::Unacknowledged { .. } => (Code::DeadlineExceeded, info("UNCONFIRMED")),
        Error::Ending => (Code::Unavailable, again("SERVER_ENDING", RETRY_UNAVAILABLE)),
        Error::MemoryFull => (Code::ResourceExhausted, again("MEMORY_FULL", RETRY_UNAVAILABLE)),
        Error::UnsyncedFull { .. } => {
            (Code::ResourceExhausted, again("DISK_TOO_SLOW", RETRY_UNAVAILABLE))
        }
        Error::NamespaceLimit { limit, value, retry } => {
            (Code::ResourceExhausted, namespace_limit(limit, value, retry))
        }
        Error::TooManyWatchers => {
            (Code::ResourceExhausted, again("TOO_MANY_WATCHERS", RETRY_UNAVAILABLE))
        }
        Error::SlowWatcher => {
            (Code::ResourceExhausted, again("WATCHER_TOO_SLOW", RETRY_OVERLOADED))
        }
        Error::DeadlineExceeded | Error::Denied(_) => {
            (Code::DeadlineExceeded, info("FATE_UNKNOWN"))
        }
        Error::NotReached => (Code::DeadlineExceeded, info("NOT_REACHED")),
        Error::Corrupt(_) => (Code::Internal, info("STORED_VALUE_UNREADABLE")),
    };
    Status::with_error_details(code, message, details)
}

/// Returns the error of a call of several decisions if every decision failed. A decision with an
/// unknown outcome takes precedence: UNAVAILABLE would say that nothing was executed. If all errors
/// are unreadable values, the call does not fail: each of them has its own response.
pub(super) fn of_all<T>(outcomes: &[Result<T, Error>]) -> Option<Error> {
    let errors = || outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    if errors().count() < outcomes.len() {
        return None;
    }
    let unsure = errors().find(|error| error.is_unsure());
    unsure.or_else(|| errors().find(|error| !matches!(error, Error::Corrupt(_)))).cloned()
}

/// Returns the error of a call whose answer has a status for a decision that was not made, but none
/// for a decision with an unknown outcome.
pub(super) fn none_known<T>(outcomes: &[Result<T, Error>]) -> Option<Error> {
    let errors = || outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    match errors().find(|error| error.is_unsure()) {
        Some(unsure) => Some(unsure.clone()),
        None if errors().any(|error| matches!(error, Error::Corrupt(_))) => None,
        None => of_all(outcomes),
    }
}

/// Details with a machine-readable reason.
fn info(reason: &str) -> ErrorDetails {
    ErrorDetails::with_error_info(reason, DOMAIN, HashMap::new())
}

/// Returns the limit of a namespace and its value, and the time until a retry.
fn namespace_limit(limit: &str, value: u64, retry: Millis) -> ErrorDetails {
    let metadata = [("limit", limit.to_owned()), ("value", value.to_string())];
    let metadata = metadata.map(|(key, value)| (key.to_owned(), value));
    let mut details =
        ErrorDetails::with_error_info("NAMESPACE_LIMIT", DOMAIN, HashMap::from(metadata));
    details.set_retry_info(Some(retry.duration()));
    details
}

/// Returns the reason, and the time until a retry.
fn again(reason: &str, after: Duration) -> ErrorDetails {
    let mut details = info(reason);
    details.set_retry_info(Some(after));
    details
}

/// PERMISSION_DENIED: a field has a name that the caller may not use, whether or not it exists.
pub(super) fn name_denied(caller: &str, field: &str) -> Status {
    let message = format!(
        "{field} is not among the names that caller `{caller}` may use; see `names` of its \
         [[caller]] entry; nothing was executed"
    );
    let metadata = HashMap::from([("field".to_owned(), field.to_owned())]);
    let details = ErrorDetails::with_error_info("NAME_NOT_PERMITTED", DOMAIN, metadata);
    Status::with_error_details(Code::PermissionDenied, message, details)
}

/// NOT_FOUND: no policy of this name is configured. Also logs it: a limiter that fails open lets
/// every call pass after this error.
pub(super) fn no_policy(policy: &Name) -> Status {
    let shown = text::escaped(text::start(policy.as_str(), POLICY_BYTES_MAX));
    if let Some(suppressed) = UNKNOWN_POLICIES.due(shown.clone().into_owned()) {
        let trace_id = spans::trace_id().map(tracing::field::display);
        tracing::warn!(
            trace_id, policy = %shown, suppressed,
            "a call names a policy that is not configured: add a [[policy]] or correct the caller"
        );
    }
    let message = format!("no policy `{policy}`; ListPolicies lists the configured policies");
    Status::with_error_details(Code::NotFound, message, info("POLICY_NOT_FOUND"))
}

/// FAILED_PRECONDITION: a key has usage under the maximum of limit names.
pub(super) fn too_many_names() -> Status {
    let description = format!("at most {NAMES_MAX} limit names can have usage at the same time");
    let message = format!("limits of this key: {description}; ResetRate removes them");
    let details = ErrorDetails::with_precondition_failure_violation("LIMITS", "key", description);
    Status::with_error_details(Code::FailedPrecondition, message, details)
}

/// OUT_OF_RANGE: a sequence has too few values left.
pub(super) fn no_values_left() -> Status {
    let message = "the sequence has fewer values left than asked for; nothing changed";
    Status::with_error_details(Code::OutOfRange, message, info("VALUES_EXHAUSTED"))
}

/// OUT_OF_RANGE: the numbers of the clock's period, and of the later periods within
/// `ahead_max`, are used up.
pub(super) fn numbers_used_up(ahead_max: Millis) -> Status {
    let most = humantime::format_duration(ahead_max.duration());
    let message = format!(
        "the numbers of this period, and of the periods up to {most} beyond the engine's clock, \
         are used up; nothing changed; a wider {{n:…}} or a finer calendar has more"
    );
    Status::with_error_details(Code::OutOfRange, message, info("PERIOD_EXHAUSTED"))
}

/// INVALID_ARGUMENT: the floor is more than `ahead_max` beyond the engine's clock.
pub(super) fn floor_too_far_ahead(ahead_max: Millis) -> Status {
    let most = humantime::format_duration(ahead_max.duration());
    let description = format!("must be at most {most} beyond the engine's clock");
    invalid(vec![FieldViolation::new("floor", description)], 0)
}

/// NOT_FOUND: SetStock was never called for this sku.
pub(super) fn no_stock(sku: &Name) -> Status {
    let message = format!("no stock of `{sku}`; create it with SetStock");
    Status::with_error_details(Code::NotFound, message, info("STOCK_NOT_FOUND"))
}

/// FAILED_PRECONDITION: the reserved quantity exceeds the new quantity on hand.
pub(super) fn below_reserved(sku: &Name, reserved: u64) -> Status {
    let description = format!("must not be below the reserved quantity, {reserved}");
    let message = format!("stock of `{sku}` {description}; nothing changed");
    let subject = sku.as_str();
    let details =
        ErrorDetails::with_precondition_failure_violation("RESERVED", subject, description);
    Status::with_error_details(Code::FailedPrecondition, message, details)
}

/// OUT_OF_RANGE: on_hand and sold of a sku together would exceed the maximum.
pub(super) fn too_much_stock() -> Status {
    let message =
        format!("on_hand and sold together must be at most {QUANTITY_MAX}; nothing changed");
    Status::with_error_details(Code::OutOfRange, message, info("QUANTITY_TOO_LARGE"))
}

/// INVALID_ARGUMENT with every bad field and the number of unnamed ones.
pub(super) fn invalid(violations: Vec<FieldViolation>, unnamed: usize) -> Status {
    let named = violations.iter().map(|bad| format!("{} {}", bad.field, bad.description));
    let mut fields: Vec<String> = named.take(FIELDS_IN_MESSAGE).collect();
    let more = violations.len() - fields.len() + unnamed;
    if more > 0 {
        fields.push(format!("and {more} more"));
    }
    let details = ErrorDetails::with_bad_request(violations);
    Status::with_error_details(Code::InvalidArgument, fields.join("; "), details)
}

/// Returns the name of a gRPC code, such as `INVALID_ARGUMENT`.
pub(super) fn code_name(code: Code) -> String {
    let mut name = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_their_names_on_the_wire() {
        let codes = [Code::Ok, Code::InvalidArgument, Code::DeadlineExceeded, Code::Unavailable];
        let names = ["OK", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "UNAVAILABLE"];
        assert_eq!(codes.map(code_name), names);
    }

    #[test]
    fn h7_a_call_is_unavailable_only_if_none_of_its_decisions_was_executed() {
        let (taken, refused) = (Ok(()), Err(Error::Unavailable("OOM".to_owned())));
        let (unsure, damaged) = (Err(Error::DeadlineExceeded), Err(Error::Corrupt("x".to_owned())));
        let call = |outcomes: [&Result<(), Error>; 3]| outcomes.map(Clone::clone);
        let both = |outcomes| {
            let outcomes = call(outcomes);
            [of_all(&outcomes), none_known(&outcomes)]
        };
        let refusal = refused.clone().err();
        let lost = unsure.clone().err();
        assert_eq!(both([&refused, &refused, &refused]), [refusal.clone(), refusal.clone()]);
        assert_eq!(both([&refused, &taken, &refused]), [None, None]);
        assert_eq!(both([&refused, &unsure, &refused]), [lost.clone(), lost.clone()]);
        assert_eq!(both([&taken, &unsure, &refused]), [None, lost]);
        assert_eq!(both([&damaged, &damaged, &damaged]), [None, None]);
        assert_eq!(both([&damaged, &refused, &damaged]), [refusal, None]);
    }
}
