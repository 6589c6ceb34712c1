//! Load shedding: rejects calls that cannot be answered in time, before they cost anything.
//!
//! The calls of a worker thread wait in one queue, in order of arrival. A call is in the queue from
//! the moment its headers are read until its handler starts.
//!
//! # The expected wait
//! The expected wait of a new call is the sum of two times:
//! - the queue: the number of calls ahead, multiplied by the measured time per call (Little's law);
//! - the socket: the bytes of the call have waited there for about one round of the queue, which is
//!   the measured wait of the last calls.
//!
//! # The rule
//! - A call is rejected if its expected wait exceeds the time until its deadline.
//! - A burst is not overload (as in CoDel). The queue is *standing* if no call of the last 100 ms
//!   waited less than 10 ms. While the queue is standing and longer than 20 ms, the expected wait
//!   may use only a quarter of the time until the deadline. This keeps the queue short. It rejects
//!   callers with little time first, because they are the most likely to have given up already.
//! - Calls that free capacity may wait for all of their time. They overtake a queue that is longer
//!   than 20 ms. Health checks always overtake.
//! - When 32 or more calls are queued, those of tenants that have used little of this thread skip the
//!   queue. They are not rejected ([`tenants`]).
//!
//! Sources: K. Nichols and V. Jacobson, "Controlling Queue Delay"; Netflix's concurrency-limits;
//! "Handling Overload" in Google's SRE book.

mod tenants;
#[cfg(test)]
mod tests;

use std::{
    cell::{Cell, RefCell},
    time::Duration,
};

use hyper::Response;

use self::tenants::TenantCalls;
use crate::{fast_path::AnswerBody, rejections::Rejections};
use tollgate_telemetry::{coarse, limits::ReachedLimit};

/// A queue with fewer calls is not measured and rejects nothing.
const FEW: u32 = 32;
/// The number of calls that are still timed after the queue has become shorter than [`FEW`]. An
/// idle server therefore does not read the clock here.
const TIMED: u32 = 1024;
/// The time allowed for a call without a deadline.
const NO_DEADLINE: Duration = Duration::from_secs(4);
/// In a standing queue, a call may wait for its remaining time divided by this.
const STANDING_DIVISOR: u64 = 4;
/// The queue is standing if each call of an interval has waited longer than this, in µs.
const TARGET: u64 = 10_000;
/// The interval, in µs.
const INTERVAL: u64 = 100_000;
/// A queue up to this length, in µs, rejects no call that it can start in time.
const SHORT: u64 = 20_000;
/// The assumed time per call until it is measured, in ns.
const EACH: u64 = 20_000;

/// The queue of a thread. Times are in µs, except for `each`.
#[derive(Debug)]
struct CallQueue {
    /// The number of waiting calls.
    waiting: Cell<u32>,
    /// The number of calls that are still timed.
    timed: Cell<u32>,
    /// The wait of the last calls, a moving average.
    lag: Cell<u64>,
    /// The time per call, a moving average, in ns.
    each: Cell<u64>,
    /// The shortest wait of the current interval.
    least: Cell<u64>,
    /// The end of the current interval.
    end: Cell<u64>,
    /// Whether the queue was standing in the previous interval.
    stands: Cell<bool>,
    /// Whether the task of the current call is polled before the queue.
    is_first: Cell<bool>,
    /// The number of rejected calls.
    rejected: Cell<usize>,
    /// The recent calls of each tenant.
    tenants: RefCell<TenantCalls>,
}

thread_local! {
    static QUEUE: CallQueue = const { CallQueue::new() };
}

/// The arrival of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Arrival {
    at: u64,
    /// The time by which the call must start.
    until: u64,
    /// The number of calls ahead of it.
    ahead: u32,
}

/// A call in the queue. It leaves the queue when it starts or is dropped.
#[derive(Debug)]
pub(crate) struct QueuedCall {
    /// `None` if the call is not timed.
    arrival: Option<Arrival>,
    is_waiting: bool,
}

impl CallQueue {
    const fn new() -> CallQueue {
        CallQueue {
            waiting: Cell::new(0),
            timed: Cell::new(0),
            lag: Cell::new(0),
            each: Cell::new(EACH),
            least: Cell::new(0),
            end: Cell::new(0),
            stands: Cell::new(false),
            is_first: Cell::new(false),
            rejected: Cell::new(0),
            tenants: RefCell::new(TenantCalls::new()),
        }
    }

    /// Whether the next call is timed: while the queue is long, and for [`TIMED`] calls afterwards.
    fn is_timed(&self) -> bool {
        let timed = match self.waiting.get() {
            FEW.. => TIMED,
            _ => self.timed.get().saturating_sub(1),
        };
        self.timed.set(timed);
        timed > 0
    }

    /// Whether a call is accepted that arrives `now` and must be answered within `time`.
    fn accepts(&self, now: u64, time: u64, is_freeing: bool) -> bool {
        let waiting = self.waiting.get();
        if waiting < FEW {
            // Accepted even if the last calls waited long, because without new calls nothing would
            // be measured.
            return true;
        }
        let own = self.length();
        if own <= SHORT.min(time) {
            // In a short queue, a late call was delayed by the network or the processor.
            return true;
        }
        // Old measurements do not count.
        let is_fresh = now < self.end.get() + INTERVAL;
        let lag = if is_fresh { self.lag.get() } else { 0 };
        let is_standing = is_fresh && self.stands.get();
        let divisor = if is_standing && !is_freeing { STANDING_DIVISOR } else { 1 };
        lag + own <= time / divisor
    }

    /// Counts a call of this tenant that arrives `now`. Returns whether it skips the queue.
    fn count_skips(&self, tenant: &[u8], now: u64) -> bool {
        self.tenants.borrow_mut().count(tenant, now) && self.waiting.get() >= FEW
    }

    fn is_shared(&self) -> bool {
        self.timed.get() > 0 && self.tenants.borrow().are_several()
    }

    /// Returns the time that the calls in the queue take, in µs.
    fn length(&self) -> u64 {
        u64::from(self.waiting.get()) * self.each.get() / 1000
    }

    /// Measures a call that starts `now`.
    fn measure(&self, arrival: Arrival, now: u64) {
        let waited = now.saturating_sub(arrival.at);
        self.lag.set((self.lag.get() * 3 + waited) / 4);
        if arrival.ahead >= FEW {
            let each = waited * 1000 / u64::from(arrival.ahead);
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

impl QueuedCall {
    /// Whether the call is timed, because its queue is longer than usual.
    pub(crate) fn is_timed(&self) -> bool {
        self.arrival.is_some()
    }

    /// Starts the call. Returns false if its time has run out.
    pub(crate) fn start(mut self) -> bool {
        if !std::mem::take(&mut self.is_waiting) {
            return true;
        }
        QUEUE.with(|queue| {
            queue.leave();
            let Some(arrival) = self.arrival else { return true };
            let now = micros();
            queue.measure(arrival, now);
            now < arrival.until
        })
    }
}

impl Drop for QueuedCall {
    fn drop(&mut self) {
        if self.is_waiting {
            QUEUE.with(CallQueue::leave);
        }
    }
}

fn micros() -> u64 {
    coarse().as_micros() as u64
}

/// Puts a call into the queue of this thread. Returns `None` if it must be rejected. `is_freeing`
/// means that it frees capacity or keeps a resource that its caller uses; `tenant` is called only
/// if the queue is long.
pub(crate) fn enqueue<'t>(
    is_freeing: bool,
    timeout: Option<Duration>,
    tenant: impl FnOnce() -> &'t [u8],
) -> Option<QueuedCall> {
    QUEUE.with(|queue| {
        let ahead = queue.waiting.get();
        let mut arrival = None;
        if queue.is_timed() {
            let time = timeout.unwrap_or(NO_DEADLINE).as_micros() as u64;
            let now = micros();
            let is_light = queue.count_skips(tenant(), now);
            if !is_light && !queue.accepts(now, time, is_freeing) {
                return None;
            }
            // In a short queue, a call gains nothing by going first, and its early answer costs the
            // connection a separate write.
            if is_light || is_freeing && queue.length() > SHORT {
                queue.is_first.set(true);
                return Some(QueuedCall { arrival: None, is_waiting: false });
            }
            arrival = Some(Arrival { at: now, until: now.saturating_add(time), ahead });
        }
        queue.waiting.set(ahead + 1);
        Some(QueuedCall { arrival, is_waiting: true })
    })
}

/// Lets the task of the current call be polled before the queue.
pub(crate) fn mark_first() {
    QUEUE.with(|queue| queue.is_first.set(true));
}

/// Whether the task of the last call must be polled before the queue. Resets the mark.
pub(crate) fn take_is_first() -> bool {
    QUEUE.with(|queue| queue.is_first.take())
}

/// Whether several tenants share the queue of this thread, and it was long recently.
pub(crate) fn is_shared() -> bool {
    QUEUE.with(CallQueue::is_shared)
}

/// Returns the answer to a call that cannot be answered in time, and counts it.
pub(crate) fn overloaded(rejections: &Rejections) -> Response<AnswerBody> {
    ReachedLimit::Overload.record();
    let number = QUEUE.with(|queue| queue.rejected.replace(queue.rejected.get().wrapping_add(1)));
    let mut response = Response::new(AnswerBody::default());
    *response.headers_mut() = rejections.overloaded(number);
    response
}
