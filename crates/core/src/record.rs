//! Persistence: the entries of a state that survive a restart of the embedded engine.
//!
//! A state is written as one *head*, which is small, and *parts*: a task, an event, an order. A
//! decision changes a few parts, and only those are written. The cost of a decision therefore does
//! not depend on the size of its pool. Values that can be derived from the entries are not written;
//! they are rebuilt after a start. Tickets of waiting calls are not written either: they end with
//! the process, like the connections of their callers.
//!
//! A key is the kind, the length of the partition, the partition, and the part. A part is a letter
//! and a name; the part of the head is empty. A value is [`VERSION`] followed by the serde type in
//! postcard. The order of fields and variants is therefore part of the format: a change to one must
//! raise the version and still read the old one. The same types are in the lines of exports, so the
//! names of their fields are part of that format. `skip_serializing` would break postcard, so it is
//! the export writer that omits empty fields.

mod changes;
mod export;

use std::fmt;

use serde::{Serialize, de::DeserializeOwned};

use crate::{State, time::Timestamp};
pub use changes::{Change, Changes, Row, decode_changes};
pub use export::{Checked, Entry, EntryLine, Export, Exported, Import, Page, Parts, Source, Text};
pub(crate) use export::{text, unknown_letter};

/// The version of the value format.
pub const VERSION: u8 = 1;
/// The kind of entries that belong to no state, such as the clock's mark.
pub const META: u8 = 0;

/// A state that can be persisted.
pub trait Recorded: State + fmt::Debug {
    /// The first byte of its keys. Never reused for another kind of state.
    const KIND: u8;

    /// Whether its numbers are reserved ahead of their use, so that none repeats after a loss of the
    /// last changes.
    const RESERVES: bool = false;

    /// Starts to record changed parts. Called once, before the first decision.
    fn track_changes(&mut self) {}
    /// Appends the head; appends nothing if it equals the head of a fresh state.
    fn head(&self, _: &mut Vec<u8>) {}
    /// Appends the parts that changed since the last call.
    fn drain(&mut self, _: &mut Changes) {}
    /// Reserves further numbers, as a changed part, if most of the reserved ones are used. Called
    /// after each decision that changes the head, while unsynced answers may be lost.
    fn reserve_ahead(&mut self, _: Timestamp) {}
    /// Returns the number of the change that reserves the last number in use; 0 for none. The
    /// change must be synced before an answer reveals the number. `change` is the number of the
    /// changes that the decision has just made.
    fn reservation(&mut self, _change: u64) -> u64 {
        0
    }
    /// Restores one entry of a fresh state; an empty `part` is the head.
    fn restore(&mut self, part: &[u8], value: &[u8]) -> Result<(), Unreadable>;
    /// Rebuilds derived values after the last entry is restored.
    fn restored(&mut self) {}
}

/// An entry that cannot be read; the text says why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable(pub String);

/// Splits a key into kind, partition and part. `None` if the key is too short.
pub fn split_key(key: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (kind, rest) = key.split_first()?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let (partition, part) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
    Some((*kind, partition, part))
}

/// Splits a part into letter and name.
pub fn split_part(part: &[u8]) -> (u8, &[u8]) {
    part.split_first().map_or((0, part), |(letter, name)| (*letter, name))
}

/// Appends the encoded value.
pub fn encode(value: &impl Serialize, to: &mut Vec<u8>) {
    let begin = to.len();
    to.push(VERSION);
    // Writing to a Vec cannot fail, and lengths are known. If it did fail, the value would be
    // empty, and reading an empty value is an error.
    if postcard::to_extend(value, Appending(to)).is_err() {
        to.truncate(begin);
    }
}

/// Lets postcard extend a borrowed buffer; it requires an owned `Extend`.
struct Appending<'a>(&'a mut Vec<u8>);

impl Extend<u8> for Appending<'_> {
    fn extend<T: IntoIterator<Item = u8>>(&mut self, bytes: T) {
        self.0.extend(bytes);
    }
}

/// Decodes a value. Fails on another version and on trailing bytes.
pub fn decode<V: DeserializeOwned>(bytes: &[u8]) -> Result<V, Unreadable> {
    match bytes.split_first() {
        Some((&VERSION, rest)) => match postcard::take_from_bytes(rest) {
            Ok((value, [])) => Ok(value),
            Ok((_, rest)) => {
                Err(Unreadable(format!("{} unexpected bytes after the value", rest.len())))
            }
            Err(error) => Err(Unreadable(error.to_string())),
        },
        Some((version, _)) => Err(Unreadable(format!(
            "the value has format {version}, but this tollgate reads {VERSION}: use the newer \
             version that wrote it"
        ))),
        None => Err(Unreadable("the value is empty".to_owned())),
    }
}

/// Decodes the name of a part that is a number: 8 bytes, big-endian.
pub fn decode_number(name: &[u8]) -> Result<u64, Unreadable> {
    let bytes =
        name.try_into().map_err(|_| Unreadable("expected a number of 8 bytes".to_owned()))?;
    Ok(u64::from_be_bytes(bytes))
}

/// Returns the error for a part that the kind does not have.
pub fn unknown_part<T>(part: &[u8]) -> Result<T, Unreadable> {
    Err(Unreadable(format!(
        "unknown part {:?} of a key: a newer version may have written it",
        part.escape_ascii().to_string()
    )))
}

/// The names of changed entries. Records nothing before [`Touched::begin`], so that states without
/// persistence pay only for a pointer.
#[derive(Debug, Default)]
#[allow(
    clippy::box_collection,
    reason = "a million states that record nothing must not pay for \
    it"
)]
pub(crate) struct Touched(Option<Box<Vec<Box<[u8]>>>>);

impl Touched {
    /// Starts to record names.
    pub(crate) fn begin(&mut self) {
        self.0.get_or_insert_default();
    }

    /// Records a name, given in pieces.
    pub(crate) fn record(&mut self, parts: &[&[u8]]) {
        if let Some(names) = &mut self.0 {
            names.push(parts.concat().into());
        }
    }

    /// Returns the names recorded since the last call.
    pub(crate) fn drain(&mut self) -> Vec<Box<[u8]>> {
        self.0.as_mut().map(|names| std::mem::take(&mut **names)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_an_unknown_version_are_refused() {
        let mut bytes = Vec::new();
        encode(&(7u64, "text"), &mut bytes);
        assert_eq!(decode(&bytes), Ok((7u64, "text".to_owned())));
        assert!(decode::<(u64, String)>(&bytes[..bytes.len() - 1]).is_err());
        assert!(decode::<u64>(&bytes).is_err(), "bytes are left");
        assert!(decode::<(u64, String)>(&[]).is_err());
        bytes[0] = VERSION + 1;
        let error = decode::<(u64, String)>(&bytes).map_err(|Unreadable(why)| why);
        assert!(error.is_err_and(|why| why.contains("newer")));
    }
}
