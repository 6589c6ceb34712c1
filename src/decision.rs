//! The seam between the rules and the engines that run them.
//!
//! A rule is written twice on purpose: `decide` is the executable
//! specification and the embedded engine's fast path; the Lua script is the
//! same rule where the data lives in Redis. The differential test runs both on
//! the same random histories and compares every outcome.

mod call;
mod cost;
mod reply;
mod unconfirmed;

use std::{any::Any, fmt};

pub use call::{Arguments, Call, Leads, Sighting};
pub use cost::Cost;
pub(crate) use reply::unknown_status;
pub use reply::{Item, Reply};
pub use unconfirmed::{Judge, Unconfirmed, Withdrawal};

use crate::{
    confirmation::Confirmation,
    denial::Effect,
    error::Error,
    script::Script,
    time::{Millis, Timestamp},
    waiting::Hints,
};

/// One atomic decision, taken in a single step by the engine that holds its
/// partition.
pub trait Decision: fmt::Debug + Send + Sync + 'static {
    /// What the embedded engine keeps of the capability in one partition.
    type State: State;
    /// The answer, refusals included.
    type Outcome: fmt::Debug + PartialEq + Send + 'static;

    /// The Lua twin of `decide`.
    const SCRIPT: &'static Script;
    /// The unit of atomicity: one Redis hash slot, one entry of the embedded
    /// engine.
    fn partition(&self) -> &[u8];
    /// What its keys' hash tag names: the partition, or what several partitions have in
    /// common. Those share a hash slot, and a mutex of the embedded engine.
    fn tag(&self) -> &[u8] {
        self.partition()
    }
    /// What the decision may do to the partition's place in listings.
    fn listing(&self) -> Listing;
    /// Whether to take it twice is as good as once, so that it may be sent again
    /// when its reply was lost.
    fn is_repeatable(&self) -> bool {
        true
    }
    /// Whether the outcome of a second try says what became of both, when the first
    /// one may have been taken.
    fn settles(&self, _: &Self::Outcome) -> bool {
        true
    }
    /// Which replicas have to have what it wrote before its outcome counts.
    fn confirmation(&self) -> Confirmation {
        Confirmation::NONE
    }
    /// What tells what becomes of its outcome when they do not; none where that always
    /// counts. Asked of those that are to be confirmed; keys start with `prefix`.
    fn judge(&self, _prefix: &str) -> Option<Judge> {
        None
    }
    /// Whether a server owes it to calls that it has taken already: it counts as none
    /// of those in flight, and goes to the store by itself.
    fn is_upkeep(&self) -> bool {
        false
    }
    /// Whether it frees capacity, or keeps what is held: it goes before the decisions that
    /// wait, and is not refused because of them.
    fn frees_capacity(&self) -> bool {
        false
    }
    /// How long a lease lasts that the outcome grants, where that is shorter than
    /// [`Decision::listing`] says: the run-time settings say so.
    fn ends_sooner(&self, _: &Self::Outcome) -> Option<Millis> {
        None
    }
    /// How long it holds Redis, at most.
    fn cost(&self) -> Cost {
        Cost::PLAIN
    }
    /// Whether it is about something that a state which is there does not know, and may
    /// have it kept: where memory is short it is refused.
    fn is_new(&self, _: &Self::State, _: Timestamp) -> bool {
        false
    }
    /// What it means for refusals that are remembered of its partition; without an
    /// outcome nobody knows whether it was taken.
    fn effect(&self, _: Option<&Self::Outcome>) -> Effect {
        Effect::default()
    }
    /// Appends KEYS and ARGV in the order of the script's header.
    fn encode(&self, call: &mut Call);
    /// Reads one item's reply, in the shapes of the script's header.
    fn parse(reply: &mut Reply) -> Result<Self::Outcome, Error>;
    /// The rule: no clock, no input or output.
    fn decide(&self, state: &mut Self::State, now: Timestamp) -> Self::Outcome;
    /// Decides the same where tokens and dated serials up to `floor` may have been given out
    /// and forgotten: those that it gives out are greater. For a store that lost its last
    /// changes in a kill, until the time has passed the floor.
    fn decide_above(
        &self,
        state: &mut Self::State,
        now: Timestamp,
        _floor: Timestamp,
    ) -> Self::Outcome {
        self.decide(state, now)
    }
}

/// A decision that can stand for several that wait for their turn together.
pub trait Joined: Decision + Clone {
    /// Takes in the one that comes next, if the joined decision gives both what
    /// they would get one after the other.
    fn join(&mut self, next: &Self) -> bool;
    /// What each of those that were joined gets, in order; none when it was
    /// refused, and each has to be decided by itself.
    fn share(outcome: &Self::Outcome, joined: &[Self]) -> Option<Vec<Self::Outcome>>;
}

/// A decision that reads a page of a listing. Engines read a page in steps, so that none
/// holds a partition or Redis for long.
pub trait Paged: Decision + Clone {
    /// Entries of one step at most.
    const STEP: u32;

    /// How many entries are asked for.
    fn limit(&self) -> u32;
    /// Asks for at most so many.
    fn limited(&self, limit: u32) -> Self;
    /// Asks for what follows on a page; none behind the last one.
    fn behind(&self, page: &Self::Outcome) -> Option<Self>;
    /// Appends the next page.
    fn append(page: &mut Self::Outcome, next: Self::Outcome);
}

/// What a decision did that takes out what has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swept {
    /// Whether more had ended than one step takes out.
    pub has_more: bool,
    /// When something of the partition ends next.
    pub next: Option<Timestamp>,
    /// Whether nothing is left of the partition that a listing shows or that can end.
    pub is_vacant: bool,
}

/// What a decision may do to its partition's place in listings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// Nothing.
    Same,
    /// It may put something there that lapses by itself.
    Held(Ends),
    /// It puts something there for good.
    Kept,
    /// It takes away what was there for good.
    Released,
}

/// When what a decision puts somewhere ends, so that the sweeper looks at it in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// So long after the decision, unless it is extended.
    After(Millis),
    /// At this time of the store.
    At(Timestamp),
    /// Not by itself.
    Never,
}

/// What was taken out of a state, to be dropped when nobody waits for it: now and then it
/// takes the allocator milliseconds to give memory back.
pub type Bin = Vec<Box<dyn Any + Send>>;

/// What a capability keeps of one partition.
pub trait State: Default + Send + 'static {
    /// Names the capability in keys and listings.
    const CAPABILITY: &'static str;

    /// Drops what has lapsed and is remembered no longer, at most `budget`
    /// entries or a step of its own; how many. What there may be much of goes to the bin.
    fn sweep(&mut self, now: Timestamp, budget: usize, bin: &mut Bin) -> usize;
    /// Whether something has ended that a decision has to see to.
    fn has_ended(&self, _: Timestamp) -> bool {
        false
    }
    /// Whether a fresh state would give the same answers.
    fn is_vacant(&self, now: Timestamp) -> bool;
    /// Whom the last decision told that it is their turn.
    fn take_hints(&mut self) -> Hints {
        Hints::new()
    }
}
