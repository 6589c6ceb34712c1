//! Waiting in a queue, for every capability whose calls can wait.
//!
//! The queue belongs to the state of a partition. The same atomic step therefore decides about the
//! slot or lock and about the waiter that gets it next. Waiters are served in order of arrival.
//!
//! - A *waiter* is a task or owner whose call waits. Its *ticket* is its entry in the queue; the
//!   ticket number, the time of arrival in µs, gives its position. A ticket ends with the time of
//!   its call, or when the heartbeats of its server stop.
//! - A *wake-up* tells a server that one of its waiters may proceed. It decides nothing: the waiter
//!   asks again. Wake-ups can be lost.
//! - A *heartbeat* keeps the tickets of one server alive. Its answer names the waiters that may
//!   proceed, which makes up for lost wake-ups.
//!
//! A server that shuts down gives up its tickets. If the store outlives the server (Redis), the
//! ticket numbers stay reserved for a while: a waiter that calls another server gets its old
//! position again. A reserved ticket delays no other waiter.

mod heartbeat;
mod queue;

use std::sync::Arc;

use crate::{
    Allowance, Call, Decision,
    time::{Millis, Timestamp},
};

pub use heartbeat::{Heartbeat, HeartbeatAnswer};
pub use queue::{Proceed, Queue, WakeUps};

/// The longest time that a call may wait.
pub const WAIT_MAX: Millis = Millis::from_secs(60);

/// The ticket of a waiting call, as the call states it on each attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingCall {
    /// The number of the call, unique on its server. Wake-ups name it.
    pub number: u64,
    /// The ticket number from the previous answer; 0 before the first. A ticket that the queue has
    /// lost is restored at this position.
    pub ticket: u64,
    /// How much longer the call waits; 0 gives up the ticket, whatever the answer.
    pub wait: Millis,
    /// How long to reserve the ticket number if the call gives up without a grant, so that a call
    /// at another server continues from it; 0 reserves nothing.
    pub ticket_kept: Millis,
    /// How long the queue considers the server alive without a heartbeat.
    pub keep: Millis,
    /// The channel on which the server receives wake-ups.
    pub channel: Arc<str>,
}

impl WaitingCall {
    /// Whether the call waits for capacity.
    fn waits(&self) -> bool {
        self.wait.0 > 0
    }

    /// Whether the call gives up its ticket and reserves the number.
    fn leaves(&self) -> bool {
        !self.waits() && self.ticket_kept.0 > 0
    }

    /// Whether the ticket belongs to this call of this server.
    fn is_of(&self, number: u64, channel: &str) -> bool {
        self.number == number && *self.channel == *channel
    }
}

/// A decision that can wait in a queue for capacity.
pub trait Waits: Decision {
    /// The heartbeat for the queue of its partition.
    type Heartbeat: Decision<Outcome = HeartbeatAnswer>;
    /// The decision that revokes a grant.
    type Revoke: Decision<State = Self::State>;
    /// The configured rules that a waiting call follows; `()` for none.
    type Rules: Send + Sync + 'static;

    /// Returns the ticket that the decision is sent with; `None` if the call does not wait.
    fn waiting(&mut self) -> &mut Option<WaitingCall>;
    /// Applies the settings of newer rules, before the next attempt of a waiting call, so that a
    /// capacity lowered by a reload also applies to calls that are already waiting.
    fn follow(&mut self, _rules: &Self::Rules) {}
    /// Returns the name of the waiter in the queue, such as device and task. One waiter has at most
    /// one ticket.
    fn waiter(&self) -> Vec<u8>;
    /// Returns the heartbeat decision for the queue that this decision waits in.
    fn heartbeat(&self, heartbeat: Heartbeat) -> Self::Heartbeat;
    /// Returns the decision that revokes the grant of this outcome, by its token. `None` if the
    /// outcome grants nothing, or a lease that an earlier call was granted. It leaves a lease with
    /// which another call was answered.
    fn revoke(&self, outcome: &Self::Outcome) -> Option<Self::Revoke>;
    /// Whether the waiter may proceed, according to the outcome.
    fn proceed(outcome: &Self::Outcome) -> Proceed;
    /// Returns when the next lease expires, which may free a slot for a waiter.
    fn frees_in(outcome: &Self::Outcome) -> Option<Millis>;
}

/// Appends the keys of a queue: its order and its tickets.
pub(crate) fn push_keys(call: &mut Call) {
    call.key(&[b"queue"]);
    call.key(&[b"places"]);
}

/// Appends the key of the reserved tickets.
pub(crate) fn push_tickets_key(call: &mut Call) {
    call.key(&[b"tickets"]);
}

/// Appends a ticket as `number ticket wait_ms keep_ms kept_ms channel`; empty for none.
pub(crate) fn push_waiting(call: &mut Call, waiting: Option<&WaitingCall>) {
    let text = waiting.map(|WaitingCall { number, ticket, wait, ticket_kept, keep, channel }| {
        format!("{number} {ticket} {} {} {} {channel}", wait.0, keep.0, ticket_kept.0)
    });
    call.bytes(&[text.unwrap_or_default().as_bytes()]);
}

/// Decides whether a caller may take a free slot. Creates the queue for the first waiter.
pub(crate) fn try_proceed(
    queue: &mut Option<Box<Queue>>,
    waiter: &[u8],
    waiting: Option<&WaitingCall>,
    free: u32,
    barging: bool,
    allowance: &mut Allowance,
    now: Timestamp,
) -> Proceed {
    match queue {
        None if free > 0 => Proceed::Now,
        None if waiting.is_none_or(|waiting| !waiting.waits() && !waiting.leaves()) => {
            Proceed::Refused
        }
        queue => {
            let queue = queue.get_or_insert_default();
            queue.try_proceed(waiter, waiting, free, barging, allowance, now)
        }
    }
}

/// Wakes waiters after slots became free.
pub(crate) fn hand_on(queue: &mut Option<Box<Queue>>, was_free: u32, free: u32, now: Timestamp) {
    if let Some(queue) = queue {
        queue.hand_on(was_free, free, now);
    }
}

/// Wakes the first waiter if a slot is granted only until `end` and that is soon.
pub(crate) fn tell_end(queue: &mut Option<Box<Queue>>, end: Timestamp, now: Timestamp) {
    if let Some(queue) = queue {
        queue.tell_end(end, now);
    }
}

/// Returns the number of waiters; 0 without a queue.
pub(crate) fn count(queue: &mut Option<Box<Queue>>, free: u32, now: Timestamp) -> u64 {
    queue.as_mut().map_or(0, |queue| queue.count(free, now) as u64)
}

/// Takes the wake-ups of a queue, and drops the queue if it is empty.
pub(crate) fn take_wake_ups(queue: &mut Option<Box<Queue>>) -> WakeUps {
    let wake_ups = queue.as_mut().map(|queue| queue.take_wake_ups()).unwrap_or_default();
    queue.take_if(|queue| queue.is_vacant());
    wake_ups
}
