//! Replaces errors that tonic creates by errors with a message and details.

use std::sync::Arc;

use hyper::{HeaderMap, Response, Uri, header::HeaderName};
use tonic::{Code, Status};

use super::{
    super::{
        held::{Hold, Holding},
        protocol, status,
    },
    AnswerBody,
    answer::STATUS,
};
use crate::decision::budget::{self, Limit};

const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// Returns tonic's answer to a call. If it is an error without details, it is replaced.
pub(in super::super) fn retyped(
    path: &Uri,
    answer: Response<tonic::body::Body>,
    holding: Arc<Holding>,
    listing: Option<Hold>,
) -> Response<AnswerBody> {
    match replacement(path, answer.headers()) {
        Some(status) => status.into_http(),
        None => answer.map(|body| AnswerBody::other(body, holding, listing)),
    }
}

/// Returns the replacement if the headers are such an error.
fn replacement(path: &Uri, headers: &HeaderMap) -> Option<Status> {
    // A status in the headers means an answer without a message.
    let code = Code::from_bytes(headers.get(STATUS)?.as_bytes());
    if headers.contains_key(DETAILS) {
        return None;
    }
    let message = headers.get(MESSAGE).map_or(&b""[..], |message| message.as_bytes());
    // Messages are percent-encoded, so spaces are `%20`.
    let begins = |text: &str| message.starts_with(text.as_bytes());
    match code {
        Code::Unimplemented if message.is_empty() => {
            Some(status::unknown_rpc(&protocol::repeated(path.path().as_bytes())))
        }
        Code::OutOfRange if begins("Error,%20decoded%20message%20length%20too%20large") => {
            budget::note(Limit::MessageBytes);
            Some(status::message_too_large())
        }
        Code::ResourceExhausted if begins("Error%20decompressing:%20size%20limit") => {
            budget::note(Limit::MessageBytes);
            Some(status::message_too_large())
        }
        Code::Internal if begins("Error%20decompressing:") => Some(status::not_gzip()),
        _ => None,
    }
}
