//! The rules of Tollgate, and the seam between them and the engines that run them.
//!
//! Each rule exists twice on purpose. [`Decision::decide`] is the executable specification and the
//! fast path of the embedded engine. The Lua script is the same rule where the data lives in Redis.
//! The differential tests run both on the same random histories and compare every outcome.
//!
//! # Capabilities
//! [`admission`], [`rate`], [`lock`], [`sequence`] and [`stock`] have a file per verb. [`envoy`] turns
//! the rules of Envoy's rate limit service into limits of a rate.
//!
//! # Vocabulary
//! Rules and engines share these modules; none of them names a rule or an engine.
//! - [`names`] builds every key, [`time`] reads the clock of decisions, [`script`] lists every script,
//!   [`error`] says why a call could not be decided.
//! - [`lease`] and [`waiting`]: what several capabilities have in common. [`collections`]: maps,
//!   indexes and event histories whose operations stay short.
//! - [`Properties`]: what an engine knows about a verb in addition to its rule.
//! - [`denial`]: which refusals a server may cache. [`fallback`]: answers while the store is
//!   unreachable. [`acknowledgement`]: how many replicas must have a write.
//! - [`record`]: entries of a data directory and lines of an export file.
//! - [`globs`]: the patterns of the configuration.

pub mod acknowledgement;
pub mod admission;
mod allowance;
mod as_of;
pub mod collections;
mod cost;
pub mod denial;
pub mod envoy;
pub mod error;
pub mod fallback;
mod footprint;
pub mod globs;
pub mod lease;
pub mod lock;
pub mod names;
mod properties;
pub mod rate;
pub mod record;
pub mod sequence;
pub mod stock;
pub mod time;
mod undo;
pub mod waiting;
mod wire;

use std::{any::Any, fmt};

pub use allowance::Allowance;
pub use as_of::AsOf;
pub use cost::Cost;
pub use footprint::{ENTRY_BYTES, Footprint, Grows, PARTITION_BYTES, Takes, Taking};
pub use properties::{
    Ends, Issues, Listing, Outcomes, PlainForm, Priority, Properties, Steps, Warms,
};
pub use undo::{Revocable, Revocation, Undo, UndoRule};
pub use wire::{
    Arguments, Call, Item, Leads, OK, Reply, Sighting, push_key, script, unknown_status,
};

use error::Error;
use script::Script;
use time::Timestamp;
use waiting::WakeUps;

/// One atomic decision about one partition: the request of one RPC verb.
///
/// The engine that holds the partition executes it in a single step. The methods are the rule, its
/// partitions and its wire form. [`Decision::PROPERTIES`] says everything else that an engine needs to
/// know: how it queues, sends, repeats and counts the decision, and which stages its calls pass.
pub trait Decision: Clone + fmt::Debug + Send + Sync + 'static {
    /// State of one partition in the embedded engine.
    type State: State;
    /// The answer, refusals included. [`Error`] is only for calls that could not be decided.
    type Outcome: fmt::Debug + PartialEq + Send + 'static;

    /// The Lua twin of `decide`.
    const SCRIPT: &'static Script;
    /// The properties of the verb.
    const PROPERTIES: Properties<Self> = Properties::DEFAULT;

    /// Name of the unit of atomicity: one hash slot in Redis, one entry of the embedded engine.
    fn partition(&self) -> &[u8];
    /// Returns the partitions of a decision about several, whose state is a list: each once, in the
    /// order of the states. All have the tag of [`Decision::partition`].
    fn partitions(&self) -> Vec<&[u8]> {
        vec![self.partition()]
    }
    /// Appends KEYS and ARGV in the order of the script's header. All keys have the hash tag
    /// [`State::tag`] of the partition.
    fn encode(&self, call: &mut Call);
    /// Reads the reply to one item, in the shapes of the script's header. Fails with
    /// [`Error::Corrupt`] on any other shape.
    fn parse(reply: &mut Reply) -> Result<Self::Outcome, Error>;
    /// Decides. Pure: reads no clock and does no I/O. `now` is the only time.
    fn decide(&self, state: &mut Self::State, now: Timestamp) -> Self::Outcome;
}

/// A decision that the coalescer can merge with waiting decisions on the same partition.
pub trait Joined: Decision {
    /// A decision that others may require to run first, such as a reservation of values.
    type Preparation: Decision;

    /// Merges `next` into this decision. Returns false, and changes nothing, unless both get
    /// exactly what they would get if they were decided one after another.
    fn join(&mut self, next: &Self) -> bool;
    /// Splits the outcome of a merged decision into one outcome for each part, in order. `None` if
    /// the merged decision was refused: each part is then decided separately.
    fn split(outcome: &Self::Outcome, joined: &[Self]) -> Option<Vec<Self::Outcome>>;
    /// Whether the decision was refused because it lacks its preparation.
    fn is_unprepared(outcome: &Self::Outcome) -> bool;
    /// Returns the preparation for all of these unprepared decisions of one partition; `None` for
    /// none.
    fn preparation(unprepared: &[(Self, Self::Outcome)]) -> Option<Self::Preparation>;
    /// Returns the same decision after its preparation.
    fn prepared(&self, preparation: &<Self::Preparation as Decision>::Outcome) -> Self;
}

/// The states of several partitions with the same tag, which one step decides on.
impl<S: State> State for Vec<S> {
    const CAPABILITY: &'static str = S::CAPABILITY;
    const IS_LISTED: bool = S::IS_LISTED;
    const IS_NAMED: bool = S::IS_NAMED;
    const NAME_KEY: Option<&'static str> = S::NAME_KEY;

    fn tag(partition: &[u8]) -> &[u8] {
        S::tag(partition)
    }

    fn sweep(&mut self, now: Timestamp, budget: usize, bin: &mut Bin) -> usize {
        self.iter_mut().map(|state| state.sweep(now, budget, bin)).sum()
    }

    fn is_vacant(&self, now: Timestamp) -> bool {
        self.iter().all(|state| state.is_vacant(now))
    }
}

/// Outcome of a sweep: a decision that removes expired leases and tasks of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swept {
    /// Whether more entries have expired than one step removes.
    pub has_more: bool,
    /// The next time at which something of the partition expires.
    pub next: Option<Timestamp>,
    /// Whether the partition contains nothing that a listing shows or that can expire.
    pub is_vacant: bool,
}

/// Values removed from a state, to be dropped later outside the shard's mutex. Freeing a large
/// value can take the allocator milliseconds.
pub type Bin = Vec<Box<dyn Any + Send>>;

/// State of one partition in the embedded engine.
pub trait State: Default + Send + 'static {
    /// The name of the capability, as it appears in keys and listings.
    const CAPABILITY: &'static str;
    /// Whether a listing shows the names of its partitions.
    const IS_LISTED: bool = false;
    /// Whether a partition counts as a name of its namespace. False for histories and indexes,
    /// which belong to named partitions.
    const IS_NAMED: bool = true;
    /// The part of the first key of decisions that create a partition. Each named partition has one
    /// such key in Redis. `None` for listed states, whose names are in the partition index, and for
    /// unnamed ones.
    const NAME_KEY: Option<&'static str> = None;

    /// Text of the hash tag of a partition's keys: by default the partition. Partitions with the same
    /// tag share a hash slot in Redis and a mutex in the embedded engine.
    fn tag(partition: &[u8]) -> &[u8] {
        partition
    }
    /// Drops expired records that no answer needs. Drops at most `budget` entries, or one step of
    /// the state's own. Returns the number of dropped entries. Large values go to `bin`.
    fn sweep(&mut self, now: Timestamp, budget: usize, bin: &mut Bin) -> usize;
    /// Whether a lease or task has expired whose expiry a decision must still process.
    fn has_ended(&self, _: Timestamp) -> bool {
        false
    }
    /// Returns what the partition counts towards the limits of its namespace. Takes constant time.
    fn footprint(&self) -> Footprint {
        Footprint::default()
    }
    /// Whether a fresh state would give the same answers. The engine then drops this one.
    fn is_vacant(&self, now: Timestamp) -> bool;
    /// Takes the number of leases whose expiry the last decision has processed.
    fn take_expired(&mut self) -> u64 {
        0
    }
    /// Takes the wake-ups that the last decision produced.
    fn take_wake_ups(&mut self) -> WakeUps {
        WakeUps::new()
    }
}
