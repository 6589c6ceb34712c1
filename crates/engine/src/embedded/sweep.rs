//! Drops expired entries in the background, in bounded steps.
//!
//! Called through `Engine::maintain`. A step locks one shard, sweeps some segments of its tables
//! and remembers where the next step continues. It drops at most 125 entries and ends after 250 µs,
//! even if one partition has a million expired entries. Steps rotate over the shards, with pauses,
//! since calls also need the processor. Nothing here changes an outcome, because a decision treats
//! expired entries as absent.

mod budget;

use std::{any::Any, collections::VecDeque, time::Duration};

use parking_lot::MutexGuard;
use tokio::{
    task::yield_now,
    time::{MissedTickBehavior, interval, sleep},
};

use budget::Budget;

use super::{
    super::registry::stored_states,
    Ceiling, Embedded, SHARDS,
    executor::line_up,
    journal::Journal,
    namespaces::Namespaces,
    quota::QuotaCounts,
    tables::{Tabled, Tables, drain},
};
use tollgate_core::{
    Bin,
    time::{Timestamp, monotonic},
};

/// A pass sweeps a quarter of the shards, so each shard is swept once per second.
const SWEEP_EVERY: Duration = Duration::from_millis(250);
const QUARTER: usize = SHARDS.div_ceil(4);
/// Maximum number of entries that a step drops.
const DROPPED_MAX: usize = 125;
/// The time after which a step ends, once it has finished its current group of 16 entries or its
/// current segment. A decision waits about this long for a step.
const STEP_TIME: Duration = Duration::from_micros(250);
/// The number of dropped entries after which the sweep pauses.
const PAUSE_AFTER: usize = 1000;
const PAUSE: Duration = Duration::from_millis(1);
/// Maximum number of entries that a pass drops: 320,000 per second in total, which is more than
/// calls can create. One pool gets a quarter of that; a busy pool also drops two expired tasks with
/// each new one.
const QUARTER_MAX: usize = 80_000;
/// The pause before the journal is checked again for room.
const ROOM_PAUSE: Duration = Duration::from_millis(20);
/// A step ends when it has visited this number of partitions.
const LOOKED_MAX: usize = 500;

/// The position at which the sweep of a shard continues.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct SweepPosition {
    /// The index of the table in [`KINDS`].
    kind: usize,
    /// The segment of the table.
    part: usize,
}

/// The result of a step.
struct Step {
    /// The position of the next step in the shard; `None` at the end of its tables.
    next: Option<SweepPosition>,
    /// The number of partitions visited.
    looked: usize,
    /// The number of entries dropped.
    dropped: usize,
}

/// The result of sweeping a segment.
struct SweptSegment {
    /// The number of partitions visited.
    looked: usize,
    /// Whether there is nothing left to drop in the segment.
    is_done: bool,
    /// Whether the table has further segments.
    has_next: bool,
}

/// Sweeps one segment of a table: tables, segment, time, whether changes are persisted, the registry
/// of namespaces, their counts, budget, and dropped values.
type Sweep = fn(
    &mut Tables,
    usize,
    Timestamp,
    bool,
    (&Namespaces, &QuotaCounts),
    &mut Budget,
    &mut Bin,
) -> SweptSegment;

macro_rules! kinds {
    ($($table:ident: $state:ty $(, events $event:ty => $history:ident)?;)*) => {
        /// The sweep of each table, in a fixed order.
        const KINDS: &[Sweep] = &[$(sweep::<$state>),*];
    };
}

stored_states!(kinds);

impl Embedded {
    /// Runs the background work of the engine until dropped.
    pub(in super::super) async fn maintain(&self) {
        tokio::join!(
            self.sweep_for_ever(),
            watch(self.ceiling.as_ref()),
            watch_disk(self.journal())
        );
    }

    /// Sweeps a quarter of the shards every 250 ms.
    async fn sweep_for_ever(&self) {
        let mut tick = interval(SWEEP_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut places = vec![SweepPosition::default(); SHARDS];
        let shards: Vec<usize> = (0..SHARDS).collect();
        for quarter in shards.chunks(QUARTER).cycle() {
            tick.tick().await;
            self.sweep_quarter(quarter, &mut places).await;
        }
    }

    /// Sweeps a quarter of the shards. Unfinished shards continue in the next pass where they
    /// stopped.
    async fn sweep_quarter(&self, quarter: &[usize], places: &mut [SweepPosition]) {
        let mut unfinished: VecDeque<usize> = quarter.iter().copied().collect();
        let (mut dropped, mut paused) = (0, 0);
        while dropped < QUARTER_MAX
            && let Some(shard) = unfinished.pop_front()
        {
            // Dropping can wait for the disk, but calls cannot.
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

    /// Sweeps all shards in one go, without a time limit. For tests and the simulation.
    pub fn sweep_all(&self) {
        for shard in 0..SHARDS {
            let mut next = Some(SweepPosition::default());
            while let Some(place) = next.filter(|_| self.has_room()) {
                next = self.sweep_step(shard, place, None).next;
            }
        }
    }

    /// Takes one step in a shard. `time` bounds its duration; `None` makes it reproducible.
    fn sweep_step(&self, shard: usize, mut place: SweepPosition, time: Option<Duration>) -> Step {
        let mut bin = Bin::new();
        let mut tables = self.shards[shard].lock();
        let journal = self.journal();
        let now = self.clock.now();
        let mut looked = 0;
        let mut budget = Budget::new(DROPPED_MAX, time.map(|time| monotonic() + time));
        while let Some(sweep) = KINDS.get(place.kind) {
            // A step sweeps at least one segment, so that a slow machine makes progress.
            if looked >= LOOKED_MAX || budget.is_spent() || looked > 0 && budget.is_over() {
                break;
            }
            let is_kept = journal.is_some();
            let swept = sweep(
                &mut tables,
                place.part,
                now,
                is_kept,
                (&self.namespaces, &self.counts),
                &mut budget,
                &mut bin,
            );
            looked += swept.looked;
            place = match swept {
                SweptSegment { is_done: false, .. } => place,
                SweptSegment { has_next: true, .. } => {
                    SweepPosition { part: place.part + 1, ..place }
                }
                _ => SweepPosition { kind: place.kind + 1, part: 0 },
            };
        }
        if let Some(journal) = journal {
            line_up(&mut tables.buffer, journal);
        }
        // Passes the mutex to a waiting call before the next step locks it.
        MutexGuard::unlock_fair(tables);
        // Freed after the mutex is unlocked, because the allocator can take milliseconds to return
        // memory.
        drop(bin);
        let next = (place.kind < KINDS.len()).then_some(place);
        Step { next, looked, dropped: budget.dropped() }
    }
}

/// Checks the memory of the process every 250 ms.
async fn watch(ceiling: Option<&Ceiling>) {
    let Some(ceiling) = ceiling else { return };
    let mut tick = interval(SWEEP_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        ceiling.look();
    }
}

/// Checks every 250 ms whether the disk hangs.
async fn watch_disk(journal: Option<&Journal>) {
    let Some(journal) = journal else { return };
    let mut tick = interval(SWEEP_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        journal.look();
    }
}

/// Sweeps one segment of a table as far as the budget allows.
fn sweep<S: Tabled>(
    tables: &mut Tables,
    part: usize,
    now: Timestamp,
    is_kept: bool,
    (namespaces, counts): (&Namespaces, &QuotaCounts),
    budget: &mut Budget,
    bin: &mut Bin,
) -> SweptSegment {
    let (table, buffer) = S::table_and_buffer(tables);
    let looked = if part < table.parts() { table.part(part).len() } else { 0 };
    if looked > 0 {
        let gone = table.retain(part, |partition, state| {
            if budget.is_spent() {
                return true;
            }
            let before = budget.dropped();
            let held = counts.before(partition, state);
            loop {
                let slice = budget.slice();
                let dropped = state.sweep(now, slice, bin);
                budget.spend(dropped);
                if dropped < slice || budget.is_spent() {
                    break;
                }
            }
            let is_vacant = state.is_vacant(now);
            if let Some(held) = held {
                counts.after(partition, held, Some(&*state).filter(|_| !is_vacant));
            }
            if is_vacant && budget.dropped() == before {
                // The removal of a partition counts as one entry.
                budget.spend(1);
            }
            if is_kept && is_vacant {
                buffer.changes.set_partition::<S>(partition);
                buffer.changes.clear(&[]);
            } else if is_kept {
                drain(state, partition, buffer);
            }
            !is_vacant
        });
        gone.iter().for_each(|pair| namespaces.remove::<S>(&pair.0));
        bin.extend(gone.into_iter().map(|pair| pair as Box<dyn Any + Send>));
    }
    SweptSegment { looked, is_done: !budget.is_spent(), has_next: part + 1 < table.parts() }
}

#[cfg(test)]
mod tests;
