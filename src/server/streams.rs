//! The tasks of the streams of a connection. Each stream counts until it ends. A stream whose
//! caller does not take its answer is reset.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use hyper::rt::Executor;
use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};

use crate::{
    decision::budget::{self, Limit},
    grpc::{self, Holding, OpenStream},
};

/// Spawns the streams of a connection.
#[derive(Debug, Clone)]
pub(super) struct Streams(pub(super) Arc<Holding>);

impl<F> Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let task = Task { stream, open: self.0.clone().open(), unsent: 0, late: None };
        if !grpc::takes_first() {
            tokio::spawn(task);
            return;
        }
        let mut task = Box::pin(task);
        // The stream registers its wakers again when the spawned task polls it.
        if task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            tokio::spawn(task);
        }
    }
}

pin_project! {
    #[project = Projected]
    /// The task of a stream. Not an async block: that would store the stream twice, and each move
    /// of the task would copy both.
    struct Task<F> {
        #[pin]
        stream: F,
        open: OpenStream,
        // The number of the answer part that waits for the caller; 0 for none.
        unsent: u64,
        // That number, and the time until when the caller must have taken the part.
        late: Option<(u64, Pin<Box<Sleep>>)>,
    }
}

impl<F: Future<Output = ()>> Future for Task<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Projected { stream, open, unsent, late } = self.project();
        if open.run(unsent, || stream.poll(cx)).is_ready() {
            return Poll::Ready(());
        }
        if *unsent == 0 {
            *late = None;
            return Poll::Pending;
        }
        let late = match late {
            Some((part, late)) if *part == *unsent => late,
            other => &mut other.insert((*unsent, Box::pin(sleep(open.answer_timeout())))).1,
        };
        ready!(late.as_mut().poll(cx));
        // Dropping the stream resets it.
        budget::note(Limit::AnswerTime);
        Poll::Ready(())
    }
}
