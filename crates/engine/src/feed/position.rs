//! A position in the histories of a topic, and reading from there.

use std::time::Instant;

use super::{Engine, Topic};
use tollgate_core::{
    collections::{After, EventPage},
    error::Error,
};

/// The position up to which the histories of a topic were read.
#[derive(Debug, Clone)]
pub(super) struct Position {
    /// The number of the last event seen in each history; 0 if it was empty.
    seen: Box<[u64]>,
    /// Whether nothing was read yet, in which case 0 means the oldest stored event.
    is_new: bool,
}

/// A step in one history: an event, or a jump over missing events.
#[derive(Debug, Clone)]
pub(super) struct FeedEntry<N> {
    /// The index of the history in its topic.
    history: usize,
    /// The number of the event in its history.
    number: u64,
    /// Whether the history continues here, even below the seen number.
    resets: bool,
    /// The message for watchers, if any.
    pub(super) told: Option<N>,
}

/// The result of a read.
#[derive(Debug)]
pub(super) struct EventBatch<N> {
    /// The gap before the events, if events are missing.
    pub(super) gap: Option<Gap<N>>,
    /// The events, in the order of their history.
    pub(super) entries: Vec<FeedEntry<N>>,
    /// Whether more events are stored.
    pub(super) has_more: bool,
}

/// Events that are missing because they are no longer stored.
#[derive(Debug)]
pub(super) struct Gap<N> {
    /// The positions at which the histories continue.
    pub(super) resets: Vec<FeedEntry<N>>,
    /// The message about the gap.
    pub(super) told: N,
    /// Whether all affected histories are empty now. A history expires after a day without events,
    /// so nothing may be missing.
    pub(super) may_be_lapse: bool,
}

type Pages<T> = Vec<EventPage<<T as Topic>::Event>>;

impl Position {
    /// Returns the position after all events so far.
    pub(super) async fn now<T: Topic>(
        engine: &Engine,
        topic: &T,
        deadline: Instant,
    ) -> Result<Position, Error> {
        let pages = ask(engine, topic, |_| None, 1, deadline).await?;
        let seen = pages.into_iter().map(|page| page.last).collect();
        Ok(Position { seen, is_new: false })
    }

    /// Returns the position before the oldest stored event.
    pub(super) fn oldest(histories: usize) -> Position {
        Position { seen: vec![0; histories].into(), is_new: true }
    }

    /// Returns the position after these events.
    pub(super) fn after(seen: Box<[u64]>) -> Position {
        Position { seen, is_new: false }
    }

    /// Returns the number of the last event seen in each history.
    pub(super) fn seen(&self) -> &[u64] {
        &self.seen
    }

    /// Whether all these events were seen.
    pub(super) fn covers(&self, seen: &[u64]) -> bool {
        self.seen.iter().zip(seen).all(|(ours, theirs)| ours >= theirs)
    }

    /// Moves the position by a step. Returns whether the step was ahead of the position.
    pub(super) fn step<N>(&mut self, entry: &FeedEntry<N>) -> bool {
        match self.seen.get_mut(entry.history) {
            Some(seen) if entry.resets || entry.number > *seen => {
                *seen = entry.number;
                true
            }
            _ => false,
        }
    }

    /// Reads the next events, at most about `most`, divided among the histories.
    pub(super) async fn read_on<T: Topic>(
        &mut self,
        engine: &Engine,
        topic: &T,
        most: usize,
        deadline: Instant,
    ) -> Result<EventBatch<T::Message>, Error> {
        let seen = |history: usize| self.seen.get(history).copied();
        let pages = ask(engine, topic, seen, most.div_ceil(T::HISTORIES), deadline).await?;
        let gap = self.pass_gaps(topic, &pages);
        self.is_new = false;
        let has_more = pages.iter().any(has_more);
        let entries = in_order::<T>(pages).into_iter().map(|(history, number, event)| {
            let entry = FeedEntry { history, number, resets: false, told: None };
            self.step(&entry);
            FeedEntry { told: Some(topic.told(Some(event), &self.seen)), ..entry }
        });
        Ok(EventBatch { gap, entries: entries.collect(), has_more })
    }

    /// Moves to the positions where the histories continue.
    fn pass_gaps<T: Topic>(&mut self, topic: &T, pages: &Pages<T>) -> Option<Gap<T::Message>> {
        let (mut resets, mut may_be_lapse) = (Vec::new(), true);
        // Each history is checked separately, because one may have lost events while the others are
        // complete.
        for (history, page) in pages.iter().enumerate() {
            let seen = self.seen.get(history).copied().unwrap_or_default();
            // The history was empty and has started since then. Its number before the first event
            // is the time of that event, unless the first events were dropped.
            let lost_its_start = seen == 0
                && !self.is_new
                && page.events.first().is_some_and(|event| T::time(event).0 > page.after);
            if page.gap || lost_its_start {
                let reset = FeedEntry { history, number: page.after, resets: true, told: None };
                self.step(&reset);
                resets.push(reset);
                may_be_lapse &= page.last == 0;
            }
        }
        let told = || topic.told(None, &self.seen);
        (!resets.is_empty()).then(|| Gap { told: told(), resets, may_be_lapse })
    }
}

/// Reads the events after `seen` from every history, in one round trip.
async fn ask<T: Topic>(
    engine: &Engine,
    topic: &T,
    seen: impl Fn(usize) -> Option<u64>,
    limit: usize,
    deadline: Instant,
) -> Result<Pages<T>, Error> {
    let after = |history| After { number: seen(history), limit: limit as u32 };
    let reads: Vec<T::Read> =
        (0..T::HISTORIES).map(|history| topic.read(history, after(history))).collect();
    engine.store_all(&reads, deadline).await?.into_iter().collect()
}

/// Merges the events of all histories by time; each has its history and number. A history keeps its
/// order, whatever its clock did. If a history has more events than its page, later events of the
/// others wait for the next read.
fn in_order<T: Topic>(pages: Pages<T>) -> Vec<(usize, u64, T::Event)> {
    let (mut events, mut until) = (Vec::new(), u64::MAX);
    // Finds the end of the shortest page, because an incomplete history may have unread events
    // after `latest`.
    for (history, page) in pages.into_iter().enumerate() {
        let (mut latest, has_more) = (0, has_more(&page));
        for (number, event) in (page.after + 1..).zip(page.events) {
            latest = T::time(&event).0.max(latest);
            events.push((latest, (history, number, event)));
        }
        if has_more {
            until = until.min(latest);
        }
    }
    events.retain(|(time, _)| *time <= until);
    events.sort_by_key(|(time, _)| *time);
    events.into_iter().map(|(_, event)| event).collect()
}

/// Whether the history has more events than the page.
fn has_more<E>(page: &EventPage<E>) -> bool {
    page.after + (page.events.len() as u64) < page.last
}
