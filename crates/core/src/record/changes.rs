//! Write batches: the changes of decisions, encoded in one buffer.
//!
//! Changes share one allocation, because the persistence thread frees it. Memory
//! freed by another thread is reclaimed by the allocating thread, block by block. For 100,000
//! changes that took milliseconds in the middle of a decision.

use std::iter::from_fn;

use serde::Serialize;

use super::{Recorded, encode};
use crate::names::Namespace;

/// Buffer size that a shard retains between decisions, in bytes. Small, because there are about a
/// thousand shards.
const KEPT_BYTES: usize = 8 << 10;

/// A change of one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// Sets the value of a key.
    Put(&'a [u8], &'a [u8]),
    /// Sets the value of a key that has never been set. If the key is removed before it was written,
    /// nothing is written.
    Insert(&'a [u8], &'a [u8]),
    /// Removes a key.
    Remove(&'a [u8]),
    /// Removes all keys with this prefix.
    Clear(&'a [u8]),
}

impl Change<'_> {
    /// Returns the number of bytes of the encoded change.
    pub fn size(&self) -> usize {
        let (key, value): (&[u8], &[u8]) = match self {
            Change::Put(key, value) | Change::Insert(key, value) => (key, value),
            Change::Remove(key) | Change::Clear(key) => (key, &[]),
        };
        1 + 2 * LENGTH + key.len() + value.len()
    }
}

/// A write batch: changes in order. Each is encoded as a letter, the lengths of key and value (4 bytes
/// each, little-endian), the key and the value. The log of a data directory contains this encoding.
#[derive(Debug, Default)]
pub struct Row {
    bytes: Vec<u8>,
    /// The end of the last complete change. Bytes after it belong to a value whose encoder
    /// panicked.
    end: usize,
    len: usize,
}

const PUT: u8 = b'p';
const INSERT: u8 = b'i';
const REMOVE: u8 = b'r';
const CLEAR: u8 = b'c';
const LENGTH: usize = size_of::<u32>();

impl Row {
    /// Creates an empty batch with space for this many bytes.
    pub fn with_capacity(bytes: usize) -> Row {
        Row { bytes: Vec::with_capacity(bytes), ..Row::default() }
    }

    /// Returns the number of changes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of bytes of the changes.
    pub fn size(&self) -> usize {
        self.end
    }

    /// Returns the size of the buffer in bytes.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Appends the changes of another batch.
    pub fn append(&mut self, later: &Row) {
        self.bytes.truncate(self.end);
        self.bytes.extend_from_slice(&later.bytes[..later.end]);
        self.end = self.bytes.len();
        self.len += later.len;
    }

    /// Returns the changes, in order.
    pub fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        decode_changes(self.bytes())
    }

    /// Returns the encoded changes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.end]
    }

    /// Appends one change; `value` appends its value. The change counts only once `value` returns.
    fn push(
        &mut self,
        letter: u8,
        partition: &[u8],
        part: &[&[u8]],
        value: impl FnOnce(&mut Vec<u8>),
    ) {
        let of_part: usize = part.iter().map(|bytes| bytes.len()).sum();
        self.bytes.truncate(self.end);
        self.bytes.push(letter);
        self.bytes.extend_from_slice(&length_of(partition.len() + of_part));
        let length = self.bytes.len();
        self.bytes.extend_from_slice(&[0; LENGTH]);
        self.bytes.extend_from_slice(partition);
        part.iter().for_each(|bytes| self.bytes.extend_from_slice(bytes));
        let begin = self.bytes.len();
        value(&mut self.bytes);
        let of_value = self.bytes.len() - begin;
        self.bytes[length..length + LENGTH].copy_from_slice(&length_of(of_value));
        self.end = self.bytes.len();
        self.len += 1;
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        (self.end, self.len) = (0, 0);
    }
}

/// Returns the changes of an encoded batch, in order.
pub fn decode_changes(mut rest: &[u8]) -> impl Iterator<Item = Change<'_>> {
    from_fn(move || {
        let (letter, lengths) = rest.split_first()?;
        let (of_key, lengths) = lengths.split_first_chunk::<LENGTH>()?;
        let (of_value, both) = lengths.split_first_chunk::<LENGTH>()?;
        let (key, behind) = both.split_at_checked(u32::from_le_bytes(*of_key) as usize)?;
        let (value, next) = behind.split_at_checked(u32::from_le_bytes(*of_value) as usize)?;
        rest = next;
        Some(match *letter {
            PUT => Change::Put(key, value),
            INSERT => Change::Insert(key, value),
            REMOVE => Change::Remove(key),
            CLEAR => Change::Clear(key),
            _ => return None,
        })
    })
}

/// Returns the encoded length of a key or a value. Both are bounded by the size of a request.
fn length_of(bytes: usize) -> [u8; LENGTH] {
    u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes()
}

/// Collects the changes of decisions into a write batch.
#[derive(Debug, Default)]
pub struct Changes {
    /// The kind of state, the length of the partition, and the partition.
    partition: Vec<u8>,
    /// The namespace of an imported line, with which the partitions begin.
    prefix: Vec<u8>,
    row: Row,
}

impl Changes {
    /// Puts the partitions of the following changes into this namespace: lines of an export name
    /// partitions without it.
    pub fn within(&mut self, namespace: &Namespace) {
        self.prefix = namespace.prefix().to_vec();
    }

    /// Sets the partition of the following changes.
    pub fn set_partition<S: Recorded>(&mut self, partition: &[u8]) {
        self.partition.clear();
        // A partition has at most two names, a namespace and a few bytes.
        let length = u16::try_from(self.prefix.len() + partition.len()).unwrap_or(u16::MAX);
        self.partition.push(S::KIND);
        self.partition.extend_from_slice(&length.to_be_bytes());
        self.partition.extend_from_slice(&self.prefix);
        self.partition.extend_from_slice(partition);
    }

    /// Sets the head; removes it if `head` is empty.
    pub fn head(&mut self, head: &[u8]) {
        if head.is_empty() {
            self.remove(&[])
        } else {
            self.push(PUT, &[], |bytes| bytes.extend_from_slice(head))
        }
    }

    /// Sets the value of a part.
    pub fn put(&mut self, part: &[&[u8]], value: &impl Serialize) {
        self.push(PUT, part, |bytes| encode(value, bytes));
    }

    /// Sets the value of a part that has never been set.
    pub fn insert(&mut self, part: &[&[u8]], value: &impl Serialize) {
        self.push(INSERT, part, |bytes| encode(value, bytes));
    }

    /// Removes a part.
    pub fn remove(&mut self, part: &[&[u8]]) {
        self.push(REMOVE, part, |_| ());
    }

    /// Removes all parts with this prefix; with an empty prefix, the whole partition.
    pub fn clear(&mut self, part: &[&[u8]]) {
        self.push(CLEAR, part, |_| ());
    }

    /// Returns the collected write batch.
    pub fn row(&self) -> &Row {
        &self.row
    }

    /// Discards the collected changes.
    pub fn forget(&mut self) {
        self.row.clear();
    }

    fn push(&mut self, letter: u8, part: &[&[u8]], value: impl FnOnce(&mut Vec<u8>)) {
        self.row.push(letter, &self.partition, part, value);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::{
        lock::Lock,
        record::{VERSION, split_key},
    };

    #[test]
    fn changes_are_decoded_in_order() {
        let mut changes = Changes::default();
        changes.set_partition::<Lock>(b"a\x00b");
        changes.remove(&[b"x", b"name"]);
        changes.put(&[b"y"], &7u8);
        changes.head(b"head");
        let mut row = Row::with_capacity(8);
        row.append(changes.row());
        changes.forget();
        assert!(changes.row().is_empty());
        changes.set_partition::<Lock>(b"");
        changes.head(b"");
        changes.clear(&[]);
        row.append(changes.row());

        let (first, second) = ([&[Lock::KIND, 0, 3][..], b"a\x00b"].concat(), [Lock::KIND, 0, 0]);
        let [x, y] = [b"xname".as_slice(), b"y"].map(|part| [&first, part].concat());
        let there: Vec<Change<'_>> = row.iter().collect();
        let expected = [
            Change::Remove(&x),
            Change::Put(&y, &[VERSION, 7]),
            Change::Put(&first, b"head"),
            Change::Remove(&second),
            Change::Clear(&second),
        ];
        assert_eq!(there, expected);
        assert_eq!(row.len(), 5);
        assert_eq!(split_key(&x), Some((Lock::KIND, &b"a\x00b"[..], &b"xname"[..])));
        assert_eq!(split_key(&x[..4]), None);
    }

    /// Writes something, then fails.
    struct Broken;

    impl Serialize for Broken {
        fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            (7u64, "text").serialize(to)?;
            Err(serde::ser::Error::custom("broken"))
        }
    }

    #[test]
    fn a_value_that_fails_to_encode_leaves_the_others_intact() {
        let mut changes = Changes::default();
        changes.put(&[b"x"], &7u8);
        changes.put(&[b"y"], &Broken);
        changes.put(&[b"z"], &8u8);
        let there: Vec<Change<'_>> = changes.row().iter().collect();
        let expected = [
            Change::Put(b"x", &[VERSION, 7]),
            Change::Put(b"y", &[]),
            Change::Put(b"z", &[VERSION, 8]),
        ];
        assert_eq!(there, expected);
    }

    /// Writes something, then panics.
    struct Torn;

    impl Serialize for Torn {
        fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            (7u64, "text").serialize(to)?;
            panic!("torn")
        }
    }

    #[test]
    fn a_value_whose_encoder_panics_leaves_the_others_intact() {
        let mut changes = Changes::default();
        let mut rows = [(); 2].map(|()| Row::default());
        changes.put(&[b"x"], &7u8);
        let put = AssertUnwindSafe(|| changes.put(&[b"y"], &Torn));
        assert!(catch_unwind(put).is_err());
        rows[0].append(changes.row());
        changes.put(&[b"z"], &8u8);
        rows[1].append(changes.row());
        let (x, z) = (Change::Put(b"x", &[VERSION, 7]), Change::Put(b"z", &[VERSION, 8]));
        assert_eq!(rows[0].iter().collect::<Vec<_>>(), [x]);
        assert_eq!(rows[1].iter().collect::<Vec<_>>(), [x, z]);
        assert_eq!(rows.map(|row| row.len()), [1, 2]);
    }

    #[test]
    fn a_large_buffer_is_not_retained() {
        let mut changes = Changes::default();
        changes.head(&vec![1; 3 * KEPT_BYTES]);
        changes.forget();
        assert!(changes.row().capacity() <= KEPT_BYTES);
    }
}
