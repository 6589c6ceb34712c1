//! A map whose entries expire: the replay cache, which stores answers for repeats of a
//! `request_id`, and records that must outlive the thing they describe.

use std::collections::BTreeSet;

use serde::{Serialize, de::DeserializeOwned};

use crate::decision::{
    incremental_map::IncrementalMap,
    persistence::{Changes, Touched, Unreadable, decode},
    time::Timestamp,
};

/// Above this many entries, inserts also remove expired entries.
const MANY: usize = 1000;

/// A map from names to values, each with an expiry time.
///
/// The map is behind a pointer: a state without entries pays only for that, and there may be a
/// million states.
#[derive(Debug)]
pub(crate) struct Memory<A> {
    /// Never an empty map: `None` instead.
    kept: Option<Box<Kept<A>>>,
    touched: Touched,
}

#[derive(Debug)]
struct Kept<A> {
    things: IncrementalMap<Box<[u8]>, (Timestamp, A)>,
    /// The same entries by expiry time.
    by_end: BTreeSet<(Timestamp, Box<[u8]>)>,
}

impl<A> Default for Memory<A> {
    fn default() -> Memory<A> {
        Memory { kept: None, touched: Touched::default() }
    }
}

impl<A> Memory<A> {
    /// The value of a name, unless it has expired.
    pub(crate) fn get(&self, name: &[u8], now: Timestamp) -> Option<&A> {
        let (forget, what) = self.kept.as_ref()?.things.get(name)?;
        (*forget > now).then_some(what)
    }

    /// The expiry time and the value of a name, unless it has expired: the stored entry.
    pub(crate) fn entry(&self, name: &[u8], now: Timestamp) -> Option<&(Timestamp, A)> {
        self.kept.as_ref()?.things.get(name).filter(|(forget, _)| *forget > now)
    }

    /// Inserts or replaces a value that expires at `forget`. Above 1,000 entries, each insert also
    /// removes up to two expired ones, so that fast callers cannot grow the map faster than it
    /// shrinks.
    pub(crate) fn keep(&mut self, name: &[u8], what: A, forget: Timestamp, now: Timestamp) {
        if self.kept.as_ref().is_some_and(|kept| kept.things.len() > MANY) {
            self.sweep(now, 2);
        }
        let empty =
            || Box::new(Kept { things: IncrementalMap::default(), by_end: BTreeSet::new() });
        self.touched.note(&[name]);
        let kept = self.kept.get_or_insert_with(empty);
        if let Some((earlier, _)) = kept.things.insert(name.into(), (forget, what)) {
            kept.by_end.remove(&(earlier, name.into()));
        }
        kept.by_end.insert((forget, name.into()));
    }

    /// Removes up to `budget` expired entries. Returns the number of removed entries.
    pub(crate) fn sweep(&mut self, now: Timestamp, budget: usize) -> usize {
        let Some(kept) = &mut self.kept else { return 0 };
        let mut dropped = 0;
        while dropped < budget {
            let over = kept.by_end.first().is_some_and(|(forget, _)| *forget <= now);
            let Some((_, name)) = over.then(|| kept.by_end.pop_first()).flatten() else { break };
            self.touched.note(&[&name]);
            kept.things.remove(&name);
            dropped += 1;
        }
        self.kept.take_if(|kept| kept.things.is_empty());
        dropped
    }

    /// Whether the map has no entries. Expired ones count until they are removed.
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_none()
    }

    /// Starts to record changed names, for persistence.
    pub(crate) fn note_changes(&mut self) {
        self.touched.begin();
    }
}

impl<A: Serialize + DeserializeOwned> Memory<A> {
    /// Appends the changes since the last call to the write batch, as parts with this letter.
    pub(crate) fn drain(&mut self, letter: u8, to: &mut Changes) {
        for name in self.touched.take() {
            match self.kept.as_ref().and_then(|kept| kept.things.get(&name)) {
                Some(thing) => to.put(&[&[letter], &name], thing),
                None => to.remove(&[&[letter], &name]),
            }
        }
    }

    /// Restores one persisted entry. Call [`Memory::restored`] after the last one.
    pub(crate) fn restore(&mut self, name: &[u8], value: &[u8]) -> Result<(), Unreadable> {
        let empty =
            || Box::new(Kept { things: IncrementalMap::default(), by_end: BTreeSet::new() });
        let kept = self.kept.get_or_insert_with(empty);
        kept.things.insert(name.into(), decode(value)?);
        Ok(())
    }

    /// Rebuilds the expiry order. Sorting all entries at once is faster than one insert for each.
    pub(crate) fn restored(&mut self) {
        let Some(kept) = &mut self.kept else { return };
        let ends = kept.things.iter().map(|(name, (forget, _))| (*forget, name.clone()));
        kept.by_end = ends.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_whose_time_is_over_go_with_those_that_come() {
        let mut memory = Memory::default();
        for now in 0..100_000u64 {
            let name = now.to_le_bytes();
            memory.keep(&name, now, Timestamp(now + 2000), Timestamp(now));
            assert_eq!(memory.get(&name, Timestamp(now + 1999)), Some(&now));
            assert_eq!(memory.get(&name, Timestamp(now + 2000)), None);
        }
        let kept = memory.kept.as_ref().map(|kept| (kept.things.len(), kept.by_end.len()));
        assert_eq!(kept, Some((2000, 2000)));
        // A replaced value leaves no expiry entry.
        memory.keep(b"x", 1, Timestamp(200_000), Timestamp(100_000));
        memory.keep(b"x", 2, Timestamp(300_000), Timestamp(100_000));
        assert_eq!(memory.get(b"x", Timestamp(250_000)), Some(&2));
        memory.sweep(Timestamp(300_000), 10_000);
        assert!(memory.is_empty());
    }
}
