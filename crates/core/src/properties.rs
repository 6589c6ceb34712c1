//! The properties of a verb: one table, which a reader sees next to its rule and which the engines
//! use.
//!
//! A property is a function if it depends on the fields of some decision: the cost on the number of
//! bytes, `is_repeatable` on the request id, the listing on the length of the lease. The table is a
//! constant, so the compiler calls the functions directly, and one that ignores its argument costs
//! nothing. A property that needs several functions is a trait, such as [`Revocable`]; a method of
//! [`Properties`] adds it to the table, because code that is generic over all decisions cannot test
//! whether a type has a trait.
//!
//! Stages that only some verbs pass are an `Option` in the table. The engine tests such an option in a
//! `const` block, so an optimized build contains no code of the stage for other verbs.

use std::fmt;

use super::{
    Call, Cost, Decision, Grows, Joined, Revocable, Takes, Taking, UndoRule,
    acknowledgement::Acknowledgement,
    denial::{AffectsDenials, CacheRule, Effect, RefusalCaching},
    fallback::FallbackRule,
    rate::BanEntry,
    script::Script,
    time::{Millis, Timestamp},
};

/// The properties of a verb. Most verbs use most of the defaults.
#[derive(Debug)]
#[allow(clippy::type_complexity, reason = "each is the signature of the method that it stands for")]
pub struct Properties<D: Decision> {
    /// The priority of the decision.
    pub priority: Priority,
    /// Whether executing the decision twice has the same effect as executing it once. Only then
    /// does the engine send it again after a lost reply. Otherwise the fate of the call is unknown.
    pub is_repeatable: fn(&D) -> bool,
    /// Whether the outcome of a repeated decision also settles the fate of the first attempt, whose
    /// reply was lost. If not, the call fails with
    /// [`DeadlineExceeded`](crate::error::Error::DeadlineExceeded).
    pub settles: fn(&D, &D::Outcome) -> bool,
    /// Upper bound on the Redis time of the decision.
    pub cost: fn(&D) -> Cost,
    /// Change that the decision may make to the partition's entry in the partition index.
    pub listing: fn(&D) -> Listing,
    /// Length of the granted lease, if it is shorter than `listing` announced. A run-time setting of
    /// the pool can cause that. The engine then corrects the partition index.
    pub ends_sooner: fn(&D, &D::Outcome) -> Option<Millis>,
    /// Whether the decision can create its partition. Such decisions count for `names_max`.
    pub creates: fn(&D) -> bool,
    /// Upper bound on the bytes that the decision adds to its partition, for `bytes_max`: texts, and
    /// [`ENTRY_BYTES`](super::ENTRY_BYTES) for each entry. 0 for a decision that cannot add more than a
    /// fixed number of bytes to a partition.
    pub adds: fn(&D) -> u64,
    /// The names of its outcomes in metrics and log lines.
    pub outcomes: Outcomes<D>,
    /// The replicas that must acknowledge the write: [`Revocable::acknowledgement`].
    pub acknowledgement: fn(&D) -> Acknowledgement,
    /// The rule for an outcome that replicas did not acknowledge: [`Revocable::undo_rule`]. Without
    /// one the outcome always counts.
    pub undo_rule: fn(&D, &str) -> Option<UndoRule>,
    /// The effect on cached denials: [`AffectsDenials::effect`].
    pub effect: fn(&D, Option<&D::Outcome>) -> Option<Effect>,
    /// Whether the decision would create an entry in this existing state: [`Grows::is_new`].
    pub is_new: fn(&D, &D::State, Timestamp) -> bool,
    /// Whether the decision would add bytes to this existing state: [`Grows::adds`].
    pub may_add: fn(&D, &D::State, Timestamp) -> bool,
    /// The kind of entry that the decision would add to this state: [`Grows::takes`].
    pub takes: fn(&D, &D::State, Timestamp) -> Option<Takes>,
    /// The kind of entry that the decision can add: [`Grows::TAKES`].
    pub kind: Option<Takes>,
    /// Whether the decision has added an entry: [`Grows::taken`].
    pub taken: fn(&D::Outcome) -> Taking,
    /// Decides with new numbers above a floor, the last argument: [`Issues::decide_above`].
    pub decide_above: fn(&D, &mut D::State, Timestamp, Timestamp) -> D::Outcome,
    /// Loads the entries of decisions that follow one another into the cache of the processor:
    /// [`Warms::warm`].
    pub warm: fn(&[D], &D::State),
    /// Whether the step decided nothing, because it removed as many expired entries as one step may.
    /// The engine then decides again, until the deadline of the call.
    pub is_unfinished: fn(&D::Outcome) -> bool,
    /// The steps of a decision that reads a page of a listing.
    pub steps: Option<Steps<D>>,
    /// The refusals that a server may cache: [`RefusalCaching`].
    pub cache: Option<CacheRule<D>>,
    /// The answer while the store is unreachable.
    pub fallback: Option<FallbackRule<D>>,
    /// The ban of an outcome, which the engine enters into the ban index.
    pub ban: Option<fn(&D, &D::Outcome) -> Option<BanEntry>>,
    /// Whether calls on one partition are merged while another one is being decided: [`Joined`].
    pub is_merged: bool,
    /// The plain form of the verb on Redis.
    pub plain: Option<PlainForm<D>>,
}

impl<D: Decision> Properties<D> {
    /// A repeatable call of plain cost that changes no listing.
    pub const DEFAULT: Properties<D> = Properties {
        priority: Priority::Call,
        is_repeatable: |_| true,
        settles: |_, _| true,
        cost: |_| Cost::PLAIN,
        listing: |_| Listing::Same,
        ends_sooner: |_, _| None,
        creates: |_| false,
        adds: |_| 0,
        outcomes: Outcomes::NONE,
        acknowledgement: |_| Acknowledgement::NONE,
        undo_rule: |_, _| None,
        effect: |_, _| None,
        is_new: |_, _, _| false,
        may_add: |_, _, _| true,
        takes: |_, _, _| None,
        kind: None,
        taken: |_| Taking::Nothing,
        decide_above: |decision, state, now, _| decision.decide(state, now),
        warm: |_, _| (),
        is_unfinished: |_| false,
        steps: None,
        cache: None,
        fallback: None,
        ban: None,
        is_merged: false,
        plain: None,
    };

    /// A call that frees capacity or extends a lease.
    pub const FREES_CAPACITY: Properties<D> =
        Properties { priority: Priority::FreesCapacity, ..Properties::DEFAULT };

    /// Background work.
    pub const BACKGROUND: Properties<D> =
        Properties { priority: Priority::Background, ..Properties::DEFAULT };

    /// Adds [`Revocable`].
    pub const fn revocable(mut self) -> Properties<D>
    where
        D: Revocable,
    {
        self.acknowledgement = D::acknowledgement;
        self.undo_rule = |decision, prefix| Some(decision.undo_rule(prefix));
        self
    }

    /// Adds [`RefusalCaching`].
    pub const fn caches_refusals(mut self) -> Properties<D>
    where
        D: RefusalCaching,
    {
        self.cache = Some(CacheRule::for_verb());
        self
    }

    /// Adds [`AffectsDenials`].
    pub const fn affects_denials(mut self) -> Properties<D>
    where
        D: AffectsDenials,
    {
        self.effect = |decision, outcome| Some(decision.effect(outcome));
        self
    }

    /// Adds [`Grows`].
    pub const fn grows(mut self) -> Properties<D>
    where
        D: Grows,
    {
        self.is_new = D::is_new;
        self.may_add = D::adds;
        self.takes = D::takes;
        self.kind = D::TAKES;
        self.taken = D::taken;
        self
    }

    /// Adds [`Issues`].
    pub const fn issues(mut self) -> Properties<D>
    where
        D: Issues,
    {
        self.decide_above = D::decide_above;
        self
    }

    /// Adds [`Joined`].
    pub const fn joined(mut self) -> Properties<D>
    where
        D: Joined,
    {
        self.is_merged = true;
        self
    }

    /// Adds [`Warms`].
    pub const fn warms(mut self) -> Properties<D>
    where
        D: Warms,
    {
        self.warm = D::warm;
        self
    }
}

/// The common case of a verb, in a Redis script that holds nothing else.
///
/// Redis creates all functions of a script in each call, so a script with every case of a rule costs
/// its rarest ones each time. The plain script declines a decision that is not plain because of what is
/// stored, and the engine sends that decision again in the verb's own script
/// ([`Decision::SCRIPT`]). Until then nothing is written.
#[derive(Debug)]
pub struct PlainForm<D: Decision> {
    /// The plain script for a decision; `None` if the decision has no plain form.
    pub script: fn(&D) -> Option<&'static Script>,
    /// Appends KEYS and ARGV of the plain script, as [`Decision::encode`] does for the verb's own.
    /// [`Decision::parse`] reads the replies of both.
    pub encode: fn(&D, &mut Call),
    /// Upper bound on the Redis time of a decision in the plain script.
    pub cost: fn(&D) -> Cost,
}

/// How a page of a listing is read: in atomic steps of a bounded number of entries, so that no step
/// holds a partition or Redis for long.
#[derive(Debug)]
pub struct Steps<D: Decision> {
    /// Maximum number of entries in one step.
    pub max: u32,
    /// The number of requested entries.
    pub limit: fn(&D) -> u32,
    /// The same listing with another limit.
    pub limited: fn(&D, u32) -> D,
    /// The listing of the entries after a page; `None` if it is the last page.
    pub after: fn(&D, &D::Outcome) -> Option<D>,
    /// Appends the entries of the next step to the page.
    pub append: fn(&mut D::Outcome, D::Outcome),
}

/// Which decisions have priority, and which may be rejected under load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// An ordinary call: counts towards the in-flight limit, and is shed under load.
    Call,
    /// Frees capacity or extends a lease. Goes before waiting decisions, is exempt from the
    /// in-flight limit, and is never shed.
    FreesCapacity,
    /// Background work for calls that the server has already accepted, such as heartbeats. Exempt
    /// from the in-flight limit and from load shedding, and sent in a separate script call.
    Background,
}

/// Change of a partition's entry in the partition index, which listings and the sweeper read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// No change.
    Same,
    /// The partition may hold something that expires at the given time.
    Held(Ends),
    /// The partition holds run-time settings, which do not expire.
    Kept,
    /// The partition no longer holds run-time settings.
    Released,
}

/// Expiry of the things that a decision creates. The sweeper visits the partition at that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// This long after the decision, unless it is extended.
    After(Millis),
    /// At this time of the store.
    At(Timestamp),
    /// It does not expire.
    Never,
}

/// A decision that issues numbers that rise with the clock: fencing tokens, and serials with a date.
pub trait Issues: Decision {
    /// Decides like [`Decision::decide`] after a kill that lost the last changes of the store.
    /// Numbers up to `floor` may already be in use, so new ones are above it. Called until `now` has
    /// passed the floor.
    fn decide_above(
        &self,
        state: &mut Self::State,
        now: Timestamp,
        floor: Timestamp,
    ) -> Self::Outcome;
}

/// A decision whose entry is usually not in the cache of the processor.
pub trait Warms: Decision {
    /// Loads the entries of several decisions together, because a processor can wait for many loads
    /// at the same time. Changes nothing.
    fn warm(decisions: &[Self], state: &Self::State);
}

/// The labels of a decision's outcomes.
pub struct Outcomes<D: Decision> {
    /// The labels: the words of the proto in lower case.
    pub labels: &'static [&'static str],
    /// The position of an outcome in `labels`.
    pub index: fn(&D::Outcome) -> usize,
}

impl<D: Decision> Outcomes<D> {
    /// For decisions of the engine itself. They are not counted, because no caller asks for them.
    pub const NONE: Outcomes<D> = Outcomes { labels: &[], index: |_| 0 };
    /// For decisions without a refusal.
    pub const OK: Outcomes<D> = Outcomes { labels: &["ok"], index: |_| 0 };

    /// Names the outcomes.
    pub const fn new(labels: &'static [&'static str], index: fn(&D::Outcome) -> usize) -> Self {
        Outcomes { labels, index }
    }

    /// Returns the label of an outcome.
    pub fn label(&self, outcome: &D::Outcome) -> &'static str {
        self.labels.get((self.index)(outcome)).copied().unwrap_or_default()
    }
}

impl<D: Decision> fmt::Debug for Outcomes<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcomes").field("labels", &self.labels).finish_non_exhaustive()
    }
}
