//! Ends what ends though nobody calls: leases that lapse, queued tasks whose time is over.
//!
//! Twice a second the server that sweeps sees to the partitions in which something has
//! ended, and to those in which something may have begun since. What a partition's next
//! end is it says itself.

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use tokio::time::{MissedTickBehavior, interval};

use super::{Engine, embedded::Kept};
use crate::{
    decision::{Decision, State},
    error::Error,
    names::Name,
    time::{Timestamp, monotonic},
};

const SWEEP_EVERY: Duration = Duration::from_millis(500);
/// By when the store has to answer.
const ROUND_MAX: Duration = Duration::from_secs(2);
/// Partitions that are swept in one round trip.
const SWEPT_MAX: usize = 128;
/// A partition is noted once a minute at least while something begins in it; so long
/// after it was, something may.
const ACTIVE: Duration = Duration::from_secs(90);
/// All partitions are swept so often: whatever a clock that was set back has hidden.
const ALL_EVERY: Duration = Duration::from_secs(30);
/// Further partitions are swept with all only.
const KNOWN_MAX: usize = 1_000_000;

/// What a sweep begins with.
#[derive(Debug)]
pub(super) struct Round {
    /// The time of the store.
    pub(super) now: Timestamp,
    /// The partitions that were noted, or in which something has ended.
    pub(super) noted: Vec<Name>,
}

/// What the server that sweeps knows.
#[derive(Debug)]
struct Known {
    /// The time of the last round.
    since: Timestamp,
    /// When all were swept.
    all: Instant,
    /// Until when something may begin in a partition.
    active: HashMap<Name, Instant>,
    /// When something ends in a partition.
    ends: HashMap<Name, Timestamp>,
}

impl Engine {
    /// Sweeps partitions by these decisions, for ever. Each answers when something of its
    /// partition ends next; if that has passed, it is asked again.
    pub async fn sweep<D>(&self, decision: impl Fn(Name) -> D)
    where
        D: Decision<State: Kept, Outcome = Option<Timestamp>>,
    {
        let mut known = None;
        let mut tick = interval(SWEEP_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let before = known.take();
            match self.pass(&decision, before).await {
                Ok(after) => known = after,
                Err(error) => tracing::debug!(%error, "could not sweep"),
            }
        }
    }

    /// Sweeps once; what is known then, none if another server sweeps.
    async fn pass<D>(
        &self,
        decision: &impl Fn(Name) -> D,
        known: Option<Known>,
    ) -> Result<Option<Known>, Error>
    where
        D: Decision<State: Kept, Outcome = Option<Timestamp>>,
    {
        let (start, is_first) = (monotonic(), known.is_none());
        let deadline = start + ROUND_MAX;
        let is_recent = |known: &&Known| start.duration_since(known.all) < ALL_EVERY;
        let since = known.as_ref().filter(is_recent).map(|known| known.since);
        let round = match self {
            Engine::Embedded(engine) => Some(engine.round::<D::State>()),
            Engine::Redis(engine) => engine.round(D::State::CAPABILITY, since, deadline).await?,
        };
        let Some(Round { now, noted }) = round else { return Ok(None) };
        let empty =
            || Known { since: now, all: start, active: HashMap::new(), ends: HashMap::new() };
        let mut known = known.unwrap_or_else(empty);
        known.since = now;
        if since.is_none() {
            known.all = start;
        }
        let due = known.due(noted, now, start, self.is_remote() && (is_first || since.is_some()));
        self.sweep_all(due, now, decision, &mut known, deadline).await;
        Ok(Some(known))
    }

    async fn sweep_all<D>(
        &self,
        mut due: BTreeSet<Name>,
        now: Timestamp,
        decision: &impl Fn(Name) -> D,
        known: &mut Known,
        deadline: Instant,
    ) where
        D: Decision<State: Kept, Outcome = Option<Timestamp>>,
    {
        while !due.is_empty() && monotonic() < deadline {
            let names: Vec<Name> = due.iter().take(SWEPT_MAX).cloned().collect();
            let decisions: Vec<D> = names.iter().cloned().map(decision).collect();
            let swept = self.run_all(&decisions, deadline).await;
            let swept = swept.unwrap_or_else(|error| vec![Err(error); names.len()]);
            for (name, next) in names.into_iter().zip(swept) {
                match next {
                    // More had ended than one step takes out.
                    Ok(Some(next)) if next <= now => continue,
                    Ok(Some(next)) if self.is_remote() => known.ends(name.clone(), next),
                    Ok(_) => {}
                    Err(error) => {
                        tracing::debug!(%error, pool = %name, "could not sweep a partition");
                    }
                }
                due.remove(&name);
            }
            // Calls go first.
            tokio::task::yield_now().await;
        }
        due.into_iter().for_each(|name| known.ends(name, now));
    }
}

impl Known {
    /// The partitions to sweep.
    fn due(
        &mut self,
        noted: Vec<Name>,
        now: Timestamp,
        start: Instant,
        are_active: bool,
    ) -> BTreeSet<Name> {
        self.active.retain(|_, until| *until > start);
        let mut due: BTreeSet<Name> = self.active.keys().cloned().collect();
        for name in noted {
            if are_active && self.active.len() < KNOWN_MAX {
                self.active.insert(name.clone(), start + ACTIVE);
            }
            due.insert(name);
        }
        due.extend(self.ends.extract_if(|_, end| *end <= now).map(|(name, _)| name));
        due
    }

    fn ends(&mut self, name: Name, end: Timestamp) {
        if self.ends.len() < KNOWN_MAX {
            self.ends.insert(name, end);
        }
    }
}
