//! Stands in for a store that cannot be asked: an engine in this process that decides about
//! this server's share, where the configuration allows that.
//!
//! What it grants counts here only, and runs to its end whether the store is back or not. It
//! knows nothing of what the store granted before.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Instant,
};

use tokio::sync::Notify;

use super::{
    Answered, Engine, Source,
    embedded::{Embedded, Kept},
};
use crate::{
    decision::Decision,
    degradation::{Degradable, OnStoreFailure},
    error::Error,
    time::{Clock, monotonic},
};

/// The store counts as back once it has answered and no call was answered without it for
/// so long, in microseconds.
const CALM_MICROS: u64 = 1_000_000;

/// An engine for this server's share, which takes no memory before it is asked.
#[derive(Debug)]
pub(super) struct StandIn {
    embedded: Embedded,
    /// How many servers share the store.
    replicas: u32,
    clock: Clock,
    /// Whether calls are answered without the store.
    stands: AtomicBool,
    /// When one was, at last.
    last: AtomicU64,
    /// Whether one ever was granted something.
    is_used: AtomicBool,
    used: Notify,
}

impl StandIn {
    /// One of so many.
    pub(super) fn new(replicas: u32) -> StandIn {
        let clock = Clock::system();
        StandIn {
            embedded: Embedded::new(clock.clone()),
            replicas,
            clock,
            stands: AtomicBool::new(false),
            last: AtomicU64::new(0),
            is_used: AtomicBool::new(false),
            used: Notify::new(),
        }
    }

    /// Answers a decision that the store could not take, as the configuration says. Grants
    /// nothing while the store answers, and only refuses.
    fn answer<D>(&self, decision: &D, error: Error) -> Result<Answered<D::Outcome>, Error>
    where
        D: Degradable + Decision<State: Kept>,
    {
        let refused =
            || decision.refused().map(|outcome| Answered { outcome, source: Source::Refusal });
        let is_refused = matches!(error, Error::Refused(_));
        let answer = match decision.on_store_failure() {
            OnStoreFailure::Fail => None,
            OnStoreFailure::Deny => refused(),
            // What the store granted still counts there: a share would come on top of it.
            OnStoreFailure::Allow if is_refused && decision.refused().is_some() => None,
            OnStoreFailure::Allow if decision.has_no_share(self.replicas) => refused(),
            OnStoreFailure::Allow => self.decide(decision),
        };
        let Some(answer) = answer else { return Err(error) };
        self.last.store(self.clock.now().0, Ordering::Relaxed);
        if !self.stands.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                %error,
                "calls are answered without the store, as on_store_failure says (degraded)"
            );
        }
        Ok(answer)
    }

    /// Takes a decision about this server's share; none where it is about something that
    /// was not granted here.
    fn decide<D>(&self, decision: &D) -> Option<Answered<D::Outcome>>
    where
        D: Degradable + Decision<State: Kept>,
    {
        let outcome = self.embedded.run(&decision.shared(self.replicas)).ok()?;
        if D::is_unknown(&outcome) {
            return None;
        }
        if !self.is_used.swap(true, Ordering::Relaxed) {
            self.used.notify_one();
        }
        Some(Answered { outcome, source: Source::Share })
    }

    /// Notes that the store has taken a decision.
    fn note_store(&self) {
        if self.stands.load(Ordering::Relaxed)
            && self.clock.now().0 >= self.last.load(Ordering::Relaxed) + CALM_MICROS
            && self.stands.swap(false, Ordering::Relaxed)
        {
            tracing::info!("calls are answered by the store again");
        }
    }

    /// Drops what has ended, once there is anything.
    pub(super) async fn maintain(&self) {
        self.used.notified().await;
        self.embedded.maintain().await;
    }
}

impl Engine {
    /// Takes a decision about something that was granted before: by the store, or by this
    /// server while the store could not be asked.
    pub async fn follow<D>(
        &self,
        decision: &D,
        deadline: Instant,
    ) -> Result<Answered<D::Outcome>, Error>
    where
        D: Degradable + Decision<State: Kept>,
    {
        let result = self.run(decision, deadline).await;
        let Engine::Redis(engine) = self else { return result.map(Answered::by_store) };
        let stand_in = &engine.stand_in;
        if let Ok(outcome) = &result
            && D::is_unknown(outcome)
            && stand_in.is_used.load(Ordering::Relaxed)
            && let Some(answered) = stand_in.decide(decision)
        {
            return Ok(answered);
        }
        self.or_degraded(decision, result, deadline)
    }

    /// What became of a decision, or its answer by the configuration where the store could
    /// not be asked. Of a store that answers others a call that had no time to be sent
    /// says nothing: short deadlines must not be a way around a cap.
    pub(super) fn or_degraded<D>(
        &self,
        decision: &D,
        result: Result<D::Outcome, Error>,
        deadline: Instant,
    ) -> Result<Answered<D::Outcome>, Error>
    where
        D: Degradable + Decision<State: Kept>,
    {
        match (self, result) {
            (Engine::Redis(engine), Err(error @ Error::Refused(_))) => {
                engine.stand_in.answer(decision, error)
            }
            (Engine::Redis(engine), Err(error @ Error::Unavailable(_)))
                if engine.check().is_err() || monotonic() < deadline =>
            {
                engine.stand_in.answer(decision, error)
            }
            (Engine::Redis(engine), Ok(outcome)) => {
                engine.stand_in.note_store();
                Ok(Answered::by_store(outcome))
            }
            (_, result) => result.map(Answered::by_store),
        }
    }
}
