//! The decisions that export and import the stored entries of a partition.
//!
//! The scripts know the formats in Redis. Between stores an entry has the form of a data directory:
//! a part and a value (see [`crate::record`]).

use std::{fmt, marker::PhantomData};

use crate::{
    Call, Cost, Decision, Listing, OK, Properties, Reply,
    error::Error,
    record::{Recorded, Unreadable, decode, encode, split_part},
    script::Script,
    time::Timestamp,
    unknown_status,
};

use serde::{Serialize, de::DeserializeOwned};

/// Approximate maximum number of entries that one decision reads.
const PAGE: u32 = 100;

/// A state whose entries can be moved to another store.
pub trait Exported: Recorded {
    /// The script that reads a page of entries.
    const EXPORT: &'static Script;
    /// The script that writes an entry.
    const IMPORT: &'static Script;

    /// Upper bound on the Redis time of an import.
    const IMPORT_COST: Cost = Cost::PLAIN;
    /// Redis keys that are not exported, by the part after the hash tag: derived ones, histories,
    /// and the tickets of waiting calls.
    const UNEXPORTED: &'static [&'static [u8]] = &[];

    /// Returns the partition and the source that a Redis key belongs to. `tag` is the name in its
    /// hash tag, `part` the rest. `None` if the state has no such key.
    fn source(tag: &[u8], part: &[u8]) -> Option<(Vec<u8>, Source)>;
    /// Appends KEYS and ARGV of [`Exported::EXPORT`].
    fn encode_export(export: &Export<Self>, call: &mut Call);
    /// Approximate number of entries that one decision reads.
    fn export_limit(_: &Export<Self>) -> u32 {
        PAGE
    }
    /// Upper bound on the Redis time of a page.
    fn export_cost(_: &Export<Self>) -> Cost {
        Cost::PLAIN
    }
    /// Reads a reply without a page: the state cannot be exported now.
    fn parse_refusal(status: u64, _: &mut Reply) -> Result<Page, Error> {
        unknown_status(status)
    }
    /// Reads one entry of the reply; its letter was read before.
    fn parse_entry(letter: &[u8], reply: &mut Reply) -> Result<Entry, Error>;
    /// Makes the entries of a partition agree with each other. They were read one after the other,
    /// and a server may have changed the partition in between.
    fn reconcile(_: &mut Vec<Entry>) {}
    /// Returns the page that the script returns. Collections that Redis stores without an order are
    /// returned as one page.
    fn page(&self, export: &Export<Self>, now: Timestamp) -> Page;
    /// Returns the KEYS and ARGV of [`Exported::IMPORT`]. `None` for entries that are derived from
    /// others.
    fn import_arguments(
        partition: &[u8],
        part: &[u8],
        value: &[u8],
    ) -> Result<Option<Parts>, Unreadable>;
    /// Returns the effect of an import on the partition index.
    fn import_listing(_part: &[u8], _value: &[u8]) -> Listing {
        Listing::Same
    }
    /// Stores an entry, and everything that is derived from it.
    fn import(&mut self, part: &[u8], value: &[u8], now: Timestamp) -> Result<(), Unreadable>;
}

/// One key, or one collection, of a partition in Redis. Sources are read in their order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// The kind of source: the first argument of the script.
    pub letter: u8,
    /// The name of its entry; empty for collections and heads.
    pub name: Vec<u8>,
}

impl Source {
    /// Creates a source of this kind.
    pub fn new(letter: u8, name: &[u8]) -> Source {
        Source { letter, name: name.to_vec() }
    }
}

/// A stored entry, as in a data directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Letter and name; empty for the head.
    pub part: Vec<u8>,
    /// The encoded value.
    pub value: Vec<u8>,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.part.escape_ascii(), self.value.escape_ascii())
    }
}

impl Entry {
    /// Returns the value of an entry with this letter; `None` for other entries.
    pub(crate) fn decode<V: DeserializeOwned>(&self, letter: u8) -> Option<V> {
        (split_part(&self.part).0 == letter).then(|| decode(&self.value).ok()).flatten()
    }

    /// Replaces the value.
    pub(crate) fn set(&mut self, value: &impl Serialize) {
        self.value.clear();
        encode(value, &mut self.value);
    }

    /// Creates an entry with this value; the part is given in pieces.
    pub(crate) fn new(part: &[&[u8]], value: &impl Serialize) -> Entry {
        let mut encoded = Vec::new();
        encode(value, &mut encoded);
        Entry { part: part.concat(), value: encoded }
    }
}

/// A page of entries, sorted by part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The entries.
    pub entries: Vec<Entry>,
    /// The position of the page, if others follow.
    pub next: Option<Vec<u8>>,
}

impl Page {
    /// Returns the last page of a source.
    pub(crate) fn last(entries: impl IntoIterator<Item = Entry>) -> Page {
        let mut entries: Vec<Entry> = entries.into_iter().collect();
        entries.sort();
        Page { entries, next: None }
    }

    /// Returns the first entries of a source with an order, each with its position.
    pub(crate) fn first<P>(
        entries: impl Iterator<Item = (P, Entry)>,
        position: impl Fn(P) -> Vec<u8>,
    ) -> Page {
        let limit = PAGE as usize;
        let mut entries: Vec<(P, Entry)> = entries.take(limit + 1).collect();
        let has_more = entries.len() > limit;
        entries.truncate(limit);
        let (mut positions, entries): (Vec<P>, Vec<Entry>) = entries.into_iter().unzip();
        let next = positions.pop().filter(|_| has_more).map(position);
        Page { next, ..Page::last(entries) }
    }
}

/// Reads a page of the entries of a source.
pub struct Export<S> {
    /// The partition.
    pub partition: Vec<u8>,
    /// The source.
    pub source: Source,
    /// The position of the previous page.
    pub after: Vec<u8>,
    state: PhantomData<fn() -> S>,
}

impl<S: Exported> Export<S> {
    /// Reads the first page of a source.
    pub fn new(partition: Vec<u8>, source: Source) -> Export<S> {
        Export { partition, source, after: Vec::new(), state: PhantomData }
    }

    /// Returns the next page; `None` if `page` is the last one.
    pub fn behind(&self, page: &Page) -> Option<Export<S>> {
        let after = page.next.clone()?;
        Some(Export { after, ..Export::new(self.partition.clone(), self.source.clone()) })
    }

    /// Returns the entries of a page. The entry of a source with a name has that name.
    pub fn named(&self, page: Page) -> Vec<Entry> {
        let mut entries = page.entries;
        for entry in entries.iter_mut().filter(|entry| entry.part.len() == 1) {
            entry.part.extend_from_slice(&self.source.name);
        }
        entries
    }

    /// Appends the arguments of scripts with pages: the kind of source, `more`, the position and
    /// the limit.
    pub(crate) fn push_page(&self, more: &[&[u8]], call: &mut Call) {
        call.bytes(&[&[self.source.letter]]);
        more.iter().for_each(|argument| call.bytes(&[argument]));
        call.bytes(&[&self.after]);
        call.number(S::export_limit(self).into());
    }
}

/// By hand, because a derived one would demand it of the state.
impl<S> Clone for Export<S> {
    fn clone(&self) -> Export<S> {
        let Export { partition, source, after, state } = self;
        let (partition, source, after) = (partition.clone(), source.clone(), after.clone());
        Export { partition, source, after, state: *state }
    }
}

impl<S: Recorded> fmt::Debug for Export<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (partition, after) = (self.partition.escape_ascii(), self.after.escape_ascii());
        write!(f, "Export {} {partition} {:?} after {after}", S::CAPABILITY, self.source)
    }
}

impl<S: Exported> Decision for Export<S> {
    type State = S;
    type Outcome = Page;

    const SCRIPT: &'static Script = S::EXPORT;
    const PROPERTIES: Properties<Export<S>> =
        Properties { cost: S::export_cost, ..Properties::DEFAULT };

    fn partition(&self) -> &[u8] {
        &self.partition
    }

    fn encode(&self, call: &mut Call) {
        S::encode_export(self, call);
    }

    fn parse(reply: &mut Reply) -> Result<Page, Error> {
        let status = reply.number()?;
        if status != OK {
            return S::parse_refusal(status, reply);
        }
        let next = Some(reply.bytes()?).filter(|next| !next.is_empty());
        let mut entries = Vec::new();
        while reply.has_more() {
            let letter = reply.bytes()?;
            entries.push(S::parse_entry(&letter, reply)?);
        }
        Ok(Page { next, ..Page::last(entries) })
    }

    fn decide(&self, state: &mut S, now: Timestamp) -> Page {
        state.page(self, now)
    }
}

/// Returns the error for an entry with a letter that the state does not have.
pub(crate) fn unknown_letter<T>(letter: &[u8]) -> Result<T, Error> {
    Err(Error::Corrupt(format!("a script replied with unknown entry {:?}", letter.escape_ascii())))
}

/// KEYS, as parts after the hash tag, and ARGV.
#[derive(Debug, Clone, Default)]
pub struct Parts {
    keys: Vec<Vec<u8>>,
    argv: Vec<Vec<u8>>,
}

impl Parts {
    /// Parts with these keys.
    pub(crate) fn new<const N: usize>(keys: [Vec<u8>; N]) -> Parts {
        Parts { keys: keys.into(), argv: Vec::new() }
    }

    /// Appends a text.
    pub(crate) fn bytes(mut self, argument: &[u8]) -> Parts {
        self.argv.push(argument.to_vec());
        self
    }

    /// Appends numbers, as decimal text.
    pub(crate) fn numbers<const N: usize>(mut self, numbers: [u64; N]) -> Parts {
        self.argv.extend(numbers.map(|number| number.to_string().into_bytes()));
        self
    }

    /// Appends a number, or an empty argument for none.
    pub(crate) fn optional(mut self, number: Option<u64>) -> Parts {
        self.argv.push(number.map(|number| number.to_string().into_bytes()).unwrap_or_default());
        self
    }

    /// Appends numbers packed into one argument.
    pub(crate) fn packed(mut self, numbers: &[u64]) -> Parts {
        self.argv.push(numbers.iter().flat_map(|number| number.to_le_bytes()).collect());
        self
    }

    /// Appends the given argument for each kind of entry that this one is not.
    pub(crate) fn empty(mut self, count: usize, argument: &[u8]) -> Parts {
        self.argv.extend(std::iter::repeat_n(argument.to_vec(), count));
        self
    }
}

/// Writes an entry of a partition.
pub struct Import<S> {
    partition: Vec<u8>,
    part: Vec<u8>,
    value: Vec<u8>,
    parts: Parts,
    state: PhantomData<fn() -> S>,
}

impl<S: Exported> Import<S> {
    /// Writes an entry; `None` for one that is derived from others.
    pub fn new(
        partition: &[u8],
        part: &[u8],
        value: &[u8],
    ) -> Result<Option<Import<S>>, Unreadable> {
        let parts = S::import_arguments(partition, part, value)?;
        Ok(parts.map(|parts| Import {
            partition: partition.to_vec(),
            part: part.to_vec(),
            value: value.to_vec(),
            parts,
            state: PhantomData,
        }))
    }
}

/// As for [`Export`].
impl<S> Clone for Import<S> {
    fn clone(&self) -> Import<S> {
        let Import { partition, part, value, parts, state } = self;
        let (partition, part, value) = (partition.clone(), part.clone(), value.clone());
        Import { partition, part, value, parts: parts.clone(), state: *state }
    }
}

impl<S: Recorded> fmt::Debug for Import<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (partition, part) = (self.partition.escape_ascii(), self.part.escape_ascii());
        write!(f, "Import {} {partition} {part}", S::CAPABILITY)
    }
}

impl<S: Exported> Decision for Import<S> {
    type State = S;
    type Outcome = ();

    const SCRIPT: &'static Script = S::IMPORT;
    const PROPERTIES: Properties<Import<S>> = Properties {
        listing: |import| S::import_listing(&import.part, &import.value),
        cost: |import| S::IMPORT_COST.with_bytes(import.value.len()),
        ..Properties::DEFAULT
    };

    fn partition(&self) -> &[u8] {
        &self.partition
    }

    fn encode(&self, call: &mut Call) {
        self.parts.keys.iter().for_each(|key| call.key(&[key]));
        self.parts.argv.iter().for_each(|argument| call.bytes(&[argument]));
    }

    fn parse(reply: &mut Reply) -> Result<(), Error> {
        reply.ok()
    }

    fn decide(&self, state: &mut S, now: Timestamp) {
        // `new` has read the same value.
        let read = state.import(&self.part, &self.value, now);
        debug_assert_eq!(read, Ok(()), "{self:?}");
    }
}
