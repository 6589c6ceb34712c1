//! Outcomes with their source. Handlers set `cached` and `degraded` in the response by it.

use tollgate_core::error::Error;

/// An outcome with its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered<T> {
    /// The outcome.
    pub outcome: T,
    /// Where the outcome was decided.
    pub source: AnsweredBy,
}

/// The source of an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnsweredBy {
    /// The store executed the decision.
    Store,
    /// The denial cache of this server repeated a refusal.
    DenialCache,
    /// The store was unreachable. The configuration says that such calls are refused.
    Refusal,
    /// The store was unreachable. The fallback decided on this server's share.
    Share,
}

impl<T> Answered<T> {
    /// Wraps an outcome of the store.
    pub fn by_store(outcome: T) -> Answered<T> {
        Answered { outcome, source: AnsweredBy::Store }
    }

    /// Whether the denial cache gave the answer.
    pub fn is_cached(&self) -> bool {
        self.source == AnsweredBy::DenialCache
    }

    /// Whether the answer was given without the store, because the store was unreachable.
    pub fn is_degraded(&self) -> bool {
        matches!(self.source, AnsweredBy::Refusal | AnsweredBy::Share)
    }
}

/// The results of a batch, one for each decision in order; or an error of the whole batch.
pub type Batch<T> = Result<Vec<Result<T, Error>>, Error>;
