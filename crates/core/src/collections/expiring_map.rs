//! A map whose entries expire. It stores answers for repeats of a `request_id` (the replay cache),
//! and records that must outlive what they describe.

use std::collections::BTreeSet;

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    ENTRY_BYTES,
    collections::IncrementalMap,
    record::{Changes, Touched, Unreadable, decode},
    time::Timestamp,
};

/// Above this many entries, inserts also remove expired entries.
const MANY: usize = 1000;

/// A map from names to values, each with an expiry time.
///
/// The map is behind a pointer, which is all that a state without entries pays for; there may be a
/// million states.
#[derive(Debug)]
pub(crate) struct ExpiringMap<A> {
    /// `None` instead of an empty map.
    entries: Option<Box<Entries<A>>>,
    touched: Touched,
}

/// A value of an [`ExpiringMap`].
pub(crate) trait ExpiringValue {
    /// Returns the bytes of its strings and lists.
    fn bytes(&self) -> u64 {
        0
    }
}

#[derive(Debug)]
struct Entries<A> {
    map: IncrementalMap<Box<[u8]>, (Timestamp, A)>,
    /// The same entries by expiry time.
    by_end: BTreeSet<(Timestamp, Box<[u8]>)>,
    /// The bytes of all entries.
    bytes: u64,
}

impl<A> Default for Entries<A> {
    fn default() -> Entries<A> {
        Entries { map: IncrementalMap::default(), by_end: BTreeSet::new(), bytes: 0 }
    }
}

impl<A: ExpiringValue> Entries<A> {
    /// Inserts or replaces a value. Returns the expiry time of the value before.
    fn insert(&mut self, name: &[u8], value: (Timestamp, A)) -> Option<Timestamp> {
        self.bytes += cost(name, &value.1);
        let (earlier, was) = self.map.insert(name.into(), value)?;
        self.bytes -= cost(name, &was);
        Some(earlier)
    }
}

/// Returns the bytes of an entry.
fn cost(name: &[u8], value: &impl ExpiringValue) -> u64 {
    ENTRY_BYTES + name.len() as u64 + value.bytes()
}

impl<A> Default for ExpiringMap<A> {
    fn default() -> ExpiringMap<A> {
        ExpiringMap { entries: None, touched: Touched::default() }
    }
}

impl<A: ExpiringValue> ExpiringMap<A> {
    /// Returns the bytes of all entries: of names and values, and [`ENTRY_BYTES`] for each.
    pub(crate) fn bytes(&self) -> u64 {
        self.entries.as_ref().map_or(0, |entries| entries.bytes)
    }

    /// Returns the value of a name, unless it has expired.
    pub(crate) fn get(&self, name: &[u8], now: Timestamp) -> Option<&A> {
        let (forget, value) = self.entries.as_ref()?.map.get(name)?;
        (*forget > now).then_some(value)
    }

    /// Returns the expiry time and the value of a name, unless it has expired: the stored entry.
    pub(crate) fn entry(&self, name: &[u8], now: Timestamp) -> Option<&(Timestamp, A)> {
        self.entries.as_ref()?.map.get(name).filter(|(forget, _)| *forget > now)
    }

    /// Inserts or replaces a value that expires at `forget`. Above 1,000 entries, each insert also
    /// removes up to two expired ones, so that fast callers cannot grow the map faster than it
    /// shrinks.
    pub(crate) fn insert(&mut self, name: &[u8], value: A, forget: Timestamp, now: Timestamp) {
        if self.entries.as_ref().is_some_and(|entries| entries.map.len() > MANY) {
            self.sweep(now, 2);
        }
        self.touched.record(&[name]);
        let entries = self.entries.get_or_insert_default();
        if let Some(earlier) = entries.insert(name, (forget, value)) {
            entries.by_end.remove(&(earlier, name.into()));
        }
        entries.by_end.insert((forget, name.into()));
    }

    /// Removes up to `budget` expired entries. Returns the number of removed entries.
    pub(crate) fn sweep(&mut self, now: Timestamp, budget: usize) -> usize {
        let Some(entries) = &mut self.entries else { return 0 };
        let mut dropped = 0;
        while dropped < budget {
            let over = entries.by_end.first().is_some_and(|(forget, _)| *forget <= now);
            let Some((_, name)) = over.then(|| entries.by_end.pop_first()).flatten() else { break };
            self.touched.record(&[&name]);
            if let Some((_, value)) = entries.map.remove(&name) {
                entries.bytes -= cost(&name, &value);
            }
            dropped += 1;
        }
        self.entries.take_if(|entries| entries.map.is_empty());
        dropped
    }

    /// Whether the map has no entries. Expired ones count until they are removed.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_none()
    }

    /// Starts to record changed names, for persistence.
    pub(crate) fn track_changes(&mut self) {
        self.touched.begin();
    }
}

impl<A: ExpiringValue + Serialize + DeserializeOwned> ExpiringMap<A> {
    /// Appends the changes since the last call to the write batch, as parts with this letter.
    pub(crate) fn drain(&mut self, letter: u8, to: &mut Changes) {
        for name in self.touched.drain() {
            match self.entries.as_ref().and_then(|entries| entries.map.get(&name)) {
                Some(thing) => to.put(&[&[letter], &name], thing),
                None => to.remove(&[&[letter], &name]),
            }
        }
    }

    /// Restores one persisted entry. Call [`ExpiringMap::restored`] after the last one.
    pub(crate) fn restore(&mut self, name: &[u8], value: &[u8]) -> Result<(), Unreadable> {
        self.entries.get_or_insert_default().insert(name, decode(value)?);
        Ok(())
    }

    /// Rebuilds the expiry order. Sorting all entries at once is faster than one insert for each.
    pub(crate) fn restored(&mut self) {
        let Some(entries) = &mut self.entries else { return };
        let ends = entries.map.iter().map(|(name, (forget, _))| (*forget, name.clone()));
        entries.by_end = ends.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl ExpiringValue for u64 {}

    #[test]
    fn inserting_evicts_expired_entries() {
        let mut memory = ExpiringMap::default();
        for now in 0..100_000u64 {
            let name = now.to_le_bytes();
            memory.insert(&name, now, Timestamp(now + 2000), Timestamp(now));
            assert_eq!(memory.get(&name, Timestamp(now + 1999)), Some(&now));
            assert_eq!(memory.get(&name, Timestamp(now + 2000)), None);
        }
        let entries =
            memory.entries.as_ref().map(|entries| (entries.map.len(), entries.by_end.len()));
        assert_eq!(entries, Some((2000, 2000)));
        assert_eq!(memory.bytes(), 2000 * (ENTRY_BYTES + 8));
        // A replaced value leaves no expiry entry.
        memory.insert(b"x", 1, Timestamp(200_000), Timestamp(100_000));
        memory.insert(b"x", 2, Timestamp(300_000), Timestamp(100_000));
        assert_eq!(memory.get(b"x", Timestamp(250_000)), Some(&2));
        assert!(memory.bytes() < 2001 * (ENTRY_BYTES + 8));
        memory.sweep(Timestamp(300_000), 10_000);
        assert!(memory.is_empty());
        assert_eq!(memory.bytes(), 0);
    }
}
