//! Which keys of a policy are banned, for ListBans.
//!
//! A policy's bans lie in partitions of their own, so the index cannot be
//! written in the same atomic step as a ban. It decides nothing: each key that
//! it names is asked. A server notes a ban right after it, and, should that get
//! lost, within a minute or so of further calls of the key. Notes of two servers
//! may arrive in either order, so the later end stands, and a ban that is lifted
//! stays noted until then.

use std::collections::BTreeSet;

use crate::{
    decision::{Bin, State},
    parted::Parted,
    record::Touched,
    time::Timestamp,
};

/// Banned keys by the end of their ban.
#[derive(Debug, Default)]
pub struct BanIndex {
    pub(super) by_end: BTreeSet<(Timestamp, Box<[u8]>)>,
    pub(super) ends: Parted<Box<[u8]>, Timestamp>,
    /// Keys whose end has changed, where the index is kept over a restart.
    pub(super) touched: Touched,
}

impl BanIndex {
    /// Notes the end of a key's ban, or leaves a later one.
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

    /// Drops those whose ban has ended, and the first to end beyond `most`; at
    /// most `budget`.
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

    fn sweep(&mut self, now: Timestamp, budget: usize, _: &mut Bin) -> usize {
        self.trim(now, usize::MAX, budget)
    }

    fn is_vacant(&self, _: Timestamp) -> bool {
        self.by_end.is_empty()
    }
}
