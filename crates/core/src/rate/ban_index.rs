//! The ban index: the banned keys of a policy, for ListBans.
//!
//! The bans of a policy are in other partitions, so the index cannot be written in the same atomic
//! step as a ban. It decides nothing: ListBans asks each key that it names. A server adds a ban
//! right after setting it, and again about once a minute while the key calls, in case the first
//! note was lost. Notes of two servers can arrive in either order, so the later end wins. A lifted
//! ban stays in the index until its end.

use std::collections::BTreeSet;

use crate::{Bin, State, incremental_map::IncrementalMap, persistence::Touched, time::Timestamp};

/// The banned keys of one policy.
#[derive(Debug, Default)]
pub struct BanIndex {
    /// The keys in order of the end of their ban.
    pub(super) by_end: BTreeSet<(Timestamp, Box<[u8]>)>,
    /// The end of the ban by key.
    pub(super) ends: IncrementalMap<Box<[u8]>, Timestamp>,
    /// The keys whose end has changed, for persistence.
    pub(super) touched: Touched,
}

impl BanIndex {
    /// Records the end of a key's ban, unless a later one is recorded.
    pub(super) fn insert(&mut self, key: &[u8], until: Timestamp) {
        match self.ends.get(key) {
            Some(noted) if *noted >= until => return,
            Some(noted) => {
                self.by_end.remove(&(*noted, key.into()));
            }
            None => {}
        }
        self.touched.note(&[key]);
        self.ends.insert(key.into(), until);
        self.by_end.insert((until, key.into()));
    }

    /// Removes ended bans, and the earliest ones above `most` entries. Removes at most `budget`
    /// entries; returns the number removed.
    pub(super) fn trim(&mut self, now: Timestamp, most: usize, budget: usize) -> usize {
        for dropped in 0..budget {
            let due = |until: Timestamp| until <= now || self.by_end.len() > most;
            match self.by_end.first() {
                Some(&(until, _)) if due(until) => {
                    let key = self.by_end.pop_first().map(|(_, key)| key);
                    if let Some(key) = key {
                        self.touched.note(&[&key]);
                        self.ends.remove(&key);
                    }
                }
                _ => return dropped,
            }
        }
        budget
    }
}

impl State for BanIndex {
    const CAPABILITY: &'static str = "bans";
    const IS_NAMED: bool = false;

    fn sweep(&mut self, now: Timestamp, budget: usize, _: &mut Bin) -> usize {
        self.trim(now, usize::MAX, budget)
    }

    fn is_vacant(&self, _: Timestamp) -> bool {
        self.by_end.is_empty()
    }
}
