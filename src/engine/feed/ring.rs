//! The last events of a topic, from which all its watchers take.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::watch;

use super::place::{Batch, Entry, Place};
use crate::error::Error;

/// The events that some watcher has not taken yet.
#[derive(Debug)]
pub(super) struct Ring<N> {
    /// How many entries have left the ring: the first one's number in it.
    first: u64,
    entries: VecDeque<Entry<N>>,
    /// What was read of each history.
    seen: Box<[u64]>,
    /// The number of the entry that each watcher takes next.
    marks: Vec<Weak<AtomicU64>>,
    /// Why nothing more comes.
    ended: Option<Error>,
}

/// Where a watcher joined.
#[derive(Debug, Default)]
pub(super) struct Joined {
    mark: Arc<AtomicU64>,
    seen: Box<[u64]>,
}

/// A watcher's seat at a ring.
#[derive(Debug)]
pub(super) struct Seat<N> {
    ring: watch::Receiver<Ring<N>>,
    joined: Joined,
}

/// What a watcher finds in the ring.
#[derive(Debug)]
pub(super) enum Taken<N> {
    /// The next that it is told.
    Told(N),
    /// Nothing yet.
    Nothing,
    /// What it would take next has left the ring.
    Missed,
}

impl<N> Ring<N> {
    /// An empty ring, to which so much of each history was read.
    pub(super) fn new(seen: &[u64]) -> Ring<N> {
        let (entries, marks) = (VecDeque::new(), Vec::new());
        Ring { first: 0, entries, seen: seen.into(), marks, ended: None }
    }

    /// Where a watcher joins: it takes what comes from now on.
    pub(super) fn join(&mut self) -> Joined {
        // Watchers that have gone: once for as many as have come.
        if self.marks.len().is_power_of_two() {
            self.marks.retain(|mark| mark.strong_count() > 0);
        }
        let mark = Arc::new(AtomicU64::new(self.first + self.entries.len() as u64));
        self.marks.push(Arc::downgrade(&mark));
        Joined { mark, seen: self.seen.clone() }
    }

    /// Appends what was read; of a gap watchers are told or not. Keeps at most `most`
    /// entries.
    pub(super) fn push(&mut self, batch: Batch<N>, tells_gap: bool, seen: &[u64], most: usize) {
        if let Some(gap) = batch.gap {
            self.entries.extend(gap.resets);
            if let Some(last) = self.entries.back_mut().filter(|_| tells_gap) {
                last.told = Some(gap.told);
            }
        }
        self.entries.extend(batch.entries);
        self.seen = seen.into();
        self.trim(most);
    }

    /// Drops what every watcher has taken, and the first ones beyond `most`.
    pub(super) fn trim(&mut self, most: usize) {
        let end = self.first + self.entries.len() as u64;
        let mut least = end;
        self.marks.retain(|mark| {
            let Some(mark) = mark.upgrade() else { return false };
            least = least.min(mark.load(Ordering::Relaxed));
            true
        });
        let from = least.max(end.saturating_sub(most as u64)).max(self.first);
        self.entries.drain(..(from - self.first) as usize);
        self.first = from;
        // What a slow watcher has left empty is given back.
        if self.entries.capacity() > 64 && self.entries.capacity() / 8 > self.entries.len() {
            self.entries.shrink_to(self.entries.len() * 2);
        }
    }

    /// Whether every entry was taken.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Ends it; the first reason stands.
    pub(super) fn end(&mut self, why: Error) {
        self.ended.get_or_insert(why);
    }
}

impl<N: Clone> Seat<N> {
    pub(super) fn new(ring: watch::Receiver<Ring<N>>, joined: Joined) -> Seat<N> {
        Seat { ring, joined }
    }

    /// What had been read of each history when it joined.
    pub(super) fn joined(&self) -> &[u64] {
        &self.joined.seen
    }

    /// Takes the next that is ahead of a place; the error is why nothing more comes.
    pub(super) fn take(&mut self, place: &mut Place) -> Result<Taken<N>, Error> {
        let ring = self.ring.borrow_and_update();
        if let Some(why) = &ring.ended {
            return Err(why.clone());
        }
        let mut next = self.joined.mark.load(Ordering::Relaxed);
        let Some(skip) = next.checked_sub(ring.first) else { return Ok(Taken::Missed) };
        for entry in ring.entries.iter().skip(skip as usize) {
            next += 1;
            if place.step(entry)
                && let Some(told) = &entry.told
            {
                self.joined.mark.store(next, Ordering::Relaxed);
                return Ok(Taken::Told(told.clone()));
            }
        }
        self.joined.mark.store(next, Ordering::Relaxed);
        Ok(Taken::Nothing)
    }

    /// Returns once the ring has changed since the last look at it.
    pub(super) async fn changed(&mut self) -> Result<(), Error> {
        // The feed has gone without a word, with its runtime.
        self.ring.changed().await.map_err(|_| Error::Ending)
    }

    /// Returns when nothing more comes, and why.
    pub(super) async fn ended(&self) -> Error {
        let mut ring = self.ring.clone();
        let ended = ring.wait_for(|ring| ring.ended.is_some()).await;
        ended.ok().and_then(|ring| ring.ended.clone()).unwrap_or(Error::Ending)
    }
}
