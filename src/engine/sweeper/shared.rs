//! Sweeps the partitions of a Redis, as the one server that does.
//!
//! # Due work
//! The index says when each partition has to be looked at: when something of it ends. Those
//! that are due are looked at first, the longest due first, in pages of [`DUE_PAGE`]. A script
//! call ends 100 leases at most; [`CALLS`] of them go together. The sweeper rests for as long
//! as it works, so that due work takes half of Redis's time at most.
//! It is no more than callers have made: each lease ends once.
//!
//! # Other work
//! - The [`LATEST`] partitions that were noted last are looked at in each pass for
//!   [`ACTIVE`]: a lease can begin there that no note has told of, where the store's clock was
//!   set forward. That is 256 script calls a second, about 1 % of Redis's time.
//! - The whole index is looked through, a page at a time, over as many passes as it takes, and
//!   once a minute at most: for what a clock that was set back or a lost note has hidden, and
//!   for vacant names, which leave. After each page the sweeper rests for [`REST`] times as
//!   long as it took. So this takes 4 % of Redis's time at most, however many names there
//!   are. A page is [`PAGE`] names, in script calls of less than a millisecond.
//!
//! # When a vacant name leaves
//! A server notes a partition beside a decision, and relies on that note for a minute. Note
//! and decision are two steps on two nodes, in any order. So `lua/index/settle.lua` removes a
//! vacant name in one atomic step that compares when it was noted last: with what the sweeper
//! read before it looked, and with a time that lies [`RELIED`] back. Who notes it between
//! the two keeps it; who relies on an older note asks again before the name can leave. The
//! [`RELIED`] are counted on this server's monotonic clock, too: a clock of the store
//! that is set forward removes nothing.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use tokio::time::{sleep, sleep_until};

use super::{
    super::{
        Engine, PartitionCursor,
        embedded::Kept,
        redis::{Redis, index::Look},
    },
    ANSWER_MAX, PASS_MAX,
    failures::Failures,
};
use crate::{
    budget::{self, Limit},
    decision::{Decision, State, Swept},
    error::Error,
    names::Name,
    time::{Millis, Timestamp, monotonic},
};

/// A server says so often that it is the one that sweeps; others take over a second later.
const LEAD_EVERY: Duration = Duration::from_millis(400);
/// Names that are read at a time of those that are due.
const DUE_PAGE: u32 = 256;
/// Names that are read at a time of the whole index.
const PAGE: u32 = 64;
/// Script calls that go together.
const CALLS: usize = 8;
/// Due work is followed by a rest as long once it has taken so long.
const WORK: Duration = Duration::from_millis(2);
/// A page of the index is followed by a rest of so many times its own length.
const REST: u32 = 24;
/// The longest rest: a page takes Redis a few milliseconds, however long the answer takes.
const REST_MAX: Duration = Duration::from_millis(500);
/// The whole index is looked through so often at most.
const ALL_EVERY: Duration = Duration::from_secs(60);
/// Partitions that are looked at in each pass since they were noted last.
const LATEST: u32 = 128;
/// How long that goes on; servers note a partition once a minute while something begins in it.
const ACTIVE: Duration = Duration::from_secs(90);
/// A note is relied on for a minute, and the call beside it lasts seconds.
const RELIED: Duration = Duration::from_secs(120);
/// The same of a server that has not swept for so long: the store's clock may have been set
/// forward just before.
const DAY: Millis = Millis::from_secs(24 * 3600);
/// How often the store's time is written down beside this server's.
const SAMPLE_EVERY: Duration = Duration::from_secs(10);
/// A partition that could not be swept is looked at again after so long.
const RETRY: Millis = Millis::from_secs(10);

/// What the server that sweeps knows.
#[derive(Debug)]
pub(super) struct Known {
    /// The store's time of the last pass.
    now: Timestamp,
    /// When this server last said that it sweeps.
    led: Instant,
    /// The partitions noted last: when that was, and when this server first saw it.
    latest: HashMap<Name, (u64, Instant)>,
    /// The place in the index after which the next page is read.
    after: Option<PartitionCursor>,
    /// Whether further pages follow; without a place, from the first one on: all names of a page
    /// may have left.
    walks: bool,
    /// When the first page was read.
    began: Option<Instant>,
    /// When the next page may be read.
    rested: Instant,
    /// The store's time at instants of this server.
    samples: VecDeque<(Instant, Timestamp)>,
    /// Vacant names that were noted earlier leave the index.
    before: Timestamp,
}

/// What became of a group of partitions.
#[derive(Default)]
struct Looked {
    looks: Vec<Look>,
    /// Those in which more has ended.
    more: Vec<PartitionCursor>,
}

impl Engine {
    /// Sweeps once, until `next` if there is as much to do. Forgets what it knows where another
    /// server sweeps.
    pub(super) async fn pass<D>(
        &self,
        engine: &Redis,
        decision: &impl Fn(Name) -> D,
        known: &mut Option<Known>,
        next: Instant,
        failures: &mut Failures,
    ) -> Result<(), Error>
    where
        D: Decision<State: Kept, Outcome = Swept>,
    {
        let start = monotonic();
        let Some(now) = engine.lead(D::State::CAPABILITY, start + ANSWER_MAX).await? else {
            *known = None;
            return Ok(());
        };
        let known = known.get_or_insert_with(|| Known::new(start, now));
        known.begin(start, now);
        let sweep = Sweep { engine, all: self, decision };
        sweep.due(known, failures).await?;
        sweep.latest(known, failures).await?;
        sweep.pages(known, next, failures).await
    }
}

/// What sweeps.
struct Sweep<'a, F> {
    engine: &'a Redis,
    all: &'a Engine,
    decision: &'a F,
}

impl<F> Sweep<'_, F> {
    /// Ends what has ended.
    async fn due<D>(&self, known: &mut Known, failures: &mut Failures) -> Result<(), Error>
    where
        F: Fn(Name) -> D,
        D: Decision<State: Kept, Outcome = Swept>,
    {
        let (end, mut worked) = (monotonic() + PASS_MAX, Duration::ZERO);
        loop {
            let deadline = monotonic() + ANSWER_MAX;
            let (due, has_more) = self.engine.due(D::State::CAPABILITY, DUE_PAGE, deadline).await?;
            if due.is_empty() {
                return Ok(());
            }
            let (mut left, mut crowds) = (VecDeque::from(due), VecDeque::new());
            while !left.is_empty() || !crowds.is_empty() {
                if monotonic() >= end {
                    // They are due still.
                    budget::note(Limit::SweepTime);
                    return Ok(());
                }
                self.lead::<D>(known).await?;
                let begin = monotonic();
                let group = group(&mut left, &mut crowds);
                let looked = self.look(group, known, failures).await?;
                self.settle::<D>(&looked.looks, known).await?;
                crowds.extend(looked.more);
                worked += begin.elapsed();
                if worked >= WORK {
                    sleep(std::mem::take(&mut worked)).await;
                }
            }
            if !has_more {
                return Ok(());
            }
        }
    }

    /// Looks at the partitions in which something may have begun of late.
    async fn latest<D>(&self, known: &mut Known, failures: &mut Failures) -> Result<(), Error>
    where
        F: Fn(Name) -> D,
        D: Decision<State: Kept, Outcome = Swept>,
    {
        let now = monotonic();
        let latest = self.engine.latest(D::State::CAPABILITY, LATEST, now + ANSWER_MAX).await?;
        for group in known.active(latest, now).chunks(CALLS) {
            self.lead::<D>(known).await?;
            let looked = self.look(group.to_vec(), known, failures).await?;
            self.settle::<D>(&looked.looks, known).await?;
        }
        Ok(())
    }

    /// Looks through pages of the index until `end`, with rests between them.
    async fn pages<D>(
        &self,
        known: &mut Known,
        end: Instant,
        failures: &mut Failures,
    ) -> Result<(), Error>
    where
        F: Fn(Name) -> D,
        D: Decision<State: Kept, Outcome = Swept>,
    {
        while known.rested < end {
            sleep_until(known.rested.into()).await;
            self.lead::<D>(known).await?;
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

    /// Looks at a page of the index.
    async fn page<D>(&self, known: &mut Known, failures: &mut Failures) -> Result<(), Error>
    where
        F: Fn(Name) -> D,
        D: Decision<State: Kept, Outcome = Swept>,
    {
        let deadline = monotonic() + ANSWER_MAX;
        let after = known.after.as_ref();
        let (page, has_more) =
            self.engine.page(D::State::CAPABILITY, PAGE, after, deadline).await?;
        if !known.walks {
            known.began = Some(monotonic());
        }
        known.walks = has_more;
        for group in page.chunks(CALLS) {
            let looked = self.look(group.to_vec(), known, failures).await?;
            let left = self.settle::<D>(&looked.looks, known).await?;
            // A place that is a name's, which is there: others may have been noted with it.
            let looks = looked.looks.into_iter().zip(left).map(|(look, left)| (look.seen, left));
            let stays = looks.chain(looked.more.into_iter().map(|seen| (seen, false)));
            let stays = stays.filter(|(_, left)| !left).map(|(seen, _)| seen);
            let last = stays.max_by(|one, other| one.place().cmp(&other.place()));
            known.after = last.or(known.after.take());
        }
        if !has_more {
            known.after = None;
        }
        Ok(())
    }

    /// Sweeps partitions, a step for each time that they are named.
    async fn look<D>(
        &self,
        group: Vec<PartitionCursor>,
        known: &Known,
        failures: &mut Failures,
    ) -> Result<Looked, Error>
    where
        F: Fn(Name) -> D,
        D: Decision<State: Kept, Outcome = Swept>,
    {
        let decisions: Vec<D> =
            group.iter().map(|seen| (self.decision)(seen.name.clone())).collect();
        let swept = self.all.run_all(&decisions, monotonic() + ANSWER_MAX).await?;
        let mut looked = Looked::default();
        for (seen, swept) in group.into_iter().zip(swept) {
            looked.forget(&seen.name);
            match swept {
                Ok(Swept { has_more: true, .. }) => looked.more.push(seen),
                Ok(Swept { next, is_vacant, .. }) => {
                    looked.looks.push(Look { seen, next, is_vacant });
                }
                Err(error) => {
                    failures.note(&error);
                    let next = Some(known.now.after(RETRY));
                    looked.looks.push(Look { seen, next, is_vacant: false });
                }
            }
        }
        Ok(looked)
    }

    async fn settle<D>(&self, looks: &[Look], known: &Known) -> Result<Vec<bool>, Error>
    where
        F: Fn(Name) -> D,
        D: Decision<State: Kept, Outcome = Swept>,
    {
        let deadline = monotonic() + ANSWER_MAX;
        self.engine.settle(D::State::CAPABILITY, looks, known.before, deadline).await
    }

    /// Says once more that this server sweeps, where that is due.
    async fn lead<D>(&self, known: &mut Known) -> Result<(), Error>
    where
        F: Fn(Name) -> D,
        D: Decision<State: Kept, Outcome = Swept>,
    {
        if known.led.elapsed() < LEAD_EVERY {
            return Ok(());
        }
        known.led = monotonic();
        // Another one that sweeps, too, does no harm; the next pass learns of it.
        let now = self.engine.lead(D::State::CAPABILITY, known.led + ANSWER_MAX).await?;
        known.now = now.unwrap_or(known.now);
        Ok(())
    }
}

/// The next partitions to look at: those that are new first, then those in which more has
/// ended, several times each where they are few.
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

impl Looked {
    /// Forgets an earlier step at a partition.
    fn forget(&mut self, name: &Name) {
        self.looks.retain(|look| look.seen.name != *name);
        self.more.retain(|seen| seen.name != *name);
    }
}

impl Known {
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

    /// Begins a pass.
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

    /// Of the partitions that were noted last those in which something may begin.
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
