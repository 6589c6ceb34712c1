//! Refuses calls that cannot be answered in time, before they cost anything.
//!
//! A worker's calls wait in one queue, first in first out, from the reading of their headers
//! to the start of their handler. By Little's law a further call waits as long as the calls
//! ahead of it take, each the measured time per call; its bytes have waited in the socket for
//! as long as one round of the queue takes, which is what the last call waited. The sum must be
//! within the caller's time. As in CoDel a burst is no overload: only where no call of the last
//! 100 ms waited less than 10 ms, and the queue is longer than 20 ms, the sum must be within a
//! quarter of it, so that the queue stays short, and callers with little time, whose calls are
//! the likeliest to be dead already, are refused first. Calls that free capacity have their
//! whole time, and are polled before a queue that is longer than 20 ms, as health checks always
//! are. Sources: K. Nichols and V. Jacobson, "Controlling Queue Delay";
//! Netflix's concurrency-limits; "Handling Overload" in Google's SRE book.

use std::{cell::Cell, sync::LazyLock, time::Duration};

use hyper::{HeaderMap, Response};

use super::{fast_path::answer::AnswerBody, status};
use crate::decision::{
    budget::{self, Limit},
    time::coarse,
};

/// So many calls in the queue are no load.
const FEW: u32 = 32;
/// So many calls are timed after the last that found more; as a rule no clock is looked at.
const TIMED: u32 = 1024;
/// What a caller has who sets no deadline.
const NO_DEADLINE: Duration = Duration::from_secs(4);
/// The part of its caller's time that a call may wait in a queue that stands.
const SHARE: u64 = 4;
/// A queue stands if each call of an interval has waited longer.
const TARGET: u64 = 10_000;
const INTERVAL: u64 = 100_000;
/// A queue of so long a time is short: refusing its calls would make nobody's wait shorter.
const SHORT: u64 = 20_000;
/// The time of a call until it is measured.
const EACH: u64 = 20_000;
/// How long refused callers are told to wait: in turn, so that they do not come back together.
const RETRY_MILLIS: [u64; 8] = [100, 260, 180, 340, 140, 300, 220, 380];

/// The rpcs that free capacity or keep what is held: the sooner they are answered the more
/// others can be.
const FREEING: [&str; 6] = [
    "CompleteTask",
    "RenewTask",
    "ReleaseLock",
    "RenewLock",
    "ConfirmReservation",
    "CancelReservation",
];

/// Whether an rpc frees capacity or keeps what is held.
pub(super) fn is_freeing(method: &str) -> bool {
    FREEING.contains(&method)
}

/// The queue of a thread. Times are in microseconds, that of a call in nanoseconds.
#[derive(Debug)]
struct Queue {
    waiting: Cell<u32>,
    /// Further calls of which the clock is looked at.
    timed: Cell<u32>,
    /// How long the last calls waited.
    lag: Cell<u64>,
    /// The time of a call.
    each: Cell<u64>,
    /// The shortest wait of this interval, and the interval's end.
    least: Cell<u64>,
    end: Cell<u64>,
    /// Whether the queue stood in the interval before.
    stands: Cell<bool>,
    /// The next call's task is to be polled before the queue.
    is_first: Cell<bool>,
    refused: Cell<usize>,
}

thread_local! {
    static QUEUE: Queue = const { Queue::new() };
}

/// A call that came to a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Came {
    at: u64,
    /// By when it has to be started.
    until: u64,
    ahead: u32,
}

/// A call that was taken.
#[derive(Debug)]
pub(super) struct Ticket {
    came: Option<Came>,
    is_waiting: bool,
}

impl Queue {
    const fn new() -> Queue {
        Queue {
            waiting: Cell::new(0),
            timed: Cell::new(0),
            lag: Cell::new(0),
            each: Cell::new(EACH),
            least: Cell::new(0),
            end: Cell::new(0),
            stands: Cell::new(false),
            is_first: Cell::new(false),
            refused: Cell::new(0),
        }
    }

    /// Whether calls of now are timed: since many waited, and for some calls more.
    fn is_timed(&self) -> bool {
        let timed = match self.waiting.get() {
            FEW.. => TIMED,
            _ => self.timed.get().saturating_sub(1),
        };
        self.timed.set(timed);
        timed > 0
    }

    /// Whether a call that comes now with so much time can be answered within it.
    fn takes(&self, now: u64, time: u64, is_freeing: bool) -> bool {
        let waiting = self.waiting.get();
        if waiting < FEW {
            // However long the last ones waited: else nothing would be measured any more.
            return true;
        }
        let own = self.length();
        if own <= SHORT.min(time) {
            // Who is late has waited before: on the way, or for the processor.
            return true;
        }
        // What was measured long ago says nothing.
        let is_fresh = now < self.end.get() + INTERVAL;
        let lag = if is_fresh { self.lag.get() } else { 0 };
        let share = if is_fresh && self.stands.get() && !is_freeing { SHARE } else { 1 };
        lag + own <= time / share
    }

    /// The time that the calls in the queue take, in µs.
    fn length(&self) -> u64 {
        u64::from(self.waiting.get()) * self.each.get() / 1000
    }

    /// Notes that a call is started now.
    fn note(&self, came: Came, now: u64) {
        let waited = now.saturating_sub(came.at);
        self.lag.set((self.lag.get() * 3 + waited) / 4);
        if came.ahead >= FEW {
            let each = waited * 1000 / u64::from(came.ahead);
            self.each.set((self.each.get() * 63 + each) / 64);
        }
        if now < self.end.get() {
            self.least.set(self.least.get().min(waited));
        } else {
            self.stands.set(self.least.get() > TARGET && now < self.end.get() + INTERVAL);
            self.least.set(waited);
            self.end.set(now + INTERVAL);
        }
    }

    fn leave(&self) {
        self.waiting.set(self.waiting.get().saturating_sub(1));
    }
}

impl Ticket {
    /// Whether its queue is longer than usual.
    pub(super) fn is_timed(&self) -> bool {
        self.came.is_some()
    }

    /// Starts the call; false if it is too late for it.
    pub(super) fn start(mut self) -> bool {
        if !std::mem::take(&mut self.is_waiting) {
            return true;
        }
        QUEUE.with(|queue| {
            queue.leave();
            let Some(came) = self.came else { return true };
            let now = micros();
            queue.note(came, now);
            now < came.until
        })
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.is_waiting {
            QUEUE.with(Queue::leave);
        }
    }
}

fn micros() -> u64 {
    coarse().as_micros() as u64
}

/// Takes a call into the queue of this thread; none if it is to be refused.
pub(super) fn enter(method: &str, timeout: Option<Duration>) -> Option<Ticket> {
    QUEUE.with(|queue| {
        let ahead = queue.waiting.get();
        let mut came = None;
        if queue.is_timed() {
            let time = timeout.unwrap_or(NO_DEADLINE).as_micros() as u64;
            let (now, is_freeing) = (micros(), is_freeing(method));
            if !queue.takes(now, time, is_freeing) {
                return None;
            }
            // In a short queue a call gains nothing by going first, and its early answer costs the
            // connection a write of its own.
            if is_freeing && queue.length() > SHORT {
                queue.is_first.set(true);
                return Some(Ticket { came: None, is_waiting: false });
            }
            came = Some(Came { at: now, until: now.saturating_add(time), ahead });
        }
        queue.waiting.set(ahead + 1);
        Some(Ticket { came, is_waiting: true })
    })
}

/// Has the task of the call that is being handled polled before the queue.
pub(super) fn go_first() {
    QUEUE.with(|queue| queue.is_first.set(true));
}

/// Whether the task of the call that was handled last is to be polled before the queue.
pub fn takes_first() -> bool {
    QUEUE.with(|queue| queue.is_first.take())
}

/// The answer to a call that cannot be answered in time: encoded once.
pub(super) fn refusal() -> Response<AnswerBody> {
    static REFUSALS: LazyLock<[HeaderMap; RETRY_MILLIS.len()]> = LazyLock::new(|| {
        RETRY_MILLIS.map(|after| {
            let status = status::overloaded(Duration::from_millis(after));
            status.into_http::<AnswerBody>().into_parts().0.headers
        })
    });
    budget::note(Limit::Overload);
    let turn = QUEUE.with(|queue| queue.refused.replace(queue.refused.get().wrapping_add(1)));
    let mut response = Response::new(AnswerBody::default());
    *response.headers_mut() = REFUSALS[turn % RETRY_MILLIS.len()].clone();
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1000;

    /// Has calls come and go at a pace, for so long from then on: every `each` microseconds
    /// one that waits `wait`, with as many in the queue as that makes.
    fn run(queue: &Queue, now: &mut u64, time: u64, each: u64, wait: u64) {
        let ahead = (wait / each) as u32;
        queue.waiting.set(ahead);
        for _ in 0..time / each {
            *now += each;
            queue.note(Came { at: *now - wait, until: u64::MAX, ahead }, *now);
        }
    }

    #[test]
    fn an_unloaded_queue_looks_at_no_clock() {
        let queue = Queue::new();
        queue.waiting.set(FEW - 1);
        assert!(!queue.is_timed() && queue.takes(0, 0, false));
        queue.waiting.set(FEW);
        assert!(queue.is_timed());
        queue.waiting.set(0);
        let more = (0..2 * TIMED).filter(|_| queue.is_timed()).count();
        assert_eq!(more, TIMED as usize - 1);
    }

    #[test]
    fn a_burst_is_taken_as_far_as_it_is_answered_in_time() {
        let (queue, mut now) = (Queue::new(), 10_000 * MILLI);
        run(&queue, &mut now, 500 * MILLI, 100, 4 * MILLI);
        assert!((90..110).contains(&(queue.each.get() / 1000)), "{queue:?}");
        queue.waiting.set(1900);
        assert!(queue.takes(now, 200 * MILLI, false));
        queue.waiting.set(2100);
        assert!(!queue.takes(now, 200 * MILLI, false));
        assert!(queue.takes(now, 300 * MILLI, false));
    }

    #[test]
    fn in_a_queue_that_stands_calls_with_little_time_are_refused_first() {
        let (queue, mut now) = (Queue::new(), 10_000 * MILLI);
        run(&queue, &mut now, 500 * MILLI, 100, 50 * MILLI);
        // 50 ms in the socket and 50 ms in the queue.
        assert!(!queue.takes(now, 300 * MILLI, false) && queue.takes(now, 500 * MILLI, false));
        assert!(queue.takes(now, 300 * MILLI, true), "it frees capacity");
        assert!(!queue.takes(now, 50 * MILLI, true), "it would be too late");
    }

    #[test]
    fn what_was_measured_long_ago_is_forgotten() {
        let (queue, mut now) = (Queue::new(), 10_000 * MILLI);
        run(&queue, &mut now, 500 * MILLI, 100, 50 * MILLI);
        now += 1000 * MILLI;
        assert!(queue.takes(now, 300 * MILLI, false));
        // And a queue that is short again stands no longer.
        run(&queue, &mut now, 300 * MILLI, 100, 50 * MILLI);
        run(&queue, &mut now, 300 * MILLI, 100, 5 * MILLI);
        queue.waiting.set(500);
        assert!(queue.takes(now, 300 * MILLI, false));
    }

    #[test]
    fn few_calls_are_taken_however_long_the_last_ones_waited() {
        let (queue, mut now) = (Queue::new(), 10_000 * MILLI);
        run(&queue, &mut now, 500 * MILLI, 1000, 900 * MILLI);
        assert!(!queue.takes(now, 200 * MILLI, false));
        queue.waiting.set(FEW - 1);
        assert!(queue.takes(now, 200 * MILLI, false));
    }

    #[test]
    fn a_refusal_says_why_and_when_to_come_back() {
        use tonic_types::StatusExt;
        let waits: Vec<_> = (0..RETRY_MILLIS.len())
            .map(|_| {
                let status = tonic::Status::from_header_map(refusal().headers()).unwrap();
                assert_eq!(status.code(), tonic::Code::ResourceExhausted);
                assert_eq!(status.get_details_error_info().unwrap().reason, "OVERLOADED");
                status.get_details_retry_info().unwrap().retry_delay.unwrap()
            })
            .collect();
        assert!(waits.iter().any(|wait| *wait != waits[0]));
    }
}
