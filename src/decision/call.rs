//! What a decision sends to its script.

use std::{fmt, io::Write};

use super::{Decision, State};
use crate::{names, time::Millis};

/// KEYS and ARGV of one decision, in one buffer.
#[derive(Debug)]
pub struct Arguments {
    buffer: Vec<u8>,
    ends: Vec<usize>,
    keys: usize,
}

/// Whom a server has seen lead where a key is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// What the scripts call it.
    pub leader: String,
    /// For how long.
    pub length: Millis,
    /// Whether somebody led before it, as far as this server knows.
    pub has_changed: bool,
}

/// Knows whom a server has seen lead.
pub trait Leads: fmt::Debug {
    /// Where a key is.
    fn sighting(&self, key: &[u8]) -> Option<Sighting>;
}

/// Appends KEYS and ARGV of one decision; its keys share a prefix and a tag.
#[derive(Debug)]
pub struct Call<'a> {
    prefix: &'a str,
    capability: &'static str,
    tag: &'a [u8],
    leads: Option<&'a dyn Leads>,
    arguments: Arguments,
}

impl<'a> Call<'a> {
    /// Encodes a decision; its keys start with `prefix`.
    pub fn of<D: Decision>(decision: &'a D, prefix: &'a str) -> Call<'a> {
        Call::encoded(decision, prefix, None)
    }

    /// The same of one that may have to know whom the server has seen lead.
    pub fn led<D: Decision>(decision: &'a D, prefix: &'a str, leads: &'a dyn Leads) -> Call<'a> {
        Call::encoded(decision, prefix, Some(leads))
    }

    fn encoded<D: Decision>(
        decision: &'a D,
        prefix: &'a str,
        leads: Option<&'a dyn Leads>,
    ) -> Call<'a> {
        let mut call = Call::new(prefix, D::State::CAPABILITY, decision.tag());
        call.leads = leads;
        decision.encode(&mut call);
        let Arguments { ends, keys, .. } = &call.arguments;
        debug_assert_eq!(*keys, D::SCRIPT.keys, "KEYS of {}", D::SCRIPT.name);
        debug_assert_eq!(ends.len() - keys, D::SCRIPT.argv, "ARGV of {}", D::SCRIPT.name);
        call
    }

    /// An empty call whose keys have this tag.
    pub fn new(prefix: &'a str, capability: &'static str, tag: &'a [u8]) -> Call<'a> {
        let (buffer, ends) = (Vec::with_capacity(512), Vec::with_capacity(16));
        let arguments = Arguments { buffer, ends, keys: 0 };
        Call { prefix, capability, tag, leads: None, arguments }
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

    /// Appends whom the server has seen lead where the first key is, for how long in
    /// milliseconds, rounded down to a power of two so that calls have it in common, and
    /// whether somebody led before.
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
