//! Counts calls by the status of their response.

use hyper::Response;
use tonic::Status;

use super::answer::AnswerBody;
use crate::decision::metrics::CountedCall;

/// Counts the end of a call with this response. If its status follows later, its body counts it.
pub(in super::super) fn counted(
    call: CountedCall,
    mut response: Response<AnswerBody>,
) -> Response<AnswerBody> {
    match Status::from_header_map(response.headers()) {
        Some(status) => call.end(status.code() as i32),
        None => response.body_mut().count(call),
    }
    response
}
