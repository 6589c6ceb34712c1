//! Event histories: the last numbered events of a partition.
//!
//! A change and its event are one atomic step. Numbers rise by one. A new history starts at the
//! current time in µs, so a history that was lost continues above all numbers that it can have used
//! before, and a cursor never points to a different event.

use std::collections::VecDeque;

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Call, Reply,
    error::Error,
    record::{Changes, Unreadable, decode, decode_number},
    time::{Millis, Timestamp},
};

/// A history is trimmed once it exceeds its minimum size by this many events.
const SLACK: usize = 100;
/// The largest number of a stored event: Lua counts exactly up to here.
const NUMBER_MAX: u64 = 1 << 53;
/// Minimum time that a history is stored after its last event.
pub const KEPT: Millis = Millis::from_secs(24 * 3600);

/// The last events of a partition; the twin of `lua/lib/events.lua`. The event at index i has the
/// number `base + 1 + i`.
#[derive(Debug)]
pub struct History<E> {
    /// The number that precedes the first stored event.
    base: u64,
    events: VecDeque<E>,
    /// When the history may be dropped.
    forget: Timestamp,
    /// The persisted events: those after the first number, up to and including the second.
    written: (u64, u64),
}

/// The events after a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPage<E> {
    /// Whether events after the cursor are missing, because they were trimmed or lost.
    pub gap: bool,
    /// The number that precedes the first event in `events`.
    pub after: u64,
    /// The events, in order, numbered from `after + 1`.
    pub events: Vec<E>,
    /// The number of the last stored event; 0 if there is none.
    pub last: u64,
}

/// A request for events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct After {
    /// The number of the last event that the reader has; 0 for all stored events. `None` requests
    /// only the number of the last event.
    pub number: Option<u64>,
    /// The maximum number of events.
    pub limit: u32,
}

impl<E> History<E> {
    fn new(base: u64, forget: Timestamp) -> History<E> {
        History { base, events: VecDeque::new(), forget, written: (base, base) }
    }
}

impl<E: Clone> History<E> {
    /// Appends an event, and creates the history if needed. At least the last `most` events stay.
    pub fn append(history: &mut Option<Box<History<E>>>, event: E, most: u32, now: Timestamp) {
        // The first event has the number `now + 1`.
        let empty = || History::new(now.0, now);
        let history = history.get_or_insert_with(|| Box::new(empty()));
        history.events.push_back(event);
        history.forget = now.after(KEPT);
        if history.events.len() > most as usize + SLACK {
            let drop = history.events.len() - most as usize;
            history.events.drain(..drop);
            history.base += drop as u64;
        }
    }

    /// Returns the events after a cursor.
    pub fn page(history: Option<&History<E>>, after: After) -> EventPage<E> {
        let (base, count) = history.map_or((0, 0), |kept| (kept.base, kept.events.len()));
        let last = base + count as u64;
        let (gap, from) = position(after.number, base, last);
        let skip = (from - base) as usize;
        let events = history.into_iter().flat_map(|kept| kept.events.iter().skip(skip));
        let events = events.take(after.limit as usize).cloned().collect();
        EventPage { gap, after: from, events, last }
    }

    /// Drops up to `most` events of a history that nobody reads, and the history when it is empty.
    /// Returns the number of dropped events.
    pub fn release(history: &mut Option<Box<History<E>>>, most: usize) -> usize {
        let Some(kept) = history else { return 0 };
        let dropped = kept.events.drain(..most.min(kept.events.len())).count();
        history.take_if(|kept| kept.events.is_empty());
        dropped
    }

    /// Whether the history may be dropped.
    pub fn has_lapsed(&self, now: Timestamp) -> bool {
        self.forget <= now
    }
}

impl<E: Serialize + DeserializeOwned> History<E> {
    /// Appends the changes since the last call to the write batch, as parts with this letter.
    pub(crate) fn drain(&mut self, letter: u8, to: &mut Changes) {
        let (from, upto) = self.written;
        for gone in from + 1..=self.base.min(upto) {
            to.remove(&[&[letter], &gone.to_be_bytes()]);
        }
        let next = upto.max(self.base);
        let events = self.events.iter().skip((next - self.base) as usize);
        for (number, event) in (next + 1..).zip(events) {
            to.insert(&[&[letter], &number.to_be_bytes()], &(self.forget, event));
        }
        self.written = (self.base, self.base + self.events.len() as u64);
    }

    /// Restores one persisted event. Fails if the number does not follow the last one.
    pub(crate) fn restore(
        history: &mut Option<Box<History<E>>>,
        number: &[u8],
        value: &[u8],
    ) -> Result<(), Unreadable> {
        let number = decode_number(number)?;
        if number > NUMBER_MAX {
            return Err(Unreadable(format!("event {number}: numbers end at {NUMBER_MAX}")));
        }
        let (forget, event) = decode(value)?;
        let history =
            history.get_or_insert_with(|| Box::new(History::new(number.saturating_sub(1), forget)));
        if history.base + history.events.len() as u64 + 1 != number {
            return Err(Unreadable(format!(
                "event {number} is not consecutive: events before it are missing"
            )));
        }
        history.events.push_back(event);
        history.forget = forget;
        history.written.1 = number;
        Ok(())
    }
}

impl After {
    /// Appends the number (empty for none) and the limit.
    pub(crate) fn encode(&self, call: &mut Call) {
        call.optional(self.number);
        call.number(self.limit.into());
    }
}

impl<E> EventPage<E> {
    /// Reads the rest of a reply after its status: 1 for a gap, the number before the first event,
    /// the number of the last stored event, then the events.
    pub(crate) fn parse(
        reply: &mut Reply,
        event: impl Fn(&[u8]) -> Option<E>,
    ) -> Result<EventPage<E>, Error> {
        let (gap, after, last) = (reply.number()? != 0, reply.number()?, reply.number()?);
        let mut events = Vec::new();
        while reply.has_more() {
            let read = event(&reply.bytes()?);
            events.push(read.ok_or_else(|| Error::Corrupt("an event in the history".to_owned()))?);
        }
        Ok(EventPage { gap, after, events, last })
    }
}

/// Returns whether events are missing after the cursor, and the number to continue after. A cursor
/// below or above the history has a gap; 0 asks for everything and has none.
fn position(after: Option<u64>, base: u64, last: u64) -> (bool, u64) {
    match after {
        None => (false, last),
        Some(0) => (false, base),
        Some(number) if number < base || number > last => (true, base),
        Some(number) => (false, number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(history: &Option<Box<History<u64>>>, number: Option<u64>) -> EventPage<u64> {
        History::page(history.as_deref(), After { number, limit: 3 })
    }

    #[test]
    fn a_cursor_older_than_the_history_has_a_gap() {
        let mut history = None;
        assert_eq!(page(&history, Some(0)).last, 0);
        assert!(page(&history, Some(7)).gap);
        for event in 0..301 {
            History::append(&mut history, event, 200, Timestamp(1000));
        }
        // Trimmed once, to 200, when there were 301.
        let all = page(&history, Some(0));
        assert_eq!((all.gap, all.after, all.last), (false, 1101, 1301));
        assert_eq!(all.events, [101, 102, 103]);
        assert_eq!(page(&history, Some(1101)), all);
        assert!(page(&history, Some(1100)).gap && page(&history, Some(1302)).gap);
        let none = page(&history, Some(1301));
        assert!(none.events.is_empty() && !none.gap);
        assert_eq!(page(&history, None), none);
        assert_eq!(page(&history, Some(1299)).events, [299, 300]);
    }
}
