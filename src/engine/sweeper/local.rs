//! Sweeps the partitions of this process.
//!
//! A pass looks through the shards for partitions in which something has ended, and goes on
//! in the next pass where it was. It takes steps of 100 leases at a few of them in turn.
//! Calls go first: between two steps other tasks of the thread have their turn, and after
//! [`WORK`] lies a pause. Steps are not waited for on the disk; who reads their events is.

use std::{collections::VecDeque, time::Duration};

use tokio::{task::yield_now, time::sleep};

use super::{
    super::embedded::{Embedded, Kept, SHARDS},
    PASS_MAX,
    failures::Failures,
};
use crate::{
    budget::{self, Limit},
    decision::{Decision, Swept},
    names::Name,
    time::monotonic,
};

/// Names that wait to be swept; the search goes on where there are fewer.
const FOUND_MAX: usize = 10_000;
/// Work between two pauses.
const WORK: Duration = Duration::from_millis(4);
const PAUSE: Duration = Duration::from_millis(1);
/// Until the journal is looked at again for whether it has room.
const ROOM_PAUSE: Duration = Duration::from_millis(2);

/// Where the sweep of this process is.
#[derive(Debug, Default)]
pub(super) struct Pass {
    /// The shard that is looked through next.
    shard: usize,
    /// Partitions in which something has ended.
    found: VecDeque<Name>,
}

impl Pass {
    /// Sweeps all partitions once, as far as the time goes.
    pub(super) async fn run<D>(
        &mut self,
        engine: &Embedded,
        decision: &impl Fn(Name) -> D,
        failures: &mut Failures,
    ) where
        D: Decision<State: Kept, Outcome = Swept>,
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
                return budget::note(Limit::SweepTime);
            }
            self.work(engine, decision, failures).await;
        }
    }

    /// Takes steps until it is time for a pause.
    async fn work<D>(
        &mut self,
        engine: &Embedded,
        decision: &impl Fn(Name) -> D,
        failures: &mut Failures,
    ) where
        D: Decision<State: Kept, Outcome = Swept>,
    {
        if !engine.has_room() {
            return sleep(ROOM_PAUSE).await;
        }
        let begin = monotonic();
        while let Some(name) = self.found.pop_front() {
            match engine.run_unwaited(&decision(name.clone())) {
                Ok(Swept { has_more: true, .. }) => self.found.push_back(name),
                Ok(_) => {}
                Err(error) => failures.note(&error),
            }
            if begin.elapsed() >= WORK {
                return sleep(PAUSE).await;
            }
            yield_now().await;
        }
    }
}
