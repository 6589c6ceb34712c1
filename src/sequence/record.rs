//! Persistence of a sequence: the last value, the marks and the replay cache.
//!
//! The head is a pair: the last value with its time, and the marks. Answers of the replay cache are
//! parts.

use super::Counter;
use crate::decision::persistence::{
    Changes, Recorded, Unreadable, decode, encode, split_part, unknown_part,
};

/// Letter of a replay cache entry, named by its request id.
pub(super) const REPLAY: u8 = b'r';

impl Recorded for Counter {
    const KIND: u8 = 5;

    fn note_changes(&mut self) {
        self.replays.note_changes();
    }

    fn head(&self, to: &mut Vec<u8>) {
        if self.last.is_some() || self.marks.is_some() {
            encode(&(self.last, self.marks), to);
        }
    }

    fn drain(&mut self, to: &mut Changes) {
        self.replays.drain(REPLAY, to);
    }

    fn restore(&mut self, part: &[u8], value: &[u8]) -> Result<(), Unreadable> {
        match split_part(part) {
            (0, _) => (self.last, self.marks) = decode(value)?,
            (REPLAY, request) => self.replays.restore(request, value)?,
            _ => return unknown_part(part),
        }
        Ok(())
    }

    fn restored(&mut self) {
        self.replays.restored();
    }
}
