//! Waiting for a turn: places in a queue, for every capability whose calls can wait.
//!
//! The queue belongs to the state of a partition, so whose turn it is is decided where
//! the slot or the lock is. A place belongs to a call; it lapses with the call's time,
//! and when the call's server is known no longer. Who is next is told so by a hint. A
//! hint may be lost: each server attends to the queues its calls wait in, and learns
//! whose turn it is.
//!
//! A server that ends gives its places up. Where the store outlives it, it keeps their tickets
//! for a while: a waiter that calls another server has its old place again. Nobody waits for
//! one meanwhile.

mod attend;
mod queue;

use std::sync::Arc;

use crate::{
    decision::{Call, Decision},
    time::{Millis, Timestamp},
};

pub use attend::{Attend, Attendance};
pub use queue::{Hints, Queue, Turn};

/// The longest wait.
pub const WAIT_MAX: Millis = Millis::from_secs(60);

/// What a call that waits says of its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The call, unique on its server.
    pub number: u64,
    /// The ticket it was given, 0 before. With it a place that was lost is taken again.
    pub ticket: u64,
    /// How long it waits from now on; 0 gives the place up, whatever the answer.
    pub wait: Millis,
    /// How long its ticket is kept for its waiter when the place is given up without a turn,
    /// so that a call elsewhere goes on from there; 0 keeps none.
    pub ticket_kept: Millis,
    /// How long its server is known without a word from it.
    pub keep: Millis,
    /// Where its server listens for hints.
    pub channel: Arc<str>,
}

impl Place {
    /// Whether its call waits.
    fn waits(&self) -> bool {
        self.wait.0 > 0
    }

    /// Whether its call gives the place up and has its ticket kept.
    fn leaves(&self) -> bool {
        !self.waits() && self.ticket_kept.0 > 0
    }

    /// Whether the place is this call's.
    fn is_of(&self, number: u64, channel: &str) -> bool {
        self.number == number && *self.channel == *channel
    }
}

/// A decision that its caller may wait for.
pub trait Waits: Decision + Clone {
    /// What the server does for those that wait.
    type Attend: Decision<Outcome = Attendance> + Clone;

    /// The place it asks from.
    fn place(&mut self) -> &mut Option<Place>;
    /// What names it in the queue.
    fn waiter(&self) -> Vec<u8>;
    /// Attends to its partition's queue.
    fn attend(&self, attend: Attend) -> Self::Attend;
    /// Whether it was its turn.
    fn turn(outcome: &Self::Outcome) -> Turn;
    /// When a slot may lapse that was granted, or is waited for.
    fn frees_in(outcome: &Self::Outcome) -> Option<Millis>;
}

/// Appends the keys of a queue.
pub(crate) fn push_keys(call: &mut Call) {
    call.key(&[b"queue"]);
    call.key(&[b"places"]);
}

/// Appends the key of the tickets that are kept for waiters without a place.
pub(crate) fn push_tickets_key(call: &mut Call) {
    call.key(&[b"tickets"]);
}

/// Appends a place, empty for none.
pub(crate) fn push_place(call: &mut Call, place: Option<&Place>) {
    let text = place.map(|Place { number, ticket, wait, ticket_kept, keep, channel }| {
        format!("{number} {ticket} {} {} {} {channel}", wait.0, keep.0, ticket_kept.0)
    });
    call.bytes(&[text.unwrap_or_default().as_bytes()]);
}

/// Whether it is a caller's turn; a queue is made for the first that has to wait.
pub(crate) fn take_turn(
    queue: &mut Option<Box<Queue>>,
    waiter: &[u8],
    place: Option<&Place>,
    free: u32,
    barging: bool,
    now: Timestamp,
) -> Turn {
    match queue {
        None if free > 0 => Turn::Now,
        None if place.is_none_or(|place| !place.waits() && !place.leaves()) => Turn::Refused,
        queue => queue.get_or_insert_default().take_turn(waiter, place, free, barging, now),
    }
}

/// Hands on slots that became free.
pub(crate) fn hand_on(queue: &mut Option<Box<Queue>>, was_free: u32, free: u32, now: Timestamp) {
    if let Some(queue) = queue {
        queue.hand_on(was_free, free, now);
    }
}

/// Tells the first waiter of a slot that is granted until `end`, if it ends soon.
pub(crate) fn tell_end(queue: &mut Option<Box<Queue>>, end: Timestamp, now: Timestamp) {
    if let Some(queue) = queue {
        queue.tell_end(end, now);
    }
}

/// How many wait; nobody where there is no queue.
pub(crate) fn count(queue: &mut Option<Box<Queue>>, free: u32, now: Timestamp) -> u64 {
    queue.as_mut().map_or(0, |queue| queue.count(free, now) as u64)
}

/// Takes the hints of a queue; one that holds nothing goes.
pub(crate) fn take_hints(queue: &mut Option<Box<Queue>>) -> Hints {
    let hints = queue.as_mut().map(|queue| queue.take_hints()).unwrap_or_default();
    queue.take_if(|queue| queue.is_vacant());
    hints
}
