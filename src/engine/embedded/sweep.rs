//! Drops what has lapsed though nobody calls, a bounded step at a time.
//!
//! A step holds the mutex of one shard, sees to some parts of its tables, and notes where the
//! next one goes on: however many partitions there are, and however much of one of them has
//! ended at once, none is long; on a slow machine it ends with its time. Shards take turns at
//! steps, and now and then lies a pause between two: calls need the processor, too.

mod budget;

use std::{any::Any, collections::VecDeque, time::Duration};

use parking_lot::MutexGuard;
use tokio::{
    task::yield_now,
    time::{MissedTickBehavior, interval, sleep},
};

use budget::Budget;

use super::{
    Ceiling, Embedded, SHARDS,
    journal::Journal,
    kept::{drain, line_up},
    tables::{Kept, Tables},
};
use crate::{
    admission,
    decision::Bin,
    lock::Lock,
    rate,
    sequence::Counter,
    stock::Sku,
    time::{Timestamp, monotonic},
};

/// A sweep sees to a quarter of the shards; all of them have their turn within a second.
const SWEEP_EVERY: Duration = Duration::from_millis(250);
const QUARTER: usize = SHARDS.div_ceil(4);
/// Entries that a step drops of what partitions remember, at most.
const DROPPED_MAX: usize = 125;
/// A step that has taken so long ends, with the entries and the part of a table that it is at: a
/// decision that waits for the shard waits for about as long.
const STEP_TIME: Duration = Duration::from_micros(250);
/// After so many entries that were dropped lies a pause.
const PAUSE_AFTER: usize = 1000;
const PAUSE: Duration = Duration::from_millis(1);
/// Entries that a quarter drops before it is the next one's turn: 320,000 a second in all,
/// more keys than calls can put there. Of one pool it is a quarter of that; a pool that is
/// asked forgets by itself, two tasks for one that comes.
const QUARTER_MAX: usize = 80_000;
/// Until the journal is looked at again for whether it has room.
const ROOM_PAUSE: Duration = Duration::from_millis(20);
/// A step that has looked at so many partitions is the last before others have their turn.
const LOOKED_MAX: usize = 500;

/// Where a sweep of a shard goes on.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Place {
    /// The kind of partitions.
    kind: usize,
    /// The part of their table.
    part: usize,
}

/// What became of a step.
struct Step {
    /// Where the shard's next one goes on, if there is one.
    next: Option<Place>,
    /// How many partitions were looked at.
    looked: usize,
    /// How many entries were dropped.
    dropped: usize,
}

/// What became of a part of a table.
struct Swept {
    /// How many partitions were looked at.
    looked: usize,
    /// Whether none of them has more to drop.
    is_done: bool,
    /// Whether other parts follow.
    has_next: bool,
}

type Sweep = fn(&mut Tables, usize, Timestamp, bool, &mut Budget, &mut Bin) -> Swept;

const KINDS: [Sweep; 7] = [
    sweep::<admission::Pool>,
    sweep::<rate::Meter>,
    sweep::<rate::Log>,
    sweep::<rate::BanIndex>,
    sweep::<Counter>,
    sweep::<Lock>,
    sweep::<Sku>,
];

impl Embedded {
    pub(in super::super) async fn maintain(&self) {
        tokio::join!(
            self.sweep_for_ever(),
            watch(self.ceiling.as_ref()),
            watch_disk(self.journal())
        );
    }

    async fn sweep_for_ever(&self) {
        let mut tick = interval(SWEEP_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut places = vec![Place::default(); SHARDS];
        let shards: Vec<usize> = (0..SHARDS).collect();
        for quarter in shards.chunks(QUARTER).cycle() {
            tick.tick().await;
            self.sweep_quarter(quarter, &mut places).await;
        }
    }

    /// The turn of a quarter of the shards. Those that have more to drop go on, in their next
    /// one, where they were.
    async fn sweep_quarter(&self, quarter: &[usize], places: &mut [Place]) {
        let mut unfinished: VecDeque<usize> = quarter.iter().copied().collect();
        let (mut dropped, mut paused) = (0, 0);
        while dropped < QUARTER_MAX
            && let Some(shard) = unfinished.pop_front()
        {
            // What is dropped can wait; calls cannot.
            while !self.has_room() {
                sleep(ROOM_PAUSE).await;
            }
            let step = self.sweep_step(shard, places[shard], Some(STEP_TIME));
            dropped += step.dropped;
            places[shard] = step.next.unwrap_or_default();
            if step.next.is_some() {
                unfinished.push_back(shard);
            }
            if dropped - paused >= PAUSE_AFTER {
                paused = dropped;
                sleep(PAUSE).await;
            } else if step.looked > 0 {
                yield_now().await;
            }
        }
    }

    /// Drops what has lapsed in all shards, at once, however long it takes.
    pub fn sweep_all(&self) {
        for shard in 0..SHARDS {
            let mut next = Some(Place::default());
            while let Some(place) = next.filter(|_| self.has_room()) {
                next = self.sweep_step(shard, place, None).next;
            }
        }
    }

    /// A step of the sweep of a shard, of so much time as a rule.
    fn sweep_step(&self, shard: usize, mut place: Place, time: Option<Duration>) -> Step {
        let mut bin = Bin::new();
        let mut tables = self.shards[shard].lock();
        let journal = self.journal();
        let now = self.clock.now();
        let mut looked = 0;
        let mut budget = Budget::new(DROPPED_MAX, time.map(|time| monotonic() + time));
        while let Some(sweep) = KINDS.get(place.kind) {
            // Whatever its time, it sees to one part.
            if looked >= LOOKED_MAX || budget.is_spent() || looked > 0 && budget.is_over() {
                break;
            }
            let is_kept = journal.is_some();
            let swept = sweep(&mut tables, place.part, now, is_kept, &mut budget, &mut bin);
            looked += swept.looked;
            place = match swept {
                Swept { is_done: false, .. } => place,
                Swept { has_next: true, .. } => Place { part: place.part + 1, ..place },
                _ => Place { kind: place.kind + 1, part: 0 },
            };
        }
        if let Some(journal) = journal {
            line_up(&mut tables.notes, journal);
        }
        // To a call that waits for it, not to the next step.
        MutexGuard::unlock_fair(tables);
        drop(bin);
        let next = (place.kind < KINDS.len()).then_some(place);
        Step { next, looked, dropped: budget.dropped() }
    }
}

/// Looks at what the process takes of memory, now and then.
async fn watch(ceiling: Option<&Ceiling>) {
    let Some(ceiling) = ceiling else { return };
    let mut tick = interval(SWEEP_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        ceiling.look();
    }
}

/// Looks whether the disk hangs, now and then.
async fn watch_disk(journal: Option<&Journal>) {
    let Some(journal) = journal else { return };
    let mut tick = interval(SWEEP_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        journal.look();
    }
}

/// Sweeps a part of the partitions of a kind, as far as the budget goes.
fn sweep<S: Kept>(
    tables: &mut Tables,
    part: usize,
    now: Timestamp,
    is_kept: bool,
    budget: &mut Budget,
    bin: &mut Bin,
) -> Swept {
    let (table, notes) = S::table_and_notes(tables);
    let looked = if part < table.parts() { table.part(part).len() } else { 0 };
    if looked > 0 {
        let gone = table.retain(part, |partition, state| {
            if budget.is_spent() {
                return true;
            }
            let before = budget.dropped();
            loop {
                let slice = budget.slice();
                let dropped = state.sweep(now, slice, bin);
                budget.spend(dropped);
                if dropped < slice || budget.is_spent() {
                    break;
                }
            }
            let is_vacant = state.is_vacant(now);
            if is_vacant && budget.dropped() == before {
                // A partition that goes is as good as an entry.
                budget.spend(1);
            }
            if is_kept && is_vacant {
                notes.changes.of::<S>(partition);
                notes.changes.clear(&[]);
            } else if is_kept {
                drain(state, partition, notes);
            }
            !is_vacant
        });
        bin.extend(gone.into_iter().map(|pair| pair as Box<dyn Any + Send>));
    }
    Swept { looked, is_done: !budget.is_spent(), has_next: part + 1 < table.parts() }
}

#[cfg(test)]
mod tests;
