//! The write batch: all changes of one transaction.

use std::collections::BTreeMap;

use ahash::RandomState;
use hashbrown::{HashMap, hash_map::EntryRef};
use redb::{ReadableTable, StorageError};

use tollgate_core::record::Change;

/// The last change of each key; earlier changes of a key are dropped.
#[derive(Debug, Default)]
pub(in super::super) struct WriteBatch {
    /// Prefixes whose entries are removed before the entries below are written, each with the
    /// number of the change that clears it.
    clear: BTreeMap<Box<[u8]>, u64>,
    /// The last change of each key.
    entries: HashMap<Vec<u8>, LastChange, RandomState>,
    /// The number of changes that were added.
    added: u64,
    /// The bytes of keys and values.
    bytes: usize,
}

#[derive(Debug)]
struct LastChange {
    /// The number of the change.
    number: u64,
    /// The new value; `None` removes the key.
    value: Option<Vec<u8>>,
    /// Whether the table cannot contain the key.
    is_new: bool,
}

impl WriteBatch {
    /// Adds a change, which replaces earlier changes of its key.
    pub(in super::super) fn add(&mut self, change: Change<'_>) {
        self.added += 1;
        match change {
            Change::Put(key, value) => self.set(key, Some(value), false),
            Change::Insert(key, value) => self.set(key, Some(value), true),
            Change::Remove(key) if self.entries.get(key).is_some_and(|entry| entry.is_new) => {
                let gone = self.entries.remove(key).and_then(|entry| entry.value);
                self.bytes -= key.len() + gone.map_or(0, |value| value.len());
            }
            Change::Remove(key) => self.set(key, None, false),
            Change::Clear(prefix) => {
                if self.clear.insert(prefix.into(), self.added).is_none() {
                    self.bytes += prefix.len();
                }
            }
        }
    }

    /// Records that a write of the batch has failed, so the table may contain all of it.
    pub(in super::super) fn record_failure(&mut self) {
        self.entries.values_mut().for_each(|entry| entry.is_new = false);
    }

    fn set(&mut self, key: &[u8], value: Option<&[u8]>, is_new: bool) {
        let number = self.added;
        self.bytes += value.map_or(0, <[u8]>::len);
        match self.entries.entry_ref(key) {
            EntryRef::Occupied(mut entry) => {
                let last = entry.get_mut();
                self.bytes -= last.value.as_ref().map_or(0, Vec::len);
                // A key that was removed in this batch may be in the table.
                last.number = number;
                last.is_new &= is_new;
                match (&mut last.value, value) {
                    // The new value is nearly always as long as the old one.
                    (Some(last), Some(value)) => {
                        last.clear();
                        last.extend_from_slice(value);
                    }
                    (last, value) => *last = value.map(<[u8]>::to_vec),
                }
            }
            EntryRef::Vacant(entry) => {
                self.bytes += key.len();
                let value = value.map(<[u8]>::to_vec);
                entry.insert(LastChange { number, value, is_new });
            }
        }
    }

    /// Whether the batch contains no change.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of changes.
    pub(in super::super) fn len(&self) -> usize {
        self.clear.len() + self.entries.len()
    }

    /// Returns the bytes of keys and values.
    pub(in super::super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the entries to write after all prefixes are cleared. They are sorted so that the
    /// file depends only on the decisions; sorting once costs a third of what a map that is always
    /// in order would.
    fn sorted(&self) -> Vec<(&[u8], &LastChange)> {
        let entries = self.entries.iter().map(|(key, entry)| (&**key, entry));
        let mut entries: Vec<(&[u8], &LastChange)> = entries.collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        if self.clear.is_empty() {
            return entries;
        }
        let mut is_cleared = vec![false; entries.len()];
        for (prefix, number) in &self.clear {
            let start = entries.partition_point(|(key, _)| *key < &**prefix);
            let begun = entries[start..].iter().take_while(|(key, _)| key.starts_with(prefix));
            for ((_, entry), is_cleared) in begun.zip(&mut is_cleared[start..]) {
                *is_cleared |= entry.number < *number;
            }
        }
        let kept = entries.into_iter().zip(is_cleared).filter(|(_, is_cleared)| !is_cleared);
        kept.map(|(entry, _)| entry).collect()
    }

    /// Applies the batch to the table: first the cleared prefixes, then the entries.
    pub(super) fn apply(
        &self,
        table: &mut redb::Table<'_, &[u8], &[u8]>,
    ) -> Result<(), StorageError> {
        for prefix in self.clear.keys() {
            let begun: Result<Vec<Vec<u8>>, StorageError> = table
                .range(&prefix[..]..)?
                .map(|entry| entry.map(|(key, _)| key.value().to_vec()))
                // An unreadable entry does not end the range, but fails the write.
                .take_while(|key| key.as_ref().map_or(true, |key| key.starts_with(prefix)))
                .collect();
            for key in begun? {
                table.remove(&key[..])?;
            }
        }
        for (key, entry) in self.sorted() {
            match &entry.value {
                Some(value) => drop(table.insert(key, &value[..])?),
                None => drop(table.remove(key)?),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_change_of_an_entry_counts() {
        let mut batch = WriteBatch::default();
        let add = |batch: &mut WriteBatch, changes: &[Change<'_>]| {
            changes.iter().for_each(|change| batch.add(*change));
        };
        add(&mut batch, &[Change::Put(b"a1", b"x"), Change::Put(b"b1", b"x")]);
        add(&mut batch, &[Change::Put(b"a2", b"x"), Change::Remove(b"b2")]);
        add(&mut batch, &[Change::Clear(b"a"), Change::Put(b"a2", b"y"), Change::Put(b"b1", b"y")]);
        add(&mut batch, &[Change::Put(b"b3", b"x"), Change::Remove(b"b3")]);
        add(&mut batch, &[Change::Insert(b"c1", b"x"), Change::Insert(b"c2", b"x")]);
        add(&mut batch, &[Change::Remove(b"c1")]);
        add(
            &mut batch,
            &[Change::Remove(b"c4"), Change::Insert(b"c4", b"x"), Change::Remove(b"c4")],
        );
        batch.record_failure();
        add(&mut batch, &[Change::Insert(b"c3", b"x"), Change::Remove(b"c2")]);
        let stored = batch
            .entries
            .iter()
            .map(|(key, entry)| key.len() + entry.value.as_ref().map_or(0, Vec::len));
        assert_eq!(batch.bytes(), stored.sum::<usize>() + 1);
        let sorted = batch.sorted();
        let entries: Vec<(&[u8], Option<&[u8]>)> =
            sorted.iter().map(|(key, entry)| (*key, entry.value.as_deref())).collect();
        let expected: [(&[u8], Option<&[u8]>); 7] = [
            (b"a2", Some(b"y")),
            (b"b1", Some(b"y")),
            (b"b2", None),
            (b"b3", None),
            (b"c2", None),
            (b"c3", Some(b"x")),
            (b"c4", None),
        ];
        assert_eq!(entries, expected);
        assert_eq!(batch.clear.keys().map(|prefix| &**prefix).collect::<Vec<_>>(), [b"a"]);
    }
}
