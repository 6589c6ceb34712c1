//! What is kept of states over a restart: entries, each under a key of its own.
//!
//! A state is one *head*, which is small, and *parts*: a task, an event, an order. A
//! decision changes a few of them, and those alone are written: what a pool of a million
//! leases costs is what one of sixty costs. What can be derived from the entries is not
//! written: it is made anew when they are read. Nor are the places of calls that wait:
//! they end with the process, and their callers' connections with it.
//!
//! A key is the kind, the partition with its length before it, and the part, which is a
//! letter and a name; the head's part is empty. A value is [`VERSION`] and the type that
//! is written, by postcard: the order of a type's fields and variants is the format. Who
//! changes one raises the version and reads the old one.

mod changes;

use std::fmt;

use serde::{Serialize, de::DeserializeOwned};

use crate::decision::State;
pub use changes::{Change, Changes, Row};

/// The version of the form of values.
pub const VERSION: u8 = 1;
/// The kind of what is no state's.
pub const META: u8 = 0;

/// A state whose entries can be kept.
pub trait Recorded: State + fmt::Debug {
    /// Tells its entries apart from those of other kinds; never used again for another.
    const KIND: u8;

    /// What shares a mutex with a partition; see [`crate::decision::Decision::tag`].
    fn tag(partition: &[u8]) -> &[u8] {
        partition
    }
    /// Notes from now on which parts change.
    fn note_changes(&mut self) {}
    /// Appends the head; nothing if it is that of a fresh state.
    fn head(&self, _: &mut Vec<u8>) {}
    /// Appends what has changed of the parts since the last time.
    fn drain(&mut self, _: &mut Changes) {}
    /// Puts an entry back into a fresh state: the head if there is no part.
    fn restore(&mut self, part: &[u8], value: &[u8]) -> Result<(), Unreadable>;
    /// Derives what is not written, once all entries are back.
    fn restored(&mut self) {}
}

/// An entry that cannot be read; says what about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable(pub String);

/// Kind, partition and part of a key.
pub fn split_key(key: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (kind, rest) = key.split_first()?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let (partition, part) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
    Some((*kind, partition, part))
}

/// Letter and name of a part.
pub fn split_part(part: &[u8]) -> (u8, &[u8]) {
    part.split_first().map_or((0, part), |(letter, name)| (*letter, name))
}

/// Appends a value.
pub fn encode(value: &impl Serialize, to: &mut Vec<u8>) {
    let begin = to.len();
    to.push(VERSION);
    // Writing to a Vec cannot fail, and lengths are known. A part's value would be empty then,
    // which is refused when it is read.
    if postcard::to_extend(value, Appending(to)).is_err() {
        to.truncate(begin);
    }
}

/// Extends what it borrows; postcard asks for what it can own.
struct Appending<'a>(&'a mut Vec<u8>);

impl Extend<u8> for Appending<'_> {
    fn extend<T: IntoIterator<Item = u8>>(&mut self, bytes: T) {
        self.0.extend(bytes);
    }
}

/// Reads a value.
pub fn decode<V: DeserializeOwned>(bytes: &[u8]) -> Result<V, Unreadable> {
    match bytes.split_first() {
        Some((&VERSION, rest)) => match postcard::take_from_bytes(rest) {
            Ok((value, [])) => Ok(value),
            Ok((_, rest)) => Err(Unreadable(format!("{} bytes too many", rest.len()))),
            Err(error) => Err(Unreadable(error.to_string())),
        },
        Some((version, _)) => Err(Unreadable(format!(
            "version {version} of its form, and this tollgate reads {VERSION}: a newer one has \
             written it"
        ))),
        None => Err(Unreadable("it is empty".to_owned())),
    }
}

/// Reads the number that a part's name is.
pub fn decode_number(name: &[u8]) -> Result<u64, Unreadable> {
    let bytes = name.try_into().map_err(|_| Unreadable("a number of no 8 bytes".to_owned()))?;
    Ok(u64::from_be_bytes(bytes))
}

/// A part that no state of the kind has.
pub fn unknown_part<T>(part: &[u8]) -> Result<T, Unreadable> {
    Err(Unreadable(format!("an unknown part {:?}", part.escape_ascii().to_string())))
}

/// The names of entries that have changed. Notes none until it is told to: where nothing
/// is kept it costs a pointer and no more.
#[derive(Debug, Default)]
#[allow(clippy::box_collection, reason = "a million states that note none must not pay")]
pub(crate) struct Touched(Option<Box<Vec<Box<[u8]>>>>);

impl Touched {
    /// Notes names from now on.
    pub(crate) fn begin(&mut self) {
        self.0.get_or_insert_default();
    }

    /// Notes a name, given in parts.
    pub(crate) fn note(&mut self, parts: &[&[u8]]) {
        if let Some(names) = &mut self.0 {
            names.push(parts.concat().into());
        }
    }

    /// The names that were noted since the last time.
    pub(crate) fn take(&mut self) -> Vec<Box<[u8]>> {
        self.0.as_mut().map(|names| std::mem::take(&mut **names)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_another_form_are_refused() {
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
