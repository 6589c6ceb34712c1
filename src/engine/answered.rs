//! Answers, and what they come from.

use std::time::Instant;

use super::{
    Engine,
    denials::{Recall, Shelved},
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
}

impl Engine {
    /// Takes a decision, unless this server remembers that it is refused.
    pub async fn answer<D: Shelved>(
        &self,
        decision: &D,
        deadline: Instant,
    ) -> Result<Answered<D::Outcome>, Error> {
        let ticket = match self.recall(decision) {
            Recall::Denied(outcome) => return Ok(Answered { outcome, source: Source::Memory }),
            Recall::Ask(ticket) => ticket,
        };
        let outcome = self.run(decision, deadline).await?;
        if let (Engine::Redis(engine), Some(ticket)) = (self, ticket) {
            engine.denials.learn(decision, &outcome, ticket);
        }
        Ok(Answered::by_store(outcome))
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
        let mut outcomes = match open.is_empty() {
            true => Vec::new().into_iter(),
            false => self.run_all(&open, deadline).await?.into_iter(),
        };
        let answers = recalled.into_iter().zip(decisions).map(|(recall, decision)| {
            let ticket = match recall {
                Recall::Denied(outcome) => return Ok(Answered { outcome, source: Source::Memory }),
                Recall::Ask(ticket) => ticket,
            };
            let none = || Err(Error::Corrupt("a batch without replies".to_owned()));
            let outcome = outcomes.next().unwrap_or_else(none)?;
            if let (Engine::Redis(engine), Some(ticket)) = (self, ticket) {
                engine.denials.learn(decision, &outcome, ticket);
            }
            Ok(Answered::by_store(outcome))
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
