//! Answers with their source, and the entry points that use the denial cache.
//!
//! [`Engine::answer`] serves AdmitTask and CheckRate, whose refusals can be cached and which can
//! have a fallback. Handlers read the source to set `cached` and `degraded` in the response.

use std::time::Instant;

use super::{
    Engine,
    denial_cache::{Recall, Shelved, Ticket},
};
use crate::decision::error::Error;

/// An outcome with its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered<T> {
    /// The outcome.
    pub outcome: T,
    /// Where the outcome was decided.
    pub source: Source,
}

/// The source of an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The store executed the decision.
    Store,
    /// The denial cache of this server repeated a refusal.
    Memory,
    /// The store was unreachable. The configuration says that such calls are refused.
    Refusal,
    /// The store was unreachable. The fallback decided on this server's share.
    Share,
}

impl<T> Answered<T> {
    /// Wraps an outcome of the store.
    pub fn by_store(outcome: T) -> Answered<T> {
        Answered { outcome, source: Source::Store }
    }

    /// Whether the denial cache gave the answer.
    pub fn is_cached(&self) -> bool {
        self.source == Source::Memory
    }

    /// Whether the answer was given without the store, because the store was unreachable.
    pub fn is_degraded(&self) -> bool {
        matches!(self.source, Source::Refusal | Source::Share)
    }
}

impl Engine {
    /// Answers a decision from the denial cache, or by the store. If the store is unreachable, the
    /// fallback answers as the configuration says.
    pub async fn answer<D: Shelved>(
        &self,
        decision: &D,
        deadline: Instant,
    ) -> Result<Answered<D::Outcome>, Error> {
        let ticket = match self.recall(decision) {
            Recall::Denied(outcome) => return Ok(Answered { outcome, source: Source::Memory }),
            Recall::Ask(ticket) => ticket,
        };
        let result = self.run(decision, deadline).await;
        self.learned(decision, result, ticket, deadline)
    }

    /// Adds a refusal to the denial cache if it may be repeated. An error goes to the fallback.
    fn learned<D: Shelved>(
        &self,
        decision: &D,
        result: Result<D::Outcome, Error>,
        ticket: Option<Ticket>,
        deadline: Instant,
    ) -> Result<Answered<D::Outcome>, Error> {
        if let (Engine::Redis(engine), Ok(outcome), Some(ticket)) = (self, &result, ticket) {
            engine.denial_cache.learn(decision, outcome, ticket);
        }
        self.or_degraded(decision, result, deadline)
    }

    /// Answers a batch: cached refusals from the denial cache, all other decisions by one
    /// [`Engine::run_all`]. Results are in the order of `decisions`. If the whole batch was
    /// certainly not executed, the fallback decides for each.
    pub async fn answer_all<D: Shelved + Clone>(
        &self,
        decisions: &[D],
        deadline: Instant,
    ) -> Result<Vec<Result<Answered<D::Outcome>, Error>>, Error> {
        let recalled: Vec<_> = decisions.iter().map(|decision| self.recall(decision)).collect();
        let is_open = |recall: &Recall<_>| matches!(recall, Recall::Ask(_));
        let open = recalled.iter().zip(decisions).filter(|(recall, _)| is_open(recall));
        let open: Vec<D> = open.map(|(_, decision)| decision.clone()).collect();
        let outcomes = match open.is_empty() {
            true => Vec::new(),
            false => match self.run_all(&open, deadline).await {
                Err(error @ (Error::Unavailable(_) | Error::Refused(_))) => {
                    open.iter().map(|_| Err(error.clone())).collect()
                }
                outcomes => outcomes?,
            },
        };
        let mut outcomes = outcomes.into_iter();
        let answers = recalled.into_iter().zip(decisions).map(|(recall, decision)| {
            let ticket = match recall {
                Recall::Denied(outcome) => return Ok(Answered { outcome, source: Source::Memory }),
                Recall::Ask(ticket) => ticket,
            };
            let none =
                || Err(Error::Corrupt("a batch has fewer outcomes than decisions".to_owned()));
            self.learned(decision, outcomes.next().unwrap_or_else(none), ticket, deadline)
        });
        Ok(answers.collect())
    }

    fn recall<D: Shelved>(&self, decision: &D) -> Recall<D::Outcome> {
        match self {
            // A decision here is as fast as a look into a cache.
            Engine::Embedded(_) => Recall::Ask(None),
            Engine::Redis(engine) => engine.denial_cache.recall(decision, engine.epoch()),
        }
    }
}
