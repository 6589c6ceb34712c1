//! The tasks of the streams of a connection. Each stream counts until it ends. A stream whose
//! caller does not take its answer is reset.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use hyper::rt::Executor;
use tokio::time::{Sleep, sleep};

use crate::{
    decision::budget::{self, Limit},
    grpc::{self, Holding},
};

/// Spawns the streams of a connection.
#[derive(Debug, Clone)]
pub(super) struct Streams(pub(super) Arc<Holding>);

impl<F> Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let open = self.0.clone().open();
        let task = async move {
            let mut stream = pin!(stream);
            // The number of the answer part that waits for the caller, and the timer of that part.
            let (mut unsent, mut late) = (0, None::<(u64, Pin<Box<Sleep>>)>);
            poll_fn(|cx| {
                if open.run(&mut unsent, || stream.as_mut().poll(cx)).is_ready() {
                    return Poll::Ready(());
                }
                if unsent == 0 {
                    late = None;
                    return Poll::Pending;
                }
                let late = match &mut late {
                    Some((part, late)) if *part == unsent => late,
                    other => {
                        let end = Box::pin(sleep(open.answer_timeout()));
                        &mut other.insert((unsent, end)).1
                    }
                };
                ready!(late.as_mut().poll(cx));
                // Dropping the stream resets it.
                budget::note(Limit::AnswerTime);
                Poll::Ready(())
            })
            .await;
        };
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
