//! The write batch: all changes of one transaction.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound::{Included, Unbounded},
};

use redb::{ReadableTable, StorageError};

use crate::decision::persistence::Change;

/// The last change of each key; earlier changes of a key are dropped.
#[derive(Debug, Default)]
pub(in super::super) struct WriteBatch {
    /// Prefixes whose entries are removed before the entries below are written. Sorted, so that the
    /// file depends on the decisions only.
    clear: BTreeSet<Box<[u8]>>,
    /// The new value of each key; `None` removes it.
    entries: BTreeMap<Box<[u8]>, Option<Box<[u8]>>>,
}

impl WriteBatch {
    /// Adds a change; the last change of a key counts.
    pub(in super::super) fn add(&mut self, change: Change<'_>) {
        match change {
            Change::Put(key, value) => self.set(key, Some(value.into())),
            Change::Remove(key) => self.set(key, None),
            Change::Clear(prefix) => {
                let begun = self.entries.range::<[u8], _>((Included(prefix), Unbounded));
                let begun = begun.take_while(|(key, _)| key.starts_with(prefix));
                let gone: Vec<_> = begun.map(|(key, _)| key.clone()).collect();
                gone.iter().for_each(|key| drop(self.entries.remove(key)));
                self.clear.insert(prefix.into());
            }
        }
    }

    fn set(&mut self, key: &[u8], value: Option<Box<[u8]>>) {
        match self.entries.get_mut(key) {
            Some(last) => *last = value,
            None => drop(self.entries.insert(key.into(), value)),
        }
    }

    /// Whether the batch contains no change.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of changes.
    pub(in super::super) fn len(&self) -> usize {
        self.clear.len() + self.entries.len()
    }

    /// Applies the batch to the table: first the cleared prefixes, then the entries.
    pub(super) fn apply(
        &self,
        table: &mut redb::Table<'_, &[u8], &[u8]>,
    ) -> Result<(), StorageError> {
        for prefix in &self.clear {
            let begun: Result<Vec<Vec<u8>>, StorageError> = table
                .range(&prefix[..]..)?
                .map(|entry| entry.map(|(key, _)| key.value().to_vec()))
                // An unreadable entry does not end the range: it fails the write.
                .take_while(|key| key.as_ref().map_or(true, |key| key.starts_with(prefix)))
                .collect();
            for key in begun? {
                table.remove(&key[..])?;
            }
        }
        for (key, value) in &self.entries {
            match value {
                Some(value) => drop(table.insert(&key[..], &value[..])?),
                None => drop(table.remove(&key[..])?),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_on_an_entry_counts() {
        let mut batch = WriteBatch::default();
        let add = |batch: &mut WriteBatch, changes: &[Change<'_>]| {
            changes.iter().for_each(|change| batch.add(*change));
        };
        add(&mut batch, &[Change::Put(b"a1", b"x"), Change::Put(b"b1", b"x")]);
        add(&mut batch, &[Change::Put(b"a2", b"x"), Change::Remove(b"b2")]);
        add(&mut batch, &[Change::Clear(b"a"), Change::Put(b"a2", b"y"), Change::Put(b"b1", b"y")]);
        add(&mut batch, &[Change::Put(b"b3", b"x"), Change::Remove(b"b3")]);
        let entries: Vec<(&[u8], Option<&[u8]>)> =
            batch.entries.iter().map(|(key, value)| (&**key, value.as_deref())).collect();
        let expected: [(&[u8], Option<&[u8]>); 4] =
            [(b"a2", Some(b"y")), (b"b1", Some(b"y")), (b"b2", None), (b"b3", None)];
        assert_eq!(entries, expected);
        assert_eq!(batch.clear.iter().map(|prefix| &**prefix).collect::<Vec<_>>(), [b"a"]);
        assert_eq!(batch.len(), 5);
    }
}
