//! The tasks of the streams of a connection. Each stream is counted until it ends. A stream whose
//! caller does not read the answer is reset.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use hyper::rt::Executor;
use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};

use crate::{
    permits::{ConnectionBudget, OpenStream},
    shedding, unsent,
};
use tollgate_telemetry::limits::ReachedLimit;

/// Spawns the streams of a connection.
#[derive(Debug, Clone)]
pub(super) struct Streams(pub(super) Arc<ConnectionBudget>);

impl<F> Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let open = self.0.clone().open();
        // Boxed, because tokio moves a task several times.
        let mut task = Box::pin(StreamTask { stream, open, late: None });
        // The stream registers its wakers again when the spawned task polls it.
        if !shedding::take_is_first()
            || task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
        {
            tokio::spawn(task);
        }
    }
}

pin_project! {
    #[project = Projected]
    /// The task of a stream. Not an async block: that would store the stream twice, and each move
    /// of the task would copy both.
    struct StreamTask<F> {
        #[pin]
        stream: F,
        open: OpenStream,
        // Timer that runs while the caller has not read a chunk of the answer.
        late: Option<Box<Late>>,
    }
}

/// The time by which the caller must have read a chunk of an answer.
struct Late {
    /// The number of the chunk.
    chunk: u64,
    sleep: Pin<Box<Sleep>>,
}

impl<F: Future<Output = ()>> Future for StreamTask<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Projected { stream, open, late, .. } = self.project();
        let before = late.as_ref().map_or(0, |late| late.chunk);
        let (polled, unsent) = unsent::poll_stream(before, || stream.poll(cx));
        if polled.is_ready() {
            return Poll::Ready(());
        }
        if unsent == 0 {
            *late = None;
            return Poll::Pending;
        }
        let late = match late {
            Some(late) if late.chunk == unsent => late,
            other => {
                let sleep = Box::pin(sleep(open.answer_timeout()));
                other.insert(Box::new(Late { chunk: unsent, sleep }))
            }
        };
        ready!(late.sleep.as_mut().poll(cx));
        // Dropping the stream resets it.
        ReachedLimit::AnswerTime.record();
        Poll::Ready(())
    }
}
