//! Refusals that this server remembers, so that a storm on a full pool or a blocked key
//! is answered here and the store serves those that it can grant something.
//!
//! A refusal is remembered with the *generation* of its partition, taken before the call
//! was sent. Whatever this server sees change the partition begins a new generation: what
//! was remembered before, and answers that were on their way meanwhile, are never given
//! again. Nothing is ever granted from here.

mod held;
mod shelf;
mod told;

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU32, Ordering},
};

use super::{embedded::Kept, redis::Redis};
use crate::{
    admission::{AdmitTask, FullPool},
    decision::{Decision, State},
    degradation::Degradable,
    denial::{Deniable, Effect},
    error::Error,
    rate::{CheckRate, RefusedKey},
    time::{Clock, Millis, Timestamp},
};
use held::Held;
use shelf::{Entry, Shelf};
use told::Told;

/// Partitions share so many generations: to begin one for nothing costs a call to the
/// store.
const GENERATIONS: usize = 1 << 14;

/// What this server remembers of refusals.
pub(super) struct Denials {
    clock: Clock,
    hasher: RandomState,
    generations: Box<[AtomicU32]>,
    /// By the same hash, in seconds: how much longer holders hold something.
    keeps: Box<[AtomicU32]>,
    held: Held,
    told: Told,
    pools: Shelf<FullPool>,
    keys: Shelf<RefusedKey>,
}

/// A decision whose refusals have a place here.
pub trait Shelved: Deniable<State: Kept> + Degradable {
    /// That place.
    #[expect(private_interfaces, reason = "only the engine's own decisions have one")]
    fn shelf(denials: &Denials) -> &Shelf<Self::Denial>;
}

impl Shelved for AdmitTask {
    #[expect(private_interfaces, reason = "as above")]
    fn shelf(denials: &Denials) -> &Shelf<FullPool> {
        &denials.pools
    }
}

impl Shelved for CheckRate {
    #[expect(private_interfaces, reason = "as above")]
    fn shelf(denials: &Denials) -> &Shelf<RefusedKey> {
        &denials.keys
    }
}

/// What is known of a call before it is sent.
pub(super) enum Recall<O> {
    /// It is refused.
    Denied(O),
    /// The store has to be asked; a refusal may be remembered by the ticket.
    Ask(Option<Ticket>),
}

/// The moment a call was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticket {
    key: u64,
    generation: u32,
    epoch: u64,
    since: Timestamp,
}

impl fmt::Debug for Denials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Denials").field("clock", &self.clock).finish_non_exhaustive()
    }
}

impl Denials {
    /// Nothing remembered; what is remembered ages by this clock.
    pub(super) fn new(clock: Clock) -> Denials {
        Denials {
            clock,
            hasher: RandomState::new(),
            generations: (0..GENERATIONS).map(|_| AtomicU32::new(0)).collect(),
            keeps: (0..GENERATIONS).map(|_| AtomicU32::new(0)).collect(),
            held: Held::default(),
            told: Told::default(),
            pools: Shelf::default(),
            keys: Shelf::default(),
        }
    }

    /// Whether a decision is known to be refused. `epoch` is the store's.
    pub(super) fn recall<D: Shelved>(&self, decision: &D, epoch: u64) -> Recall<D::Outcome> {
        let Some(kind) = decision.kind() else { return Recall::Ask(None) };
        let partition = decision.partition();
        let home = self.home::<D::State>(partition);
        let key = self.hasher.hash_one((home, kind));
        let now = self.clock.now();
        let generation = self.generation(home).load(Ordering::Acquire);
        let ticket = Ticket { key, generation, epoch, since: now };
        let outcome = D::shelf(self).with(key, |entry| {
            let is_valid = entry.generation == generation
                && entry.epoch == epoch
                && (entry.since..entry.until).contains(&now)
                && *entry.partition == *partition;
            match is_valid {
                true => decision.deny(&entry.denial, now.0 - entry.since.0, now),
                false => None,
            }
        });
        let may_be_told = || {
            decision.member().is_none_or(|member| {
                let place = self.place(home, &member);
                !self.held.holds(place, now) && self.told.may_be_told(place, now)
            })
        };
        match outcome {
            Some(outcome) if may_be_told() => Recall::Denied(outcome),
            _ => Recall::Ask(Some(ticket)),
        }
    }

    /// Remembers an outcome, if it may be: the refusal of a call that was sent then.
    pub(super) fn learn<D: Shelved>(&self, decision: &D, outcome: &D::Outcome, ticket: Ticket) {
        let Some((denial, holds)) = decision.denial(outcome) else { return };
        let Ticket { key, generation, epoch, since } = ticket;
        let until = Timestamp(since.0 + holds);
        let partition = decision.partition().into();
        let entry = Entry { partition, generation, epoch, since, until, denial };
        D::shelf(self).put(key, entry, self.clock.now());
        if let Some(member) = decision.member() {
            let home = self.home::<D::State>(decision.partition());
            self.told.was_asked(self.place(home, &member));
        }
    }

    /// Follows decisions that are about to be sent.
    pub(super) fn watch<'a, D: Decision>(&'a self, decisions: &'a [D]) -> Watch<'a, D> {
        Watch { denials: self, decisions }
    }

    fn affect<D: Decision>(&self, decision: &D, outcome: Option<&D::Outcome>) {
        let effect = decision.effect(outcome);
        if effect == Effect::default() {
            return;
        }
        let home = self.home::<D::State>(decision.partition());
        let keeps = &self.keeps[home as usize % GENERATIONS];
        if let Some(length) = effect.keeps {
            keeps.store(length.0.div_ceil(1000) as u32, Ordering::Release);
        }
        if let Some((member, length)) = effect.holds {
            let until = self.clock.now().after(length);
            let until = until.after(Millis::from_secs(keeps.load(Ordering::Acquire).into()));
            self.held.hold(self.place(home, &member), until);
        }
        if effect.frees {
            self.generation(home).fetch_add(1, Ordering::AcqRel);
        }
    }

    fn home<S: State>(&self, partition: &[u8]) -> u64 {
        self.hasher.hash_one((S::CAPABILITY, partition))
    }

    fn place(&self, home: u64, member: &[u8]) -> u64 {
        self.hasher.hash_one((home, member))
    }

    fn generation(&self, home: u64) -> &AtomicU32 {
        &self.generations[home as usize % GENERATIONS]
    }
}

/// Decisions on their way. When dropped before their outcomes are known, whatever they
/// may have changed counts as changed.
pub(super) struct Watch<'a, D: Decision> {
    denials: &'a Denials,
    decisions: &'a [D],
}

impl<D: Decision> Watch<'_, D> {
    /// Takes in what became of each.
    pub(super) fn settle<'o>(
        mut self,
        outcomes: impl Iterator<Item = Result<&'o D::Outcome, &'o Error>>,
    ) {
        let decisions = std::mem::take(&mut self.decisions);
        for (decision, outcome) in decisions.iter().zip(outcomes) {
            match outcome {
                Ok(outcome) => self.denials.affect(decision, Some(outcome)),
                // Certainly not executed.
                Err(Error::Unavailable(_) | Error::Refused(_) | Error::Overloaded) => {}
                Err(_) => self.denials.affect(decision, None),
            }
        }
    }
}

impl<D: Decision> Drop for Watch<'_, D> {
    fn drop(&mut self) {
        self.decisions.iter().for_each(|decision| self.denials.affect(decision, None));
    }
}

impl Redis {
    /// The same with refusals that age by this clock, for tests that step the time.
    pub fn remembering_by(mut self, clock: Clock) -> Redis {
        self.denials = Box::new(Denials::new(clock));
        self
    }
}

#[cfg(test)]
mod tests;
