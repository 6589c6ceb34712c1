//! Denials: refusals that a server may give again without asking the store.
//!
//! A refusal holds until the earliest moment that the answer could change, as far as the
//! refusal itself tells, and for a bounded time where others change the store meanwhile.
//! Only refusals are ever remembered: the worst that a remembered one does is to delay
//! what the store would grant, by that bound.

use crate::{
    decision::Decision,
    time::{Millis, Timestamp},
};

/// How long a refusal is remembered at most, unless the configuration says otherwise.
pub const DENIAL_CACHE: Millis = Millis(50);
/// The longest that the configuration can have a refusal remembered.
pub const DENIAL_CACHE_MAX: Millis = Millis::from_secs(10);

/// A decision whose refusals may be remembered.
pub trait Deniable: Decision {
    /// What is remembered of a refusal.
    type Denial: Send + 'static;

    /// Tells apart what is remembered of one partition; none for a call that only the
    /// store can answer.
    fn kind(&self) -> Option<u64>;
    /// Who asks, if somebody who holds something already has to get it again.
    fn member(&self) -> Option<Vec<u8>> {
        None
    }
    /// What is to be remembered of an outcome, and for how many microseconds from when
    /// the call was sent; none of an outcome that grants, or that changed the store.
    fn denial(&self, outcome: &Self::Outcome) -> Option<(Self::Denial, u64)>;
    /// The same refusal so many microseconds after the call it was the answer to, if it
    /// is one of this call, too. `now` only spreads.
    fn deny(&self, denial: &Self::Denial, passed: u64, now: Timestamp) -> Option<Self::Outcome>;
}

/// What a decision means for the refusals that are remembered of its partition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effect {
    /// Whether they may no longer be true.
    pub frees: bool,
    /// Who holds something from now on, and for how long at most: refusals that are
    /// remembered are not for it.
    pub holds: Option<(Vec<u8>, Millis)>,
    /// How much longer than they say holders hold something, as the store has it.
    pub keeps: Option<Millis>,
}

impl Effect {
    /// That refusals may no longer be true, or nothing.
    pub fn frees(frees: bool) -> Effect {
        Effect { frees, ..Effect::default() }
    }
}
