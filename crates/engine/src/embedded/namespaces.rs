//! The partitions of each namespace.
//!
//! The tables of the shards contain the partitions of all namespaces, in no particular order. This
//! registry contains the listed partitions of each namespace in order, so that a listing reads no
//! others. It also counts the named partitions of all kinds, for `names_max`.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Bound,
    sync::atomic::{AtomicU64, Ordering},
};

use ahash::RandomState;
use parking_lot::Mutex;

use super::tables::Tabled;
use tollgate_core::names::Namespace;

/// The registry. Its mutexes are locked after a shard's mutex, never before it.
#[derive(Debug, Default)]
pub(super) struct Namespaces {
    others: Mutex<HashMap<Box<[u8]>, Names, RandomState>>,
    /// The listed partitions of the default namespace.
    default: Mutex<Listed>,
    /// The number of partitions of the default namespace, except for histories and indexes. Most of
    /// them are not listed, and need no mutex.
    default_count: AtomicU64,
}

/// The partitions that listings show, by kind and name.
type Listed = BTreeSet<(u8, Box<[u8]>)>;

/// The partitions of one namespace.
#[derive(Debug, Default)]
struct Names {
    /// The number of partitions of all kinds, without histories and indexes.
    count: u64,
    listed: Listed,
}

impl Namespaces {
    /// Registers a new partition. Returns false, without registering it, if its namespace has
    /// `most` or more.
    pub(super) fn add<S: Tabled>(&self, partition: &[u8], most: Option<u32>) -> bool {
        let has_room = |count: u64| most.is_none_or(|most| count < most.into());
        let namespace = match Namespace::split(partition).0 {
            _ if !S::IS_NAMED => return true,
            [] => {
                if !has_room(self.default_count.fetch_add(1, Ordering::Relaxed)) {
                    self.default_count.fetch_sub(1, Ordering::Relaxed);
                    return false;
                }
                if S::IS_LISTED {
                    self.default.lock().insert((S::KIND, partition.into()));
                }
                return true;
            }
            namespace => namespace,
        };
        let mut all = self.others.lock();
        // Does not use `entry`, which needs an owned key even for a known namespace.
        if !all.contains_key(namespace) {
            all.insert(namespace.into(), Names::default());
        }
        let Some(names) = all.get_mut(namespace) else { return true };
        if !has_room(names.count) {
            return false;
        }
        names.count += 1;
        if S::IS_LISTED {
            names.listed.insert((S::KIND, partition.into()));
        }
        true
    }

    /// Removes a partition.
    pub(super) fn remove<S: Tabled>(&self, partition: &[u8]) {
        let namespace = match Namespace::split(partition).0 {
            _ if !S::IS_NAMED => return,
            [] => {
                self.default_count.fetch_sub(1, Ordering::Relaxed);
                if S::IS_LISTED {
                    self.default.lock().remove(&(S::KIND, partition.into()));
                }
                return;
            }
            namespace => namespace,
        };
        let mut all = self.others.lock();
        let Some(names) = all.get_mut(namespace) else { return };
        names.count -= 1;
        if S::IS_LISTED {
            names.listed.remove(&(S::KIND, partition.into()));
        }
        if names.count == 0 {
            all.remove(namespace);
        }
    }

    /// Returns the names of a namespace in byte order, at most `limit`, after this one.
    pub(super) fn list<S: Tabled>(
        &self,
        namespace: &Namespace,
        limit: usize,
        after: &[u8],
    ) -> Vec<Box<[u8]>> {
        let after = Bound::Excluded((S::KIND, after.into()));
        let end = Bound::Excluded((S::KIND + 1, Box::default()));
        let list = |listed: &Listed| {
            let names = listed.range((after, end)).take(limit);
            names.map(|(_, name)| name.clone()).collect()
        };
        if namespace.is_default() {
            return list(&self.default.lock());
        }
        let all = self.others.lock();
        all.get(namespace.as_str().as_bytes()).map_or_else(Vec::new, |names| list(&names.listed))
    }
}
