//! Ends what ends though nobody calls: leases that lapse, queued tasks whose time is over.
//!
//! Twice a second the server that sweeps sees to the partitions in which something has
//! ended, and to those in which something may have begun since. What a partition's next
//! end is it says itself.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::{Duration, Instant},
};

use tokio::time::{MissedTickBehavior, interval};

use super::{Engine, PartitionCursor, embedded::Kept};
use crate::{
    decision::{Decision, State, Swept},
    error::Error,
    names::Name,
    time::{Millis, Timestamp, monotonic},
};

const SWEEP_EVERY: Duration = Duration::from_millis(500);
/// By when the store has to answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// A server says so often that it is the one that sweeps; others take over a second later.
const LEAD_EVERY: Duration = Duration::from_millis(400);
/// How long one pass may take before what has ended meanwhile is looked for.
const PASS_MAX: Duration = Duration::from_secs(1);
/// Partitions that are swept in one round trip.
const SWEPT_MAX: usize = 128;
/// The same where there is none: calls on this thread wait for so many at most.
const SWEPT_HERE_MAX: usize = 8;
/// After a step that has left something of a partition of this process.
const PAUSE: Duration = Duration::from_millis(1);
/// A partition is noted once a minute at least while something begins in it; so long
/// after it was, something may.
const ACTIVE: Duration = Duration::from_secs(90);
/// So many partitions may be active that were noted last, however long ago.
const LAST: usize = 256;
/// All partitions are swept so often: whatever a clock that was set back has hidden.
const ALL_EVERY: Duration = Duration::from_secs(60);
/// Further partitions are swept with all only.
const KNOWN_MAX: usize = 1_000_000;

/// What a pass begins with.
#[derive(Debug)]
pub(super) struct Round {
    /// The time of the store.
    pub(super) now: Timestamp,
    /// The partitions that were noted, and when; or those in which something has ended.
    pub(super) noted: Vec<PartitionCursor>,
}

/// What the server that sweeps knows.
#[derive(Debug)]
struct Known {
    /// The store's time of the last pass.
    since: Timestamp,
    /// When all were swept.
    all: Instant,
    /// When this server last said that it sweeps.
    led: Instant,
    /// Until when something may begin in a partition.
    active: HashMap<Name, Instant>,
    /// When something ends in a partition.
    ends: HashMap<Name, Timestamp>,
    /// What the last pass had no time for.
    left: VecDeque<Name>,
    /// This is the first pass.
    is_new: bool,
}

impl Engine {
    /// Sweeps partitions by these decisions, for ever.
    pub async fn sweep<D>(&self, decision: impl Fn(Name) -> D)
    where
        D: Decision<State: Kept, Outcome = Swept>,
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
        D: Decision<State: Kept, Outcome = Swept>,
    {
        let start = monotonic();
        let is_recent = |known: &&Known| start.duration_since(known.all) < ALL_EVERY;
        let since = known.as_ref().filter(is_recent).map(|known| known.since);
        let round = match self {
            Engine::Embedded(engine) => Some(engine.round::<D::State>().await),
            Engine::Redis(engine) => {
                engine.round(D::State::CAPABILITY, since, start + ANSWER_MAX).await?
            }
        };
        let Some(Round { now, noted }) = round else { return Ok(None) };
        let mut known = known.unwrap_or_else(|| Known::new(start, now));
        if since.is_none() {
            known.all = start;
        }
        known.led = start;
        let due = known.due(noted, now, start);
        self.sweep_all(due, decision, known).await
    }

    /// Whether what nobody waits for can be done.
    fn has_room(&self) -> bool {
        match self {
            Engine::Embedded(engine) => engine.has_room(),
            Engine::Redis(_) => true,
        }
    }

    async fn sweep_all<D>(
        &self,
        mut due: VecDeque<Name>,
        decision: &impl Fn(Name) -> D,
        mut known: Known,
    ) -> Result<Option<Known>, Error>
    where
        D: Decision<State: Kept, Outcome = Swept>,
    {
        let end = monotonic() + PASS_MAX;
        while !due.is_empty() && monotonic() < end && self.has_room() {
            let deadline = monotonic() + ANSWER_MAX;
            if let Engine::Redis(engine) = self
                && known.led.elapsed() >= LEAD_EVERY
            {
                if engine.lead(D::State::CAPABILITY, deadline).await?.is_none() {
                    return Ok(None);
                }
                known.led = monotonic();
            }
            let most = if self.is_remote() { SWEPT_MAX } else { SWEPT_HERE_MAX };
            let names: Vec<Name> = due.drain(..due.len().min(most)).collect();
            let decisions: Vec<D> = names.iter().cloned().map(decision).collect();
            let swept = self.run_all(&decisions, deadline).await?;
            let has_more = |swept: &Result<_, _>| matches!(swept, Ok(Swept { has_more: true, .. }));
            let is_crowd = !self.is_remote() && swept.iter().any(has_more);
            for (name, swept) in names.into_iter().zip(swept) {
                match swept {
                    Ok(Swept { has_more: true, .. }) => due.push_back(name),
                    Ok(Swept { next: Some(next), .. }) if self.is_remote() => {
                        known.ends(name, next);
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::debug!(%error, %name, "could not sweep a partition");
                        known.ends(name, known.since);
                    }
                }
            }
            // Calls go first; those that wait for a partition of this process need time to.
            match is_crowd {
                true => tokio::time::sleep(PAUSE).await,
                false => tokio::task::yield_now().await,
            }
        }
        known.left = due;
        Ok(Some(known))
    }
}

impl Known {
    fn new(start: Instant, now: Timestamp) -> Known {
        let since = now.0.saturating_sub(Millis(ACTIVE.as_millis() as u64).micros());
        Known {
            since: Timestamp(since),
            all: start,
            led: start,
            active: HashMap::new(),
            ends: HashMap::new(),
            left: VecDeque::new(),
            is_new: true,
        }
    }

    /// The partitions to sweep: first those in which something has ended, then what was
    /// left, then those in which something may have begun.
    fn due(
        &mut self,
        noted: Vec<PartitionCursor>,
        now: Timestamp,
        start: Instant,
    ) -> VecDeque<Name> {
        let ended = self.ends.extract_if(|_, end| *end <= now).map(|(name, _)| name);
        let mut due: VecDeque<Name> = ended.collect();
        due.append(&mut self.left);
        self.active.retain(|_, until| *until > start);
        due.extend(self.active.keys().cloned());
        // Of a server that has just begun also the last ones, whatever the clock did since.
        let last = if self.is_new { noted.len().saturating_sub(LAST) } else { noted.len() };
        self.is_new = false;
        for (place, PartitionCursor { noted, name }) in noted.into_iter().enumerate() {
            let is_active = noted >= self.since.0 || place >= last;
            if is_active && self.active.len() < KNOWN_MAX {
                self.active.insert(name.clone(), start + ACTIVE);
            }
            due.push_back(name);
        }
        self.since = now;
        let mut seen = HashSet::new();
        due.retain(|name| seen.insert(name.clone()));
        due
    }

    fn ends(&mut self, name: Name, end: Timestamp) {
        if self.ends.len() < KNOWN_MAX {
            self.ends.insert(name, end);
        }
    }
}
