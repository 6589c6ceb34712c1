//! Counts calls by the status of their response.

use hyper::Response;

use super::answer::{AnswerBody, code_of};
use tollgate_telemetry::metrics::CountedCall;

/// Counts the end of a call with this response. If its status follows later, its body counts it.
pub(crate) fn counted(
    call: CountedCall,
    mut response: Response<AnswerBody>,
) -> Response<AnswerBody> {
    match code_of(response.headers()) {
        Some(code) => call.end(code as i32),
        None => response.body_mut().count(call),
    }
    response
}
