//! The future of a sampled call.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper::Response;

use crate::{
    fast_path::{AnswerBody, Answering, code_of},
    program::SampledCall,
};

/// A sampled call, which is current while it is polled. Its span ends with its answer.
pub(crate) struct TracedCall {
    span: Option<Box<dyn SampledCall>>,
    answering: Answering,
}

impl TracedCall {
    pub(crate) fn new(span: Box<dyn SampledCall>, answering: Answering) -> TracedCall {
        TracedCall { span: Some(span), answering }
    }
}

impl Future for TracedCall {
    type Output = <Answering as Future>::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let entered = self.span.as_ref().map(|span| span.enter());
        let answer = ready!(self.answering.as_mut().poll(cx));
        drop(entered);
        let span = self.span.take();
        Poll::Ready(answer.map(|answer| match span {
            None => answer,
            Some(span) => ended(span, answer),
        }))
    }
}

/// Ends the span with the status of the answer. If the status follows later, the body ends it.
fn ended(span: Box<dyn SampledCall>, mut answer: Response<AnswerBody>) -> Response<AnswerBody> {
    match code_of(answer.headers()) {
        Some(code) => span.end(code),
        None => answer.body_mut().end_with(span),
    }
    answer
}
