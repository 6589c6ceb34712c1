//! Replaces errors that tonic creates with errors that have a message and details.
//!
//! tonic answers an unknown RPC with a bare UNIMPLEMENTED, without a message.

use std::sync::Arc;

use hyper::{HeaderMap, Response, Uri, header::HeaderName};
use tonic::Code;

use super::{AnswerBody, answer::STATUS, unfinished::EarlyEnd};
use crate::{
    permits::{ConnectionBudget, Permits},
    protocol,
};

const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// Returns tonic's answer to a call, after replacing it if it is an error without details.
/// `early_end` is the error that ends the request of a stream early.
pub(crate) fn retyped(
    path: &Uri,
    mut answer: Response<tonic::body::Body>,
    budget: Arc<ConnectionBudget>,
    listing: Option<Permits>,
    early_end: Option<EarlyEnd>,
) -> Response<AnswerBody> {
    if is_bare(answer.headers()) {
        let path = protocol::quoted(path.path().as_bytes());
        return budget.rejections().unknown_rpc(&path).into_http();
    }
    let on_sent = answer.extensions_mut().remove();
    answer.map(|body| AnswerBody::other(body, budget, listing, early_end, on_sent))
}

/// Whether the headers contain UNIMPLEMENTED without a message and details.
fn is_bare(headers: &HeaderMap) -> bool {
    // A status in the headers means an answer without a message.
    let code = headers.get(STATUS).map(|status| Code::from_bytes(status.as_bytes()));
    code == Some(Code::Unimplemented)
        && !headers.contains_key(DETAILS)
        && headers.get(MESSAGE).is_none_or(|message| message.is_empty())
}
