//! Makes the calls of all actors, once or twice each, and counts them.

use tokio::{join, sync::Semaphore};
use tollgate_client::Error;

use super::counters::{AtomicCounter, NamedCounts, Times};
use tollgate_core::time::monotonic;

/// Permits and counters of all calls.
#[derive(Debug)]
pub(super) struct Calls {
    /// Permits for requests and for results, which are separate so that requests do not delay
    /// results.
    pub(super) requests: Semaphore,
    pub(super) results: Semaphore,
    /// Calls, answered or failed.
    pub(super) made: AtomicCounter,
    /// Failed calls, by gRPC code.
    pub(super) failed: NamedCounts,
    /// Latencies of answered calls.
    pub(super) latencies: Times,
}

impl Calls {
    /// Permits this number of requests in flight, and the same number of results.
    pub(super) fn new(in_flight: usize) -> Calls {
        Calls {
            requests: Semaphore::new(in_flight),
            results: Semaphore::new(in_flight),
            made: AtomicCounter::default(),
            failed: NamedCounts::default(),
            latencies: Times::default(),
        }
    }

    /// Makes a call and counts it. Returns `None` if it failed.
    pub(super) async fn make<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Option<T> {
        let sent = monotonic();
        // Boxed, so that actors without a call in flight do not pay for its memory.
        let answer = Box::pin(call).await;
        self.made.add();
        match answer {
            Ok(answer) => {
                self.latencies.add(sent.elapsed());
                Some(answer)
            }
            Err(error) => {
                self.failed.add(error.code);
                None
            }
        }
    }

    /// Makes a call once, or twice concurrently, each as soon as it gets a permit. Returns the
    /// answers of the calls that did not fail.
    pub(super) async fn repeat<T, F: Future<Output = Result<T, Error>>>(
        &self,
        twice: bool,
        permits: &Semaphore,
        call: impl Fn() -> F,
    ) -> Vec<T> {
        let once = async || {
            // The semaphore is never closed.
            let _permit = permits.acquire().await.ok()?;
            self.make(call()).await
        };
        let answers = if twice {
            <[Option<T>; 2]>::from(join!(once(), once()))
        } else {
            [once().await, None]
        };
        answers.into_iter().flatten().collect()
    }
}
