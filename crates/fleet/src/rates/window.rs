//! Maximum number of allowed calls for one key in a window, from the point of view of its caller.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Number of slots per window. The watched window is shorter by one slot, because the server's
/// clock may gain that much on ours, which is twice the rate of a clock that is being corrected.
const SLOTS: u32 = 1000;

/// Computes the maximum number of allowed calls that certainly fell into one window.
///
/// A call is decided at some time between when it is sent and when its answer is received. So all
/// calls of a group were decided within one window if the first was sent and the last was answered
/// within it. The maximum is found by counting, at each answer, the calls that were sent in the
/// window that ends with it. Sending times are rounded down to slots, which can only lower the
/// count and bounds the memory for any limit.
#[derive(Debug)]
pub(super) struct WatchedWindow {
    start: Instant,
    /// Length of a slot, ns.
    slot: u128,
    /// Slot numbers and counts, the earliest first.
    sent: VecDeque<(u64, u32)>,
    /// Sum of the counts.
    count: u64,
    most: u64,
}

impl WatchedWindow {
    /// Watches windows of this length. No call may be sent before `start`.
    pub(super) fn new(start: Instant, window: Duration) -> WatchedWindow {
        let slot = (window.as_nanos() / u128::from(SLOTS)).max(1);
        WatchedWindow { start, slot, sent: VecDeque::new(), count: 0, most: 0 }
    }

    /// Records an allowed call. Returns the maximum in a window so far.
    pub(super) fn allowed(&mut self, sent: Instant, received: Instant) -> u64 {
        let (sent, received) = (self.number(sent), self.number(received));
        // A slot that starts at or before the start of the window is outside.
        let oldest = (received + 2).saturating_sub(u64::from(SLOTS));
        while let Some((_, count)) = self.sent.front().filter(|(number, _)| *number < oldest) {
            self.count -= u64::from(*count);
            self.sent.pop_front();
        }
        if sent >= oldest {
            self.add(sent);
            self.count += 1;
        }
        self.most = self.most.max(self.count);
        self.most
    }

    /// Records that a call was sent. Answers may overtake each other, so the slot may be earlier
    /// than the last one.
    fn add(&mut self, number: u64) {
        let at = self.sent.partition_point(|(other, _)| *other < number);
        match self.sent.get_mut(at).filter(|(other, _)| *other == number) {
            Some((_, count)) => *count += 1,
            None => self.sent.insert(at, (number, 1)),
        }
    }

    fn number(&self, instant: Instant) -> u64 {
        let passed = instant.saturating_duration_since(self.start).as_nanos();
        u64::try_from(passed / self.slot).unwrap_or(u64::MAX / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_core::time::monotonic;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// Returns the maximum for calls that were sent and answered at these times in milliseconds.
    fn most(calls: &[(u64, u64)]) -> u64 {
        let start = monotonic();
        let mut seen = WatchedWindow::new(start, MS(1000));
        let counts = calls
            .iter()
            .map(|(sent, received)| seen.allowed(start + MS(*sent), start + MS(*received)));
        counts.last().unwrap_or(0)
    }

    #[test]
    fn calls_within_a_window_are_counted() {
        assert_eq!(most(&[]), 0);
        assert_eq!(most(&[(0, 1), (500, 501), (990, 998)]), 3);
        assert_eq!(most(&[(0, 1), (0, 1), (2000, 2001)]), 2, "the most stays");
    }

    #[test]
    fn calls_that_may_belong_to_another_window_are_not_counted() {
        // Received one window after the first was sent, including drift.
        for last in [999, 1000, 1001] {
            assert_eq!(most(&[(0, 1), (500, last)]), 1, "{last}");
        }
        // Sent in time, received too late.
        assert_eq!(most(&[(0, 1), (10, 1500)]), 1);
        // A call that took longer than a window does not certainly fall into any window.
        assert_eq!(most(&[(0, 1200)]), 0);
    }

    #[test]
    fn answers_may_overtake_each_other() {
        assert_eq!(most(&[(30, 35), (20, 40), (10, 45)]), 3);
        assert_eq!(most(&[(900, 905), (100, 1000), (500, 1090), (950, 1095)]), 4);
        assert_eq!(most(&[(900, 905), (100, 1000), (500, 1110)]), 2);
    }

    #[test]
    fn memory_is_bounded_by_the_slots() {
        let start = monotonic();
        let mut seen = WatchedWindow::new(start, MS(1));
        for micros in 0..100_000 {
            let at = start + Duration::from_micros(micros);
            seen.allowed(at, at);
            seen.allowed(at, at);
        }
        assert!(seen.sent.len() <= SLOTS as usize, "{}", seen.sent.len());
        assert!((1990..=2000).contains(&seen.most), "{}", seen.most);
    }
}
