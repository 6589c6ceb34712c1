//! Converts the errors of single requests in a batch.

use tonic::Status;
use tonic_types::StatusExt;

use super::super::super::pb;

/// Converts the error to the one that a single call would have.
pub(in crate::grpc::admission) fn item_error(status: &Status) -> pb::ItemError {
    let details = status.get_error_details();
    let violations = details.bad_request().into_iter().flat_map(|it| &it.field_violations);
    let violations = violations.map(|violation| pb::ItemViolation {
        field: violation.field.clone().into(),
        description: violation.description.clone().into(),
    });
    let retry_after = details.retry_info().and_then(|retry| retry.retry_delay);
    pb::ItemError {
        code: status.code() as i32,
        message: status.message().to_owned().into(),
        reason: details.error_info().map(|it| it.reason.clone()).unwrap_or_default().into(),
        violations: violations.collect(),
        retry_after: retry_after.and_then(|it| prost_types::Duration::try_from(it).ok()),
    }
}
