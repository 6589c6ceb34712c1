//! Rates of events.

/// Length of the averaging window, seconds.
const OVER: u64 = 5;

/// Event counts of the last few seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct EventRate {
    /// A ring of counts per second, including the current second.
    counts: [u64; OVER as usize + 1],
    /// The second of the newest count.
    second: u64,
}

impl EventRate {
    /// Adds `count` events in a second.
    pub(super) fn add(&mut self, count: u64, second: u64) {
        self.advance(second);
        self.counts[(second % (OVER + 1)) as usize] += count;
    }

    /// Returns the events per second over the complete seconds of the window. `since` is the second
    /// in which counting began.
    pub(super) fn per_second(&self, second: u64, since: u64) -> f64 {
        let mut now = *self;
        now.advance(second);
        now.counts[(second % (OVER + 1)) as usize] = 0;
        let seconds = second.saturating_sub(since).clamp(1, OVER);
        now.counts.iter().sum::<u64>() as f64 / seconds as f64
    }

    /// Clears the counts of seconds outside the window.
    fn advance(&mut self, second: u64) {
        for passed in (self.second + 1..=second).rev().take(self.counts.len()) {
            self.counts[(passed % (OVER + 1)) as usize] = 0;
        }
        self.second = self.second.max(second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_covers_the_last_five_seconds() {
        let mut rate = EventRate::default();
        (0..20).for_each(|second| rate.add(second, second));
        assert_eq!(rate.per_second(19, 0), (14 + 15 + 16 + 17 + 18) as f64 / 5.0);
        assert_eq!(rate.per_second(22, 0), (17 + 18 + 19) as f64 / 5.0);
        assert_eq!(rate.per_second(25, 0), 0.0);
        assert_eq!(rate.per_second(1_000_000, 0), 0.0);
        let mut young = EventRate::default();
        young.add(6, 100);
        young.add(3, 101);
        assert_eq!(young.per_second(102, 100), 4.5);
    }
}
