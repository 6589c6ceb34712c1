//! The fallback answers calls while Redis is unreachable, if the configuration allows it.
//!
//! `on_store_failure` of a pool or policy decides: fail, refuse, or grant from the quota of this
//! server. An embedded engine in this process decides within the quota, which is the configured
//! number divided by `replicas`.
//!
//! # Guarantees
//! - Only calls that were certainly not executed are answered here.
//! - The quota is granted only while the store is unreachable. If a store answers but refuses
//!   writes, its leases still count, so the quota would be granted in addition to them.
//! - Grants of the fallback count only on this server and last until they expire, even after the
//!   store is back. The fallback knows nothing about earlier grants of the store.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Instant,
};

use tokio::sync::Notify;

use crate::{
    Answered, AnsweredBy,
    embedded::{Embedded, Sharded},
};
use tollgate_core::{
    Decision,
    error::Error,
    fallback::{FallbackRule, OnStoreFailure},
    time::{Clock, monotonic},
};

/// The store counts as back if it decides a call and no call was answered without it for this time,
/// in µs.
const CALM_MICROS: u64 = 1_000_000;

/// The fallback engine. It needs almost no memory before its first grant.
#[derive(Debug)]
pub(crate) struct Fallback {
    embedded: Embedded,
    /// The number of servers on the store, among which the configured numbers are divided.
    replicas: u32,
    clock: Clock,
    /// Whether calls are answered without the store.
    stands: AtomicBool,
    /// The time of the last call that was answered without the store, in µs.
    last: AtomicU64,
    /// Whether the fallback has ever granted anything.
    is_used: AtomicBool,
    /// Notified by the first grant, to start the sweep.
    used: Notify,
}

impl Fallback {
    /// Creates the fallback of one of `replicas` servers.
    pub(crate) fn new(replicas: u32) -> Fallback {
        let clock = Clock::system();
        Fallback {
            embedded: Embedded::new(clock.clone()),
            replicas,
            clock,
            stands: AtomicBool::new(false),
            last: AtomicU64::new(0),
            is_used: AtomicBool::new(false),
            used: Notify::new(),
        }
    }

    /// Runs the fallback stage, which passes on an outcome of the store, or answers in its place.
    ///
    /// If the store does not know the grant that a call is about, the fallback that may have made
    /// it decides. The fallback does not replace an [`Error::Unavailable`] of a reachable store if
    /// the deadline has passed, because that call had no time to be sent, and short deadlines must
    /// not be a way around a cap. `check` fails while the store is unreachable.
    pub(crate) fn after_store<D>(
        &self,
        decision: &D,
        result: Result<D::Outcome, Error>,
        deadline: Instant,
        check: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Answered<D::Outcome>, Error>
    where
        D: Decision<State: Sharded>,
    {
        let Some(rule) = (const { &D::PROPERTIES.fallback }) else {
            return result.map(Answered::by_store);
        };
        match result {
            Ok(outcome) => {
                let may_know = (rule.is_unknown)(&outcome) && self.is_used.load(Ordering::Relaxed);
                if may_know && let Some(answered) = self.decide(rule, decision) {
                    return Ok(answered);
                }
                self.record_store();
                Ok(Answered::by_store(outcome))
            }
            Err(error @ Error::Refused(_)) => self.answer(rule, decision, error),
            Err(error @ Error::Unavailable(_)) if check().is_err() || monotonic() < deadline => {
                self.answer(rule, decision, error)
            }
            Err(error) => Err(error),
        }
    }

    /// Answers a decision that the store did not execute, according to the configuration of its
    /// pool or policy. Returns the error if the configuration says to fail. After
    /// [`Error::Refused`] it grants nothing.
    fn answer<D>(
        &self,
        rule: &FallbackRule<D>,
        decision: &D,
        error: Error,
    ) -> Result<Answered<D::Outcome>, Error>
    where
        D: Decision<State: Sharded>,
    {
        // The refusal of a decision that requests something; a completion has none.
        let refused = || {
            (rule.refused)(decision)
                .map(|outcome| Answered { outcome, source: AnsweredBy::Refusal })
        };
        let is_refused = matches!(error, Error::Refused(_));
        let answer = match (rule.on_store_failure)(decision) {
            OnStoreFailure::Fail => None,
            OnStoreFailure::Deny => refused(),
            // The leases of the store still count, so a grant from the quota would exceed the cap.
            OnStoreFailure::Allow if is_refused && (rule.refused)(decision).is_some() => None,
            OnStoreFailure::Allow if (rule.has_no_share)(decision, self.replicas) => refused(),
            OnStoreFailure::Allow => self.decide(rule, decision),
        };
        let Some(answer) = answer else { return Err(error) };
        self.last.store(self.clock.now().0, Ordering::Relaxed);
        if !self.stands.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                %error,
                "Redis could not execute a call: the fallback answers, as on_store_failure \
                 configures (degraded)"
            );
        }
        Ok(answer)
    }

    /// Decides within the quota of this server. Returns `None` for a call about a lease that was
    /// not granted here.
    fn decide<D>(&self, rule: &FallbackRule<D>, decision: &D) -> Option<Answered<D::Outcome>>
    where
        D: Decision<State: Sharded>,
    {
        let outcome = self.embedded.run(&(rule.shared)(decision, self.replicas)).ok()?;
        if (rule.is_unknown)(&outcome) {
            return None;
        }
        if !self.is_used.swap(true, Ordering::Relaxed) {
            self.used.notify_one();
        }
        Some(Answered { outcome, source: AnsweredBy::Share })
    }

    /// Records that the store has decided a call.
    fn record_store(&self) {
        if self.stands.load(Ordering::Relaxed)
            && self.clock.now().0 >= self.last.load(Ordering::Relaxed) + CALM_MICROS
            && self.stands.swap(false, Ordering::Relaxed)
        {
            tracing::info!("Redis answers calls again");
        }
    }

    /// Drops expired entries, from the first grant on.
    pub(crate) async fn maintain(&self) {
        self.used.notified().await;
        self.embedded.maintain().await;
    }
}
