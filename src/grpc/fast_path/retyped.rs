//! Replaces errors that tonic creates by errors with a message and details.
//!
//! tonic answers an unknown RPC with a bare UNIMPLEMENTED, without a message.

use std::sync::Arc;

use hyper::{HeaderMap, Response, Uri, header::HeaderName};
use tonic::{Code, Status};

use super::{
    super::{
        held::{ConnectionBudget, Permits},
        protocol, status,
    },
    AnswerBody,
    answer::STATUS,
    unfinished::Refusal,
};

const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// Returns tonic's answer to a call. If it is an error without details, it is replaced. `refusal`
/// is the error that ends the request of a stream early.
pub(in super::super) fn retyped(
    path: &Uri,
    mut answer: Response<tonic::body::Body>,
    holding: Arc<ConnectionBudget>,
    listing: Option<Permits>,
    refusal: Option<Refusal>,
) -> Response<AnswerBody> {
    match replacement(path, answer.headers()) {
        Some(status) => status.into_http(),
        None => {
            let grant = answer.extensions_mut().remove();
            answer.map(|body| AnswerBody::other(body, holding, listing, refusal, grant))
        }
    }
}

/// Returns the replacement if the headers are such an error.
fn replacement(path: &Uri, headers: &HeaderMap) -> Option<Status> {
    // A status in the headers means an answer without a message.
    let code = Code::from_bytes(headers.get(STATUS)?.as_bytes());
    if headers.contains_key(DETAILS) {
        return None;
    }
    let is_mute = headers.get(MESSAGE).is_none_or(|message| message.is_empty());
    (code == Code::Unimplemented && is_mute)
        .then(|| status::unknown_rpc(&protocol::repeated(path.path().as_bytes())))
}
