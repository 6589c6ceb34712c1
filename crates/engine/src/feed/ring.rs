//! A bounded buffer of a topic's last events, shared by all its watchers.
//!
//! The reader of the topic appends. Each watcher has a mark: the number of its next entry. Entries
//! that all watchers have read are dropped. A watcher that falls behind the bound misses its next
//! entry and is cut off.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::watch;

use super::position::{EventBatch, FeedEntry, Position};
use tollgate_core::error::Error;

/// The events that some watchers have not read yet.
#[derive(Debug)]
pub(super) struct Ring<N> {
    /// The number of the first entry; entries are numbered from the start of the feed.
    first: u64,
    /// The events, oldest first.
    entries: VecDeque<FeedEntry<N>>,
    /// The number of the last event read from each history.
    seen: Box<[u64]>,
    /// The number of the next entry of each watcher.
    marks: Vec<Weak<AtomicU64>>,
    /// The error that ends all watchers, once the feed has ended.
    ended: Option<Error>,
}

/// The position at which a watcher joined.
#[derive(Debug, Default)]
pub(super) struct RingStart {
    /// The number of the watcher's next entry; the ring drops entries below all marks.
    mark: Arc<AtomicU64>,
    /// The number of the last event that was read before from each history.
    seen: Box<[u64]>,
}

/// A watcher's access to the ring.
#[derive(Debug)]
pub(super) struct RingReader<N> {
    ring: watch::Receiver<Ring<N>>,
    joined: RingStart,
}

/// The result of looking for the next event.
#[derive(Debug)]
pub(super) enum Taken<N> {
    /// The next message for the watcher.
    Message(N),
    /// No new entry yet.
    Nothing,
    /// The watcher's next entry was dropped, because the watcher was too slow.
    Missed,
}

impl<N> Ring<N> {
    /// Creates an empty ring at this position of each history.
    pub(super) fn new(seen: &[u64]) -> Ring<N> {
        let (entries, marks) = (VecDeque::new(), Vec::new());
        Ring { first: 0, entries, seen: seen.into(), marks, ended: None }
    }

    /// Adds a watcher, which receives all entries from now on.
    pub(super) fn join(&mut self) -> RingStart {
        // Removes marks of watchers that have left. The cost is amortized: it is done only when the
        // number of marks is a power of two.
        if self.marks.len().is_power_of_two() {
            self.marks.retain(|mark| mark.strong_count() > 0);
        }
        let mark = Arc::new(AtomicU64::new(self.first + self.entries.len() as u64));
        self.marks.push(Arc::downgrade(&mark));
        RingStart { mark, seen: self.seen.clone() }
    }

    /// Appends a batch and keeps at most `most` entries. With `tells_gap`, watchers receive the
    /// message about its gap.
    pub(super) fn push(
        &mut self,
        batch: EventBatch<N>,
        tells_gap: bool,
        seen: &[u64],
        most: usize,
    ) {
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

    /// Drops the entries that all watchers have read, and the oldest ones if there are more than
    /// `most`.
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
        // Returns the memory that a slow watcher has kept in use.
        if self.entries.capacity() > 64 && self.entries.capacity() / 8 > self.entries.len() {
            self.entries.shrink_to(self.entries.len() * 2);
        }
    }

    /// Whether all entries were read.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Ends the ring. Only the first reason counts.
    pub(super) fn end(&mut self, why: Error) {
        self.ended.get_or_insert(why);
    }
}

impl<N: Clone> RingReader<N> {
    /// Creates a watcher's access, from the position at which it joined.
    pub(super) fn new(ring: watch::Receiver<Ring<N>>, joined: RingStart) -> RingReader<N> {
        RingReader { ring, joined }
    }

    /// Returns the number of the last event of each history that was read before the watcher
    /// joined.
    pub(super) fn joined(&self) -> &[u64] {
        &self.joined.seen
    }

    /// Removes and returns the next message that is ahead of `place`. Fails with the reason once
    /// the feed has ended.
    pub(super) fn take(&mut self, place: &mut Position) -> Result<Taken<N>, Error> {
        let ring = self.ring.borrow_and_update();
        if let Some(why) = &ring.ended {
            return Err(why.clone());
        }
        // The mark is below the ring's first entry if its entry was dropped.
        let mut next = self.joined.mark.load(Ordering::Relaxed);
        let Some(skip) = next.checked_sub(ring.first) else { return Ok(Taken::Missed) };
        for entry in ring.entries.iter().skip(skip as usize) {
            next += 1;
            if place.step(entry)
                && let Some(told) = &entry.told
            {
                self.joined.mark.store(next, Ordering::Relaxed);
                return Ok(Taken::Message(told.clone()));
            }
        }
        self.joined.mark.store(next, Ordering::Relaxed);
        Ok(Taken::Nothing)
    }

    /// Waits until the ring has changed since it was last read.
    pub(super) async fn changed(&mut self) -> Result<(), Error> {
        // The feed was dropped with its runtime.
        self.ring.changed().await.map_err(|_| Error::Ending)
    }

    /// Waits until the feed has ended, and returns the reason.
    pub(super) async fn ended(&self) -> Error {
        let mut ring = self.ring.clone();
        let ended = ring.wait_for(|ring| ring.ended.is_some()).await;
        ended.ok().and_then(|ring| ring.ended.clone()).unwrap_or(Error::Ending)
    }
}
