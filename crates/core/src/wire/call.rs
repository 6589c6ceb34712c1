//! KEYS and ARGV of a decision.

use std::{fmt, io::Write, ops::Range};

use super::key;
use crate::{Decision, State, script::Script, time::Millis};

/// KEYS and ARGV of one decision, in one buffer: one allocation instead of one per argument.
#[derive(Debug, PartialEq, Eq)]
pub struct Arguments {
    buffer: Vec<u8>,
    /// Where each part ends in the buffer. The first `keys` parts are KEYS, the rest ARGV.
    ends: Vec<usize>,
    keys: usize,
}

/// The Redis primary that this server has seen for a key. `lua/lib/failover.lua` compares it with
/// the primary that runs the script, to detect failovers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// The primary id, as the scripts write it; `-` if unknown.
    pub leader: String,
    /// How long this server has seen this primary.
    pub length: Millis,
    /// Whether another primary answered before this one, as far as this server knows.
    pub has_changed: bool,
}

/// Gives access to the primaries that this server has seen.
pub trait Leads: fmt::Debug {
    /// Returns the primary of the node that serves `key`; `None` if the topology is not known.
    fn sighting(&self, key: &[u8]) -> Option<Sighting>;
}

/// Builds KEYS and ARGV of one decision. All keys share one prefix and one hash tag.
#[derive(Debug)]
pub struct Call<'a> {
    prefix: &'a str,
    capability: &'static str,
    tag: &'a [u8],
    leads: Option<&'a dyn Leads>,
    is_limited: bool,
    arguments: Arguments,
    /// The number of bytes with which all keys begin: the first key up to its part.
    stem: usize,
}

impl<'a> Call<'a> {
    /// Encodes a decision; its keys start with `prefix`.
    pub fn encode<D: Decision>(decision: &'a D, prefix: &'a str) -> Call<'a> {
        Call::encode_for(decision, D::SCRIPT, D::encode, prefix)
    }

    /// Encodes a decision for another script than the verb's own, with the function that appends KEYS
    /// and ARGV of that script.
    pub fn encode_for<D: Decision>(
        decision: &'a D,
        script: &'static Script,
        encode: fn(&D, &mut Call),
        prefix: &'a str,
    ) -> Call<'a> {
        let tag = D::State::tag(decision.partition());
        let mut call = Call::new(prefix, D::State::CAPABILITY, tag);
        encode(decision, &mut call);
        call.check(script);
        call
    }

    /// Encodes a decision that may send the primary that this server has seen. With `is_limited`
    /// the decision adds no entry ([`Call::is_limited`]).
    pub fn encode_led<D: Decision>(
        decision: &'a D,
        prefix: &'a str,
        leads: &'a dyn Leads,
        is_limited: bool,
    ) -> Call<'a> {
        let tag = D::State::tag(decision.partition());
        let mut call = Call::new(prefix, D::State::CAPABILITY, tag);
        (call.leads, call.is_limited) = (Some(leads), is_limited);
        decision.encode(&mut call);
        call.check(D::SCRIPT);
        call
    }

    /// Checks the numbers of KEYS and ARGV.
    fn check(&self, script: &Script) {
        let Arguments { ends, keys, .. } = &self.arguments;
        let times = if script.repeated { keys / script.keys } else { 1 };
        debug_assert_eq!(*keys, times * script.keys, "KEYS of {}", script.name);
        let argv = ends.len() - keys;
        debug_assert_eq!(argv, times * script.argv, "ARGV of {}", script.name);
    }

    /// Creates an empty call whose keys have this hash tag.
    pub fn new(prefix: &'a str, capability: &'static str, tag: &'a [u8]) -> Call<'a> {
        let (buffer, ends) = (Vec::with_capacity(512), Vec::with_capacity(16));
        let arguments = Arguments { buffer, ends, keys: 0 };
        Call { prefix, capability, tag, leads: None, is_limited: false, arguments, stem: 0 }
    }

    /// Appends a key: prefix, hash tag and `part`. All keys come before the first argument.
    pub fn key(&mut self, part: &[&[u8]]) {
        let buffer = &mut self.arguments.buffer;
        if self.stem == 0 {
            key::push_stem(buffer, self.prefix, self.capability, self.tag);
            self.stem = buffer.len();
        } else {
            buffer.extend_from_within(..self.stem);
        }
        for bytes in part {
            buffer.extend_from_slice(bytes);
        }
        self.arguments.keys += 1;
        self.end();
    }

    /// Appends one argument: the concatenation of `parts`.
    pub fn bytes(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.arguments.buffer.extend_from_slice(part);
        }
        self.end();
    }

    /// Appends a number, as decimal text.
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

    /// Whether the namespace is at its limit for the kind of entry that the decision can add
    /// ([`Grows::TAKES`](crate::Grows::TAKES)). The script then adds no entry. It still answers
    /// repeats.
    pub fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// Appends the primary seen for the first key, as `id ms changed`. `ms` is the time it was
    /// seen, rounded down to a power of two, so that calls of one batch share the argument.
    /// `changed` is 1 if another primary answered before.
    pub fn sighting(&mut self) {
        let first = self.arguments.keys().next().unwrap_or_default();
        let text = match self.leads.and_then(|leads| leads.sighting(first)) {
            None => "- 0 0".to_owned(),
            Some(Sighting { leader, length, has_changed }) => {
                let length = length.0.checked_ilog2().map_or(0, |bits| 1u64 << bits);
                format!("{leader} {length} {}", u8::from(has_changed))
            }
        };
        self.bytes(&[text.as_bytes()]);
    }

    /// Returns the finished KEYS and ARGV.
    pub fn finish(self) -> Arguments {
        self.arguments
    }

    fn end(&mut self) {
        self.arguments.ends.push(self.arguments.buffer.len());
    }
}

impl Arguments {
    /// KEYS, in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.parts(0..self.keys)
    }

    /// Returns the first key alone, with one empty argument.
    pub fn first_key(&self) -> Arguments {
        let buffer = self.keys().next().unwrap_or_default().to_vec();
        let ends = vec![buffer.len(); 2];
        Arguments { buffer, ends, keys: 1 }
    }

    /// ARGV, in order.
    pub fn argv(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.parts(self.keys..self.ends.len())
    }

    /// Returns the concatenation of ARGV without the first `skipped`.
    pub fn argv_after(&self, skipped: usize) -> &[u8] {
        &self.buffer[self.start(self.keys + skipped)..]
    }

    /// Whether the first `keys` of KEYS and the first `argv` of ARGV are the same in both.
    pub fn agree(&self, other: &Arguments, (keys, argv): (usize, usize)) -> bool {
        self.are_equal(0, other, 0, keys) && self.are_equal(self.keys, other, other.keys, argv)
    }

    /// Whether `count` parts are the same, from these places on. Compares their bytes together.
    fn are_equal(&self, from: usize, other: &Arguments, other_from: usize, count: usize) -> bool {
        let (start, other_start) = (self.start(from), other.start(other_from));
        let ends = self.ends[from..from + count].iter().map(|end| end - start);
        let other_ends = &other.ends[other_from..other_from + count];
        let bytes = start..self.start(from + count);
        let other_bytes = other_start..other.start(other_from + count);
        self.buffer[bytes] == other.buffer[other_bytes]
            && ends.eq(other_ends.iter().map(|end| end - other_start))
    }

    fn parts(&self, places: Range<usize>) -> impl ExactSizeIterator<Item = &[u8]> {
        places.map(|place| &self.buffer[self.start(place)..self.ends[place]])
    }

    /// Returns where a part starts in the buffer.
    fn start(&self, place: usize) -> usize {
        place.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    /// Total bytes of KEYS and ARGV: a measure of the cost of sending them.
    pub fn size(&self) -> usize {
        self.buffer.len()
    }
}
