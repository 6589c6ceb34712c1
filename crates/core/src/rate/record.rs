//! Persistence of rates: usage and bans, replay cache, events, ban index.
//!
//! The head of a key contains all its usage, at most [`NAMES_MAX`](super::NAMES_MAX) counters, and
//! its ban, since most calls change it. Answers, events and entries of the index are parts.

use super::{BanIndex, Log, Meter};
use crate::{
    collections::History,
    record::{Changes, Recorded, Unreadable, decode, encode, split_part, unknown_part},
};

/// Letter of an answer in the replay cache, named by its request id.
pub(super) const REPLAY: u8 = b'r';
/// Letter of an event, named by its number.
const EVENT: u8 = b'e';
/// Letter of a ban index entry, named by its key.
pub(super) const BANNED: u8 = b'b';

impl Recorded for Meter {
    const KIND: u8 = 2;

    fn track_changes(&mut self) {
        self.replays.track_changes();
    }

    fn head(&self, to: &mut Vec<u8>) {
        if self.ban.is_some() || !self.counters.is_empty() {
            encode(&(&self.counters, &self.ban), to);
        }
    }

    fn drain(&mut self, to: &mut Changes) {
        self.replays.drain(REPLAY, to);
    }

    fn restore(&mut self, part: &[u8], value: &[u8]) -> Result<(), Unreadable> {
        match split_part(part) {
            (0, _) => (self.counters, self.ban) = decode(value)?,
            (REPLAY, request) => self.replays.restore(request, value)?,
            _ => return unknown_part(part),
        }
        Ok(())
    }

    fn restored(&mut self) {
        // No spare capacity: it would add up over a million keys.
        self.counters.shrink_to_fit();
        self.replays.restored();
    }
}

/// The history of a shard. It has no head.
impl Recorded for Log {
    const KIND: u8 = 3;

    fn drain(&mut self, to: &mut Changes) {
        if let Some(history) = &mut self.history {
            history.drain(EVENT, to);
        }
    }

    fn restore(&mut self, part: &[u8], value: &[u8]) -> Result<(), Unreadable> {
        match split_part(part) {
            (EVENT, number) => History::restore(&mut self.history, number, value),
            _ => unknown_part(part),
        }
    }
}

/// One part for each key. The order by end is rebuilt after a start.
impl Recorded for BanIndex {
    const KIND: u8 = 4;

    fn track_changes(&mut self) {
        self.touched.begin();
    }

    fn drain(&mut self, to: &mut Changes) {
        for key in self.touched.drain() {
            match self.ends.get(&key) {
                Some(until) => to.put(&[&[BANNED], &key], until),
                None => to.remove(&[&[BANNED], &key]),
            }
        }
    }

    fn restore(&mut self, part: &[u8], value: &[u8]) -> Result<(), Unreadable> {
        match split_part(part) {
            (BANNED, key) => self.ends.insert(key.into(), decode(value)?),
            _ => return unknown_part(part),
        };
        Ok(())
    }

    fn restored(&mut self) {
        self.by_end = self.ends.iter().map(|(key, until)| (*until, key.clone())).collect();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{State, names::Name, rate::MeterName};

    #[test]
    fn the_tag_is_derived_from_the_partition() {
        let name = |text: &'static str| Name::parse(Bytes::from(text)).expect("a name");
        for policy in [None, Some(name("reads"))] {
            let meter = MeterName::new(policy.as_ref(), &name("user:7"));
            assert_eq!(Meter::tag(meter.as_bytes()), meter.tag());
        }
    }
}
