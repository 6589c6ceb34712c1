//! What is sent in answer to a call.

use std::{
    mem,
    pin::Pin,
    task::{Context, Poll},
};

use hyper::{
    HeaderMap,
    body::{Body, Bytes, Frame},
    header::{HeaderName, HeaderValue},
};
use tonic::Status;

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const OK: HeaderValue = HeaderValue::from_static("0");

/// What is sent in answer to a call, after its headers.
#[derive(Debug, Default)]
pub enum AnswerBody {
    /// A message, and that all is well.
    Message(Bytes),
    /// That all is well.
    Status,
    /// Nothing more.
    #[default]
    Done,
    /// What tonic has answered.
    Other(tonic::body::Body),
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let AnswerBody::Other(body) = &mut *self {
            return Pin::new(body).poll_frame(cx);
        }
        let frame = match mem::take(&mut *self) {
            AnswerBody::Message(message) => {
                *self = AnswerBody::Status;
                Some(Ok(Frame::data(message)))
            }
            AnswerBody::Status => {
                let mut trailers = HeaderMap::with_capacity(1);
                trailers.insert(STATUS, OK);
                Some(Ok(Frame::trailers(trailers)))
            }
            _ => None,
        };
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AnswerBody::Other(body) => body.is_end_stream(),
            AnswerBody::Done => true,
            _ => false,
        }
    }
}
