//! The seam between the rules and the engines that run them.
//!
//! A rule is written twice on purpose: `decide` is the executable
//! specification and the embedded engine's fast path; the Lua script is the
//! same rule where the data lives in Redis. The differential test runs both on
//! the same random histories and compares every outcome.

use std::{fmt, io::Write};

use crate::{denial::Effect, error::Error, names, script::Script, time::Timestamp, waiting::Hints};

/// One atomic decision, taken in a single step by the engine that holds its
/// partition.
pub trait Decision: fmt::Debug + Send + Sync + 'static {
    /// What the embedded engine keeps of the capability in one partition.
    type State: State;
    /// The answer, refusals included.
    type Outcome: fmt::Debug + PartialEq + Send + 'static;

    /// The Lua twin of `decide`.
    const SCRIPT: &'static Script;
    /// The unit of atomicity: one Redis hash slot, one entry of the embedded
    /// engine.
    fn partition(&self) -> &[u8];
    /// What its keys' hash tag names: the partition, or what several partitions have in
    /// common. Those share a hash slot, and a mutex of the embedded engine.
    fn tag(&self) -> &[u8] {
        self.partition()
    }
    /// What the decision may do to the partition's place in listings.
    fn listing(&self) -> Listing;
    /// Whether to take it twice is as good as once, so that it may be sent again
    /// when its reply was lost.
    fn is_repeatable(&self) -> bool {
        true
    }
    /// Whether the outcome of a second try says what became of both, when the first
    /// one may have been taken.
    fn settles(&self, _: &Self::Outcome) -> bool {
        true
    }
    /// How many replicas have to have what it wrote before its outcome counts.
    fn replicas(&self) -> u32 {
        0
    }
    /// Whether a server owes it to calls that it has taken already: it counts as none
    /// of those in flight, and goes to the store by itself.
    fn is_upkeep(&self) -> bool {
        false
    }
    /// What it means for refusals that are remembered of its partition; without an
    /// outcome nobody knows whether it was taken.
    fn effect(&self, _: Option<&Self::Outcome>) -> Effect {
        Effect::default()
    }
    /// Appends KEYS and ARGV in the order of the script's header.
    fn encode(&self, call: &mut Call);
    /// Reads one item's reply, in the shapes of the script's header.
    fn parse(reply: &mut Reply) -> Result<Self::Outcome, Error>;
    /// The rule: no clock, no input or output.
    fn decide(&self, state: &mut Self::State, now: Timestamp) -> Self::Outcome;
}

/// A decision that can stand for several that wait for their turn together.
pub trait Joined: Decision + Clone {
    /// Takes in the one that comes next, if the joined decision gives both what
    /// they would get one after the other.
    fn join(&mut self, next: &Self) -> bool;
    /// What each of those that were joined gets, in order; none when it was
    /// refused, and each has to be decided by itself.
    fn share(outcome: &Self::Outcome, joined: &[Self]) -> Option<Vec<Self::Outcome>>;
}

/// What a decision did that takes out what has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swept {
    /// Whether more had ended than one step takes out.
    pub has_more: bool,
    /// When something of the partition ends next.
    pub next: Option<Timestamp>,
}

/// What a decision may do to its partition's place in listings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// Nothing.
    Same,
    /// It may put something there that lapses by itself.
    Held,
    /// It puts something there for good.
    Kept,
    /// It takes away what was there for good.
    Released,
}

/// What a capability keeps of one partition.
pub trait State: Default + Send + 'static {
    /// Names the capability in keys and listings.
    const CAPABILITY: &'static str;

    /// Drops what has lapsed and is remembered no longer, at most `budget`
    /// entries.
    fn sweep(&mut self, now: Timestamp, budget: usize);
    /// Whether something has ended that a decision has to see to.
    fn has_ended(&self, _: Timestamp) -> bool {
        false
    }
    /// Whether a fresh state would give the same answers.
    fn is_vacant(&self, now: Timestamp) -> bool;
    /// Whom the last decision told that it is their turn.
    fn take_hints(&mut self) -> Hints {
        Hints::new()
    }
}

/// KEYS and ARGV of one decision, in one buffer.
#[derive(Debug)]
pub struct Arguments {
    buffer: Vec<u8>,
    ends: Vec<usize>,
    keys: usize,
}

/// Appends KEYS and ARGV of one decision; its keys share a prefix and a tag.
#[derive(Debug)]
pub struct Call<'a> {
    prefix: &'a str,
    capability: &'static str,
    tag: &'a [u8],
    arguments: Arguments,
}

impl<'a> Call<'a> {
    /// Encodes a decision; its keys start with `prefix`.
    pub fn of<D: Decision>(decision: &'a D, prefix: &'a str) -> Call<'a> {
        let mut call = Call::new(prefix, D::State::CAPABILITY, decision.tag());
        decision.encode(&mut call);
        let Arguments { ends, keys, .. } = &call.arguments;
        debug_assert_eq!(*keys, D::SCRIPT.keys, "KEYS of {}", D::SCRIPT.name);
        debug_assert_eq!(ends.len() - keys, D::SCRIPT.argv, "ARGV of {}", D::SCRIPT.name);
        call
    }

    /// An empty call whose keys have this tag.
    pub fn new(prefix: &'a str, capability: &'static str, tag: &'a [u8]) -> Call<'a> {
        let (buffer, ends) = (Vec::with_capacity(512), Vec::with_capacity(16));
        Call { prefix, capability, tag, arguments: Arguments { buffer, ends, keys: 0 } }
    }

    /// Appends a key with the tag; keys come before arguments.
    pub fn key(&mut self, part: &[&[u8]]) {
        let buffer = &mut self.arguments.buffer;
        names::push_key(buffer, self.prefix, self.capability, self.tag, part);
        self.arguments.keys += 1;
        self.end();
    }

    /// Appends an argument of the joined bytes.
    pub fn bytes(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.arguments.buffer.extend_from_slice(part);
        }
        self.end();
    }

    /// Appends a number.
    pub fn number(&mut self, number: u64) {
        // Writing to a Vec cannot fail.
        let _ = write!(self.arguments.buffer, "{number}");
        self.end();
    }

    /// Appends a number, or an empty argument for none.
    pub fn optional(&mut self, number: Option<u64>) {
        match number {
            Some(number) => self.number(number),
            None => self.bytes(&[]),
        }
    }

    /// What was appended.
    pub fn finish(self) -> Arguments {
        self.arguments
    }

    fn end(&mut self) {
        self.arguments.ends.push(self.arguments.buffer.len());
    }
}

impl Arguments {
    /// The keys.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.parts().take(self.keys)
    }

    /// The arguments.
    pub fn argv(&self) -> impl Iterator<Item = &[u8]> {
        self.parts().skip(self.keys)
    }

    /// The keys, then the arguments.
    fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.buffer[start..end])
    }

    /// The keys' bytes in all: a measure of what sending it costs.
    pub fn size(&self) -> usize {
        self.buffer.len()
    }
}

/// One element of a script's flat reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A Lua number.
    Number(i64),
    /// A Lua string.
    Bytes(Vec<u8>),
}

/// A script's flat reply, read from front to back.
#[derive(Debug)]
pub struct Reply {
    items: std::vec::IntoIter<Item>,
}

impl Reply {
    /// A reply of these elements.
    pub fn new(items: Vec<Item>) -> Reply {
        Reply { items: items.into_iter() }
    }

    /// The next element, a number.
    pub fn number(&mut self) -> Result<u64, Error> {
        match self.items.next() {
            Some(Item::Number(number)) => u64::try_from(number)
                .map_err(|_| Error::Corrupt(format!("a negative number in a reply: {number}"))),
            other => Err(Error::Corrupt(format!("expected a number in a reply, got {other:?}"))),
        }
    }

    /// The next element, a string.
    pub fn bytes(&mut self) -> Result<Vec<u8>, Error> {
        match self.items.next() {
            Some(Item::Bytes(bytes)) => Ok(bytes),
            other => Err(Error::Corrupt(format!("expected a string in a reply, got {other:?}"))),
        }
    }

    /// Whether elements are left.
    pub fn has_more(&self) -> bool {
        self.items.len() > 0
    }
}

/// A reply that no script gives.
pub(crate) fn unknown_status<T>(status: u64) -> Result<T, Error> {
    Err(Error::Corrupt(format!("a reply of unknown status {status}")))
}
