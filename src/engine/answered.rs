//! Answers, and what they come from.

use std::time::Instant;

use super::{
    Engine,
    denials::{Recall, Shelved, Ticket},
};
use crate::error::Error;

/// An outcome, and what it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered<T> {
    /// The outcome.
    pub outcome: T,
    /// What it comes from.
    pub source: Source,
}

/// What an outcome comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The decision was taken where its partition is.
    Store,
    /// It is a refusal that this server remembers.
    Memory,
    /// The store could not be asked; it is refused, as the configuration says.
    Refusal,
    /// The store could not be asked; the decision was taken about this server's share.
    Share,
}

impl<T> Answered<T> {
    /// An outcome of a decision that was taken.
    pub fn by_store(outcome: T) -> Answered<T> {
        Answered { outcome, source: Source::Store }
    }

    /// Whether it is a refusal that this server remembers.
    pub fn is_cached(&self) -> bool {
        self.source == Source::Memory
    }

    /// Whether the store had no part in it, since it could not be asked.
    pub fn is_degraded(&self) -> bool {
        matches!(self.source, Source::Refusal | Source::Share)
    }
}

impl Engine {
    /// Takes a decision, unless this server remembers that it is refused; where the store
    /// cannot be asked, the answer is what the configuration says.
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

    /// Remembers what may be remembered of an outcome.
    fn learned<D: Shelved>(
        &self,
        decision: &D,
        result: Result<D::Outcome, Error>,
        ticket: Option<Ticket>,
        deadline: Instant,
    ) -> Result<Answered<D::Outcome>, Error> {
        if let (Engine::Redis(engine), Ok(outcome), Some(ticket)) = (self, &result, ticket) {
            engine.denials.learn(decision, outcome, ticket);
        }
        self.or_degraded(decision, result, deadline)
    }

    /// Takes decisions of one kind as [`Engine::run_all`] does, but for those of which
    /// this server remembers that they are refused.
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
            let none = || Err(Error::Corrupt("a batch without replies".to_owned()));
            self.learned(decision, outcomes.next().unwrap_or_else(none), ticket, deadline)
        });
        Ok(answers.collect())
    }

    fn recall<D: Shelved>(&self, decision: &D) -> Recall<D::Outcome> {
        match self {
            // It decides as fast as anything could be remembered.
            Engine::Embedded(_) => Recall::Ask(None),
            Engine::Redis(engine) => engine.denials.recall(decision, engine.epoch()),
        }
    }
}
