//! The sweep of an embedded engine.
//!
//! A pass searches the shards for partitions that contain expired entries. It rotates over them in
//! steps of at most 100 leases, and continues in the next pass where it stopped. Calls go first:
//! the thread yields after each step, and pauses after [`WORK`]. No step waits for the disk, but a
//! call that reads its result does, as usual.

use std::{collections::VecDeque, time::Duration};

use tokio::{task::yield_now, time::sleep};

use super::{super::Failures, PASS_MAX};
use crate::{
    budget::ReachedLimit,
    embedded::{Embedded, SHARDS, Tabled},
};
use tollgate_core::{Decision, Swept, names::Name, time::monotonic};

/// Maximum number of partitions that are found but not swept yet; the search pauses there.
const FOUND_MAX: usize = 10_000;
/// The time of work between two pauses.
const WORK: Duration = Duration::from_millis(4);
const PAUSE: Duration = Duration::from_millis(1);
/// The pause before the journal is checked again for room.
const ROOM_PAUSE: Duration = Duration::from_millis(2);

/// The state of the sweep between two passes.
#[derive(Debug, Default)]
pub(super) struct Pass {
    /// The shard to search next.
    shard: usize,
    /// Partitions that contain expired entries.
    found: VecDeque<Name>,
}

impl Pass {
    /// Sweeps all partitions once, as far as [`PASS_MAX`] allows.
    pub(super) async fn run<D>(
        &mut self,
        engine: &Embedded,
        decision: &impl Fn(Name) -> D,
        failures: &Failures,
    ) where
        D: Decision<State: Tabled, Outcome = Swept>,
    {
        let end = monotonic() + PASS_MAX;
        let mut unseen = SHARDS;
        loop {
            while unseen > 0 && self.found.len() < FOUND_MAX {
                // Calls go first.
                if engine.ended::<D::State>(self.shard, &mut self.found) {
                    yield_now().await;
                }
                self.shard = (self.shard + 1) % SHARDS;
                unseen -= 1;
            }
            if self.found.is_empty() && unseen == 0 {
                return;
            }
            if monotonic() >= end {
                return ReachedLimit::SweepTime.record();
            }
            self.work(engine, decision, failures).await;
        }
    }

    /// Takes steps until it is time for a pause.
    async fn work<D>(
        &mut self,
        engine: &Embedded,
        decision: &impl Fn(Name) -> D,
        failures: &Failures,
    ) where
        D: Decision<State: Tabled, Outcome = Swept>,
    {
        if !engine.has_room() {
            return sleep(ROOM_PAUSE).await;
        }
        let begin = monotonic();
        while let Some(name) = self.found.pop_front() {
            match engine.run(&decision(name.clone())) {
                Ok(Swept { has_more: true, .. }) => self.found.push_back(name),
                Ok(_) => {}
                Err(error) => failures.log(&error),
            }
            if begin.elapsed() >= WORK {
                return sleep(PAUSE).await;
            }
            yield_now().await;
        }
    }
}
