//! A device's connection: sends each of its messages once or twice, and counts the answers.

use std::{sync::Arc, time::Duration};

use tokio::{join, sync::Semaphore};

use super::tally::Tally;
use crate::{
    admission::{AdmitDecision, CompleteVerdict, Outcome, Usage},
    decision::time::monotonic,
    grpc::client::{CallError, Client},
};

/// The calls of one device.
#[derive(Debug)]
pub(super) struct Uplink {
    /// The connection, shared with other devices.
    pub(super) client: Client,
    /// The pool.
    pub(super) pool: Arc<str>,
    /// Name of the device.
    pub(super) device: String,
    /// The requested lease.
    pub(super) lease: Duration,
    /// Whether each message is sent twice.
    pub(super) twice: bool,
    /// Permits of the calls of all devices.
    pub(super) in_flight: Arc<InFlight>,
    /// Counts all answers.
    pub(super) tally: Arc<Tally>,
}

/// Permits of calls in flight. Requests and results have separate permits, so that requests do not
/// delay results.
#[derive(Debug)]
pub(super) struct InFlight {
    asks: Semaphore,
    results: Semaphore,
}

impl InFlight {
    /// Creates permits for `calls` requests and as many results.
    pub(super) fn most(calls: usize) -> Arc<InFlight> {
        Arc::new(InFlight { asks: Semaphore::new(calls), results: Semaphore::new(calls) })
    }
}

/// The result of a request for a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    /// The answer; of two answers the better one.
    pub(super) decision: Option<AdmitDecision>,
    /// Whether a message had no answer: it may have been granted a lease.
    pub(super) lost: bool,
}

impl Answer {
    /// Combines the answers to a message that was sent once or twice.
    pub(super) fn of(answers: Vec<Option<AdmitDecision>>) -> Answer {
        let lost = answers.iter().any(Option::is_none);
        Answer { decision: answers.into_iter().flatten().max_by_key(favour), lost }
    }
}

/// Ranks answers: a slot before none, of two leases the newest, of two waits the longest, because a
/// device never asks earlier than an answer allows.
fn favour(decision: &AdmitDecision) -> (u8, u64, bool) {
    match decision {
        AdmitDecision::Admitted { lease, replayed, .. } => (3, lease.token, !replayed),
        AdmitDecision::AlreadyCompleted => (2, 0, false),
        AdmitDecision::Full { retry_after, .. } | AdmitDecision::Paused { retry_after } => {
            (1, retry_after.0, false)
        }
        AdmitDecision::NoTask => (0, 0, false),
    }
}

impl Uplink {
    /// Asks for a slot. Returns the answer to each message; `None` for a failed call.
    pub(super) async fn ask(&self, task: &str) -> Vec<Option<AdmitDecision>> {
        self.send(|| self.admit_once(task)).await
    }

    /// Reports a result. Returns the answer to each message; `None` for a failed call.
    pub(super) async fn complete(
        &self,
        task: &str,
        token: u64,
        outcome: Outcome,
    ) -> Vec<Option<CompleteVerdict>> {
        self.send(|| self.complete_once(task, token, outcome)).await
    }

    /// Sends a message once, or twice at once.
    async fn send<F: Future>(&self, message: impl Fn() -> F) -> Vec<F::Output> {
        match self.twice {
            true => <[F::Output; 2]>::from(join!(message(), message())).into(),
            false => vec![message().await],
        }
    }

    async fn admit_once(&self, task: &str) -> Option<AdmitDecision> {
        let call = || self.client.admit(&self.pool, &self.device, task, Some(self.lease));
        let admission = self.call(&self.in_flight.asks, call, |admission| admission.usage).await?;
        match admission.decision {
            AdmitDecision::Admitted { replayed: true, .. } => self.tally.replayed.add(),
            AdmitDecision::AlreadyCompleted => self.tally.done_before.add(),
            AdmitDecision::Full { .. } => self.tally.full.add(),
            AdmitDecision::Paused { .. } => self.tally.paused.add(),
            AdmitDecision::Admitted { .. } | AdmitDecision::NoTask => {}
        }
        Some(admission.decision)
    }

    async fn complete_once(
        &self,
        task: &str,
        token: u64,
        outcome: Outcome,
    ) -> Option<CompleteVerdict> {
        let call = || self.client.complete(&self.pool, &self.device, task, token, outcome);
        let completion =
            self.call(&self.in_flight.results, call, |completion| completion.usage).await?;
        self.tally.verdict(completion.verdict);
        Some(completion.verdict)
    }

    async fn call<T, F: Future<Output = Result<T, CallError>>>(
        &self,
        places: &Semaphore,
        call: impl FnOnce() -> F,
        usage: impl Fn(&T) -> Usage,
    ) -> Option<T> {
        // The semaphore is never closed.
        let _place = places.acquire().await.ok()?;
        let sent = monotonic();
        // Boxed, so that devices without a call in flight use no memory for one.
        let answer = Box::pin(call()).await;
        self.tally.calls.add();
        match answer {
            Ok(answer) => {
                self.tally.latencies.add(sent.elapsed());
                self.tally.usage(usage(&answer));
                Some(answer)
            }
            Err(error) => {
                tracing::debug!(device = self.device, %error, "call failed");
                self.tally.failed.add(error.code);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        admission::Lease,
        decision::{
            time::{Millis, Timestamp},
            waiters::Turn,
        },
    };

    fn admitted(token: u64, replayed: bool) -> Option<AdmitDecision> {
        let lease = Lease { token, grant: Timestamp(0), expire: Timestamp(1) };
        Some(AdmitDecision::Admitted { lease, replayed, dispatched: None })
    }

    fn full(millis: u64) -> Option<AdmitDecision> {
        Some(AdmitDecision::Full { retry_after: Millis(millis), turn: Turn::Refused, room_in: 0 })
    }

    #[test]
    fn of_two_answers_the_more_favourable_counts() {
        let best = |answers: [_; 2]| Answer::of(answers.into()).decision;
        assert_eq!(best([full(5), admitted(1, false)]), admitted(1, false));
        assert_eq!(best([admitted(1, true), admitted(1, false)]), admitted(1, false));
        assert_eq!(best([admitted(2, true), admitted(1, false)]), admitted(2, true));
        assert_eq!(best([full(5), full(9)]), full(9));
        assert_eq!(best([None, full(9)]), full(9));
    }

    #[test]
    fn a_lost_answer_is_remembered_beside_one_that_came() {
        assert!(Answer::of(vec![None, full(1)]).lost);
        assert!(Answer::of(vec![None]).lost && Answer::of(vec![None]).decision.is_none());
        assert!(!Answer::of(vec![full(1)]).lost);
    }
}
