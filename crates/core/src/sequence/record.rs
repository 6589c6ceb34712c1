//! Persistence of a sequence: the last value, the marks and the replay cache.
//!
//! The head is a pair: the last value with its time, and the marks. Answers of the replay cache are
//! parts, and so is the last value that the embedded engine has reserved on its disk.

use super::{
    Counter,
    ahead::{Ahead, RESERVED},
    counter::Marks,
};
use crate::{
    record::{Changes, Recorded, Unreadable, decode, encode, split_part, unknown_part},
    time::Timestamp,
};

/// Letter of a replay cache entry, named by its request id.
pub(super) const REPLAY: u8 = b'r';

/// The persisted head. Reserved values are not exported, because the last value is exact and the
/// target reserves again.
pub(super) type Head = (Option<(u64, Timestamp)>, Option<Marks>);

impl Recorded for Counter {
    const KIND: u8 = 5;
    const RESERVES: bool = true;

    fn track_changes(&mut self) {
        self.replays.track_changes();
        self.ahead.get_or_insert_default();
    }

    fn head(&self, to: &mut Vec<u8>) {
        if self.last.is_some() || self.marks.is_some() {
            encode(&(self.last, self.marks), to);
        }
    }

    fn drain(&mut self, to: &mut Changes) {
        self.replays.drain(REPLAY, to);
        if let Some(ahead) = &self.ahead {
            ahead.drain(to);
        }
    }

    fn reserve_ahead(&mut self, now: Timestamp) {
        if let Some(((last, _), ahead)) = self.last.zip(self.ahead.as_mut()) {
            ahead.reserve(last, now);
        }
    }

    fn reservation(&mut self, change: u64) -> u64 {
        match (self.last, &mut self.ahead) {
            (Some((last, _)), Some(ahead)) => ahead.change(last, change),
            _ => 0,
        }
    }

    fn restore(&mut self, part: &[u8], value: &[u8]) -> Result<(), Unreadable> {
        match split_part(part) {
            (0, _) => (self.last, self.marks) = decode(value)?,
            (RESERVED, _) => self.ahead = Some(Box::new(Ahead::restored(decode(value)?))),
            (REPLAY, request) => self.replays.restore(request, value)?,
            _ => return unknown_part(part),
        }
        Ok(())
    }

    fn restored(&mut self) {
        self.replays.restored();
    }
}

/// Returns the head of a sequence after a loss: its last value is the last reserved one. `None` if
/// the head stays as it is.
pub fn above_reserved(head: &[u8], reserved: &[u8]) -> Result<Option<Vec<u8>>, Unreadable> {
    let ((last, marks), upto): (Head, u64) = (decode(head)?, decode(reserved)?);
    let (value, time) = last.unwrap_or_default();
    if value >= upto {
        return Ok(None);
    }
    let (head, mut to): (Head, _) = ((Some((upto, time)), marks), Vec::new());
    encode(&head, &mut to);
    Ok(Some(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_continues_above_its_reservation_after_a_loss() {
        let (mut head, mut reserved) = (Vec::new(), Vec::new());
        let before: Head = (Some((7, Timestamp(5))), None);
        encode(&before, &mut head);
        encode(&70u64, &mut reserved);
        let after = above_reserved(&head, &reserved).unwrap().unwrap();
        let (last, marks): Head = decode(&after).unwrap();
        assert_eq!((last, marks.is_none()), (Some((70, Timestamp(5))), true));
        assert_eq!(above_reserved(&after, &reserved).unwrap(), None);
    }
}
