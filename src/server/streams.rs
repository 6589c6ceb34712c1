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

use crate::grpc::{self, ConnectionBudget, OpenStream};
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
        // In a box: tokio moves a task several times.
        let mut task = Box::pin(StreamTask { stream, open, late: None });
        // The stream registers its wakers again when the spawned task polls it.
        if !grpc::takes_first()
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
        // Runs out while a part of the answer waits for the caller.
        late: Option<Box<Late>>,
    }
}

/// The time until when the caller must have taken a part of an answer.
struct Late {
    /// The number of the part.
    part: u64,
    sleep: Pin<Box<Sleep>>,
}

impl<F: Future<Output = ()>> Future for StreamTask<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Projected { stream, open, late, .. } = self.project();
        let unsent = late.as_ref().map_or(0, |late| late.part);
        let (polled, unsent) = grpc::poll_stream(unsent, || stream.poll(cx));
        if polled.is_ready() {
            return Poll::Ready(());
        }
        if unsent == 0 {
            *late = None;
            return Poll::Pending;
        }
        let late = match late {
            Some(late) if late.part == unsent => late,
            other => {
                let sleep = Box::pin(sleep(open.answer_timeout()));
                other.insert(Box::new(Late { part: unsent, sleep }))
            }
        };
        ready!(late.sleep.as_mut().poll(cx));
        // Dropping the stream resets it.
        ReachedLimit::AnswerTime.record();
        Poll::Ready(())
    }
}
