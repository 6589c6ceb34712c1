//! Estimates of the totals that a namespace has in Redis, for `names_max`, `leases_max`, `queued_max`
//! and `bytes_max`.
//!
//! The partitions of a namespace are spread over many hash slots, so no decision reads a total.
//! Each server counts from time to time, and adds the number of entries that it has admitted itself
//! since then. With several servers, each uses only its quota of the capacity that the last count
//! left. `docs/namespaces.md` says by how much a total can exceed its limit.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use tollgate_core::{Takes, time::monotonic};

/// How long a total is counted after the last call that may add to it.
const WANTED: Duration = Duration::from_secs(60);

/// What a total counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Total {
    /// Names with state.
    Names,
    /// Leases of pools.
    Leases,
    /// Queued tasks of pools.
    Queued,
    /// Bytes that callers store.
    Bytes,
}

impl From<Takes> for Total {
    fn from(takes: Takes) -> Total {
        match takes {
            Takes::Lease => Total::Leases,
            Takes::Queued => Total::Queued,
        }
    }
}

impl Total {
    /// All totals.
    pub(super) const ALL: [Total; 4] = [Total::Names, Total::Leases, Total::Queued, Total::Bytes];
}

/// The totals of one namespace.
#[derive(Debug, Default)]
pub(super) struct Tallies([Mutex<Tally>; 4]);

/// One total.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// The result of the last finished count.
    counted: u64,
    /// The number that this server has added since that count started.
    added: u64,
    /// The number that this server has added since the newest count started, whether it is finished
    /// or not.
    recent: u64,
    /// The number of counts that have been started.
    begun: u64,
    /// The value of `begun` when the last finished count started.
    base: u64,
    /// The time of the last call that may add to the total; `None` if the total is not wanted.
    asked: Option<Instant>,
}

/// One entry that a server has added to a total.
#[derive(Debug, Clone, Copy)]
pub struct Added {
    /// The number of counts that had been started when it was added.
    begun: u64,
}

impl Tallies {
    pub(super) fn tally(&self, total: Total) -> &Mutex<Tally> {
        &self.0[total as usize]
    }

    /// Whether any total is wanted.
    pub(super) fn are_wanted(&self) -> bool {
        self.0.iter().any(|tally| tally.lock().asked.is_some())
    }
}

impl Tally {
    /// Adds one, unless this server has used up its quota: the capacity that the last count left,
    /// divided among `servers`.
    pub(super) fn add(&mut self, most: u64, servers: u32) -> Option<Added> {
        self.add_many(1, most, servers)
    }

    /// Adds `more` under the same condition.
    pub(super) fn add_many(&mut self, more: u64, most: u64, servers: u32) -> Option<Added> {
        let reserved = more.saturating_mul(servers.max(1).into());
        let is_one = more == 1;
        let used = self.used(servers);
        if used >= most || !is_one && used.saturating_add(reserved) > most {
            return None;
        }
        self.added += more;
        self.recent += more;
        Some(Added { begun: self.begun })
    }

    /// Returns the used part of the limit: the last count plus, for each of `servers`, the number
    /// that this server has added since then. Makes the total wanted for the next minute.
    pub(super) fn used(&mut self, servers: u32) -> u64 {
        self.asked = Some(monotonic());
        self.counted.saturating_add(self.added.saturating_mul(servers.into()))
    }

    /// Undoes the addition of an entry that the store does not contain. Counts that started after
    /// the addition do not include it.
    pub(super) fn remove(&mut self, added: Added) {
        self.added -= u64::from(added.begun >= self.base).min(self.added);
        self.recent -= u64::from(added.begun == self.begun).min(self.recent);
    }

    /// Resets a total to 0 when its limit is removed.
    pub(super) fn forget(&mut self) {
        self.begin();
        self.end(0);
        self.asked = None;
    }

    /// Whether the total must be counted. Resets it to 0 after a minute without calls.
    pub(super) fn is_wanted(&mut self, now: Instant) -> bool {
        let Some(asked) = self.asked else { return false };
        if now.saturating_duration_since(asked) < WANTED {
            return true;
        }
        self.forget();
        false
    }

    /// Returns the result of the last finished count; 0 before the first one.
    pub(super) fn counted(&self) -> u64 {
        self.counted
    }

    /// Starts a count.
    pub(super) fn begin(&mut self) {
        self.begun += 1;
        self.recent = 0;
    }

    /// Finishes the count that was started last.
    pub(super) fn end(&mut self, counted: u64) {
        (self.counted, self.added, self.base) = (counted, self.recent, self.begun);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_never_exceeds_the_limit() {
        let mut tally = Tally::default();
        assert!(tally.add(2, 1).is_some());
        let second = tally.add(2, 1).unwrap();
        assert!(tally.add(2, 1).is_none());
        tally.remove(second);
        assert!(tally.add(2, 1).is_some());
        // An entry that is added while a count runs may be missing from its result.
        tally.begin();
        tally.end(1);
        assert!(tally.add(2, 1).is_some());
        assert!(tally.add(2, 1).is_none());
        tally.begin();
        assert!(tally.add(2, 1).is_none(), "an unfinished count changes nothing");
        tally.end(0);
        assert!(tally.add(2, 1).is_some());
    }

    #[test]
    fn servers_share_the_free_capacity() {
        let mut tally = Tally::default();
        tally.begin();
        tally.end(90);
        assert_eq!((0..100).filter(|_| tally.add(100, 3).is_some()).count(), 4);
        tally.begin();
        tally.end(99);
        assert_eq!((0..100).filter(|_| tally.add(100, 3).is_some()).count(), 1);
    }

    #[test]
    fn a_removed_entry_is_subtracted_only_from_counts_that_contain_it() {
        let mut tally = Tally::default();
        let before = tally.add(10, 1).unwrap();
        tally.begin();
        let during = tally.add(10, 1).unwrap();
        tally.end(1);
        assert_eq!((tally.counted, tally.added), (1, 1));
        // The count started after the addition, so the entry is not in `added`.
        tally.remove(before);
        assert_eq!(tally.added, 1);
        tally.remove(during);
        assert_eq!((tally.added, tally.recent), (0, 0));
    }

    #[test]
    fn a_total_is_forgotten_after_a_minute_without_calls() {
        let mut tally = Tally::default();
        let now = monotonic();
        assert!(!tally.is_wanted(now));
        assert!(tally.add(1, 1).is_some());
        assert!(tally.is_wanted(now));
        tally.begin();
        tally.end(1);
        assert!(tally.add(1, 1).is_none());
        assert!(!tally.is_wanted(monotonic() + WANTED));
        assert!(tally.add(1, 1).is_some());
    }
}
