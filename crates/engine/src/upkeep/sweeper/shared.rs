//! The sweep of a Redis index by the one server that has claimed it (`claim`).
//!
//! # Due work
//! The index contains the time of the next visit to each partition, which is when one of its
//! entries ends. Due partitions are swept first, the longest overdue first, in pages of
//! [`DUE_PAGE`]. A script call ends at most 100 leases, and [`CALLS`] script calls are sent in one
//! round trip. The sweeper rests as long as it works, so due work takes at most half of Redis's
//! time. The amount is bounded by the callers' own work: each lease ends once.
//!
//! # Other work
//! - Each pass visits the [`LATEST`] most recently registered partitions, for [`ACTIVE`] after
//!   their registration. If the store's clock was set forward, a lease can start there without a
//!   registration. This takes 256 script calls per second, about 1 % of Redis's time.
//! - The whole index is visited page by page, at most once per minute, over several passes if
//!   needed. This finds partitions that were hidden by a lost registration or by a clock that was
//!   set back, and removes empty names. After each page of [`PAGE`] names, the sweeper rests
//!   [`REST`] times as long, so this takes at most 4 % of Redis's time, for any number of names.
//!
//! # When an empty name is removed
//! A server registers a partition together with a decision, and relies on that registration for a
//! minute. The two are separate steps on two nodes, in any order. Therefore,
//! `lua/index/schedule.lua` removes an empty name only if its last registration is unchanged since
//! the sweeper read it, and older than [`RELIED`]. A registration in between keeps the name. A
//! server with an older registration registers the name again before it can be removed. [`RELIED`]
//! is also counted on this server's monotonic clock, so a store clock that is set forward removes
//! no name.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use tokio::time::{sleep, sleep_until};

use super::{super::Failures, ANSWER_MAX, PASS_MAX};
use crate::{
    PartitionCursor,
    budget::ReachedLimit,
    redis::{
        Redis,
        index::{IndexOf, Visit},
    },
};
use tollgate_core::{
    Decision, Swept,
    error::Error,
    names::{Name, Namespace},
    time::{Millis, Timestamp, monotonic},
};

/// The interval at which this server renews its claim. Another server takes over 1.2 s after the
/// last renewal.
const LEAD_EVERY: Duration = Duration::from_millis(400);
/// Number of names in a page of due partitions.
const DUE_PAGE: u32 = 256;
/// Number of names in a page of the whole index.
const PAGE: u32 = 64;
/// Number of script calls in one round trip.
const CALLS: usize = 8;
/// After this time of due work, the sweeper rests as long as it has worked, but at most
/// [`REST_MAX`].
const WORK: Duration = Duration::from_millis(2);
/// After a page of the index, the sweeper rests this many times as long.
const REST: u32 = 24;
/// Maximum rest. A page or group takes Redis a few milliseconds, however long the answer takes.
const REST_MAX: Duration = Duration::from_millis(500);
/// Minimum time between two visits of the whole index.
const ALL_EVERY: Duration = Duration::from_secs(60);
/// The number of partitions, by last registration, that each pass visits.
const LATEST: u32 = 128;
/// The time after a registration for which it visits them. Servers register an active partition
/// once per minute.
const ACTIVE: Duration = Duration::from_secs(90);
/// A registration is relied on for one minute, and the call that it belongs to lasts seconds.
const RELIED: Duration = Duration::from_secs(120);
/// The same for a server that starts to sweep, because the store's clock may have been set forward
/// before.
const DAY: Millis = Millis::from_secs(24 * 3600);
/// The interval at which the store's time is recorded together with this server's.
const SAMPLE_EVERY: Duration = Duration::from_secs(10);
/// The time until a failed partition is visited again, so that other due partitions come first.
const RETRY: Millis = Millis::from_secs(1);

/// The state of the sweeping server.
#[derive(Debug)]
pub(super) struct Known {
    /// The store's time in the last pass.
    now: Timestamp,
    /// The time of the last claim.
    led: Instant,
    /// The recently registered partitions: the time of the last registration, and when this server
    /// first saw it.
    latest: HashMap<Name, (u64, Instant)>,
    /// The cursor of the next page of the whole index.
    after: Option<PartitionCursor>,
    /// Whether further pages follow. Without a cursor, they start from the first, because all names
    /// of a page may have been removed.
    walks: bool,
    /// The time when the current visit of the whole index started.
    began: Option<Instant>,
    /// The earliest time for the next page.
    rested: Instant,
    /// Pairs of this server's monotonic time and the store's time.
    samples: VecDeque<(Instant, Timestamp)>,
    /// Empty names whose last registration is older are removed from the index.
    before: Timestamp,
}

/// The results of a group of visits.
#[derive(Default)]
struct Visited {
    /// Finished visits, to be scheduled.
    visits: Vec<Visit>,
    /// Partitions in which more entries have ended than one step removes.
    more: Vec<PartitionCursor>,
}

/// Runs one pass, until `next` if there is enough to do. If another server sweeps, drops the state.
pub(super) async fn pass<D>(
    engine: &Redis,
    index: IndexOf,
    decision: &impl Fn(Name) -> D,
    known: &mut Option<Known>,
    next: Instant,
    failures: &Failures,
) -> Result<(), Error>
where
    D: Decision<Outcome = Swept>,
{
    let start = monotonic();
    let Some(now) = engine.claim(index, start + ANSWER_MAX).await? else {
        *known = None;
        return Ok(());
    };
    let known = known.get_or_insert_with(|| Known::new(start, now));
    known.begin(start, now);
    let sweep = Sweep { engine, index, decision };
    sweep.due(known, failures).await?;
    sweep.latest(known, failures).await?;
    sweep.pages(known, next, failures).await
}

/// One pass.
struct Sweep<'a, F> {
    engine: &'a Redis,
    index: IndexOf,
    decision: &'a F,
}

impl<F> Sweep<'_, F> {
    /// Sweeps the due partitions.
    async fn due<D>(&self, known: &mut Known, failures: &Failures) -> Result<(), Error>
    where
        F: Fn(Name) -> D,
        D: Decision<Outcome = Swept>,
    {
        let (end, mut worked) = (monotonic() + PASS_MAX, Duration::ZERO);
        loop {
            let deadline = monotonic() + ANSWER_MAX;
            let (due, has_more) = self.engine.due(self.index, DUE_PAGE, deadline).await?;
            if due.is_empty() {
                return Ok(());
            }
            let (mut left, mut crowds) = (VecDeque::from(due), VecDeque::new());
            while !left.is_empty() || !crowds.is_empty() {
                if monotonic() >= end {
                    // The rest stays due.
                    ReachedLimit::SweepTime.record();
                    return Ok(());
                }
                self.claim::<D>(known).await?;
                let begin = monotonic();
                let group = group(&mut left, &mut crowds);
                let visited = self.visit(group, known, failures).await?;
                self.schedule::<D>(&visited.visits, known).await?;
                crowds.extend(visited.more);
                worked += begin.elapsed();
                if worked >= WORK {
                    sleep(std::mem::take(&mut worked).min(REST_MAX)).await;
                }
            }
            if !has_more {
                return Ok(());
            }
        }
    }

    /// Visits the partitions in which entries may have started recently.
    async fn latest<D>(&self, known: &mut Known, failures: &Failures) -> Result<(), Error>
    where
        F: Fn(Name) -> D,
        D: Decision<Outcome = Swept>,
    {
        let now = monotonic();
        let latest = self.engine.latest(self.index, LATEST, now + ANSWER_MAX).await?;
        for group in known.active(latest, now).chunks(CALLS) {
            self.claim::<D>(known).await?;
            let visits = self.visit(group.to_vec(), known, failures).await?.all(known.now);
            self.schedule::<D>(&visits, known).await?;
        }
        Ok(())
    }

    /// Visits pages of the index until `end`, with rests between them.
    async fn pages<D>(
        &self,
        known: &mut Known,
        end: Instant,
        failures: &Failures,
    ) -> Result<(), Error>
    where
        F: Fn(Name) -> D,
        D: Decision<Outcome = Swept>,
    {
        while known.rested < end {
            sleep_until(known.rested.into()).await;
            self.claim::<D>(known).await?;
            let begin = monotonic();
            let is_early = known.began.is_some_and(|began| begin < began + ALL_EVERY);
            if !known.walks && is_early {
                return Ok(());
            }
            let page = self.page(known, failures).await;
            known.rested = monotonic() + (REST * begin.elapsed()).min(REST_MAX);
            page?;
        }
        Ok(())
    }

    /// Visits the partitions of one page of the index.
    async fn page<D>(&self, known: &mut Known, failures: &Failures) -> Result<(), Error>
    where
        F: Fn(Name) -> D,
        D: Decision<Outcome = Swept>,
    {
        let after = known.after.as_ref();
        let (all, deadline) = (&Namespace::DEFAULT, monotonic() + ANSWER_MAX);
        let (page, has_more) = self.engine.page(self.index, all, PAGE, after, deadline).await?;
        if !known.walks {
            known.began = Some(monotonic());
        }
        known.walks = has_more;
        for group in page.chunks(CALLS) {
            let visits = self.visit(group.to_vec(), known, failures).await?.all(known.now);
            let left = self.schedule::<D>(&visits, known).await?;
            // The cursor must be a name that stays in the index, since other names may have been
            // registered at the same time.
            let visits = visits.into_iter().zip(left);
            let stays = visits.filter(|(_, left)| !left).map(|(visit, _)| visit.seen);
            let last = stays.max_by(|one, other| one.place().cmp(&other.place()));
            known.after = last.or(known.after.take());
        }
        if !has_more {
            known.after = None;
        }
        Ok(())
    }

    /// Sweeps partitions, one step for each time that they are listed.
    async fn visit<D>(
        &self,
        group: Vec<PartitionCursor>,
        known: &Known,
        failures: &Failures,
    ) -> Result<Visited, Error>
    where
        F: Fn(Name) -> D,
        D: Decision<Outcome = Swept>,
    {
        let decisions: Vec<D> =
            group.iter().map(|seen| (self.decision)(seen.name.clone())).collect();
        let swept = self.engine.run_all(&decisions, monotonic() + ANSWER_MAX).await?;
        let mut visited = Visited::default();
        for (seen, swept) in group.into_iter().zip(swept) {
            visited.forget(&seen.name);
            match swept {
                Ok(Swept { has_more: true, .. }) => visited.more.push(seen),
                Ok(Swept { next, is_vacant, .. }) => {
                    visited.visits.push(Visit { seen, next, is_vacant });
                }
                Err(error) => {
                    failures.log(&error);
                    let next = Some(known.now.after(RETRY));
                    visited.visits.push(Visit { seen, next, is_vacant: false });
                }
            }
        }
        Ok(visited)
    }

    /// Schedules the next visits. Returns whether each name was removed from the index.
    async fn schedule<D>(&self, visits: &[Visit], known: &Known) -> Result<Vec<bool>, Error>
    where
        F: Fn(Name) -> D,
        D: Decision<Outcome = Swept>,
    {
        let deadline = monotonic() + ANSWER_MAX;
        self.engine.schedule(self.index, visits, known.before, deadline).await
    }

    /// Renews the claim if it is time.
    async fn claim<D>(&self, known: &mut Known) -> Result<(), Error>
    where
        F: Fn(Name) -> D,
        D: Decision<Outcome = Swept>,
    {
        if known.led.elapsed() < LEAD_EVERY {
            return Ok(());
        }
        known.led = monotonic();
        // If another server also sweeps, no harm is done, and the next pass sees its claim.
        let now = self.engine.claim(self.index, known.led + ANSWER_MAX).await?;
        known.now = now.unwrap_or(known.now);
        Ok(())
    }
}

/// Returns the next group: first new partitions, then those with more entries to end. If there are
/// few of these, each is listed several times.
fn group(
    left: &mut VecDeque<PartitionCursor>,
    crowds: &mut VecDeque<PartitionCursor>,
) -> Vec<PartitionCursor> {
    if !left.is_empty() {
        return left.drain(..left.len().min(CALLS)).collect();
    }
    let crowds: Vec<_> = crowds.drain(..crowds.len().min(CALLS)).collect();
    let times = CALLS / crowds.len().max(1);
    crowds.into_iter().flat_map(|crowd| std::iter::repeat_n(crowd, times)).collect()
}

impl Visited {
    /// Returns all visits; a partition in which more entries have ended is due immediately.
    fn all(mut self, now: Timestamp) -> Vec<Visit> {
        let due = |seen| Visit { seen, next: Some(now), is_vacant: false };
        self.visits.extend(self.more.into_iter().map(due));
        self.visits
    }

    /// Removes the result of an earlier step on a partition.
    fn forget(&mut self, name: &Name) {
        self.visits.retain(|visit| visit.seen.name != *name);
        self.more.retain(|seen| seen.name != *name);
    }
}

impl Known {
    /// Creates the state of a server that starts to sweep and knows no earlier readings of the
    /// store's clock.
    fn new(start: Instant, now: Timestamp) -> Known {
        Known {
            now,
            led: start,
            latest: HashMap::new(),
            after: None,
            walks: false,
            began: None,
            rested: start,
            samples: VecDeque::new(),
            before: Timestamp(now.0.saturating_sub(DAY.micros())),
        }
    }

    /// Starts a pass.
    fn begin(&mut self, start: Instant, now: Timestamp) {
        (self.now, self.led) = (now, start);
        let is_due = |(last, _): &(Instant, Timestamp)| start >= *last + SAMPLE_EVERY;
        if self.samples.back().is_none_or(is_due) {
            self.samples.push_back((start, now));
        }
        while let Some((_, then)) = self.samples.front().filter(|(at, _)| start >= *at + RELIED) {
            self.before = *then;
            self.samples.pop_front();
        }
    }

    /// Selects the partitions in which entries may start, by the age of their last registration.
    fn active(&mut self, latest: Vec<PartitionCursor>, now: Instant) -> Vec<PartitionCursor> {
        let mut before = std::mem::take(&mut self.latest);
        let mut active = Vec::new();
        for seen in latest {
            let first = before.remove(&seen.name).filter(|(noted, _)| *noted == seen.noted);
            let (_, since) = first.unwrap_or((seen.noted, now));
            self.latest.insert(seen.name.clone(), (seen.noted, since));
            if now < since + ACTIVE {
                active.push(seen);
            }
        }
        active
    }
}

impl PartitionCursor {
    fn place(&self) -> (u64, &[u8]) {
        (self.noted, self.name.as_bytes())
    }
}
