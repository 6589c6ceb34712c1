//! When each actor acts, which depends only on the seed and not on the server's answers.

use std::time::{Duration, Instant};

use tokio::{sync::watch, time::sleep_until};

use super::random::Random;

/// Maximum delay of a report, as a fraction of the interval. A report is never early, because its
/// due time would then be in the future and be used twice.
const JITTER: f64 = 0.1;

/// The end of a run, which its actors wait for.
#[derive(Debug, Default)]
pub(super) struct Stop(watch::Sender<bool>);

impl Stop {
    /// Waits until an instant. Returns false as soon as no new work is to be started.
    pub(super) async fn pause(&self, until: Instant) -> bool {
        let mut stopped = self.0.subscribe();
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stop| *stop) => false,
            () = sleep_until(until.into()) => true,
        }
    }

    /// Lets the actors start no new work.
    pub(super) fn set(&self) {
        self.0.send_replace(true);
    }

    /// Whether no new work is to be started.
    pub(super) fn is_set(&self) -> bool {
        *self.0.borrow()
    }
}

/// Periodic times of one actor.
#[derive(Debug)]
pub(super) struct Periodic {
    random: Random,
    /// The first time, within one interval after the start.
    pub(super) first: Instant,
    interval: Duration,
}

impl Periodic {
    /// Creates the times of an actor, with a random phase.
    pub(super) fn new(mut random: Random, start: Instant, interval: Duration) -> Periodic {
        let first = start + interval.mul_f64(random.fraction());
        Periodic { random, first, interval }
    }

    /// Returns the next time after `now`. Times stay on a grid, so that each actor keeps its phase
    /// and the load stays evenly spread.
    pub(super) fn after(&mut self, now: Instant) -> Instant {
        let passed = now.saturating_duration_since(self.first);
        let periods = passed.as_secs_f64() / self.interval.as_secs_f64();
        let due = periods.floor() + 1.0 + JITTER * self.random.fraction();
        self.first + self.interval.mul_f64(due)
    }
}

/// Single calls at random times, and volleys of several concurrent calls.
#[derive(Debug)]
pub(super) struct Arrivals {
    random: Random,
    sources: Vec<CallSource>,
}

/// Repeated calls.
#[derive(Debug)]
struct CallSource {
    next: Instant,
    /// Mean interval.
    interval: Duration,
    /// Whether the interval is constant; otherwise the calls form a Poisson process.
    is_periodic: bool,
    /// Number of concurrent calls.
    size: u32,
}

impl Arrivals {
    /// Creates the times of an actor: `hits` single calls per second on average, and volleys with a
    /// random phase.
    pub(super) fn new(
        [mut random, mut phase]: [Random; 2],
        start: Instant,
        hits: f64,
        volley: Option<(Duration, u32)>,
    ) -> Arrivals {
        let mut sources = Vec::new();
        if let Some((interval, size)) = volley {
            let next = start + interval.mul_f64(phase.fraction());
            sources.push(CallSource { next, interval, is_periodic: true, size });
        }
        if hits > 0.0 {
            let interval = Duration::from_secs_f64(1.0 / hits);
            let next = start + interval.mul_f64(random.exponential());
            sources.push(CallSource { next, interval, is_periodic: false, size: 1 });
        }
        Arrivals { random, sources }
    }

    /// Returns the time of the next call or volley, and its size.
    pub(super) fn next(&mut self) -> Option<(Instant, u32)> {
        let source = self.sources.iter_mut().min_by_key(|source| source.next)?;
        let due = source.next;
        source.next += if source.is_periodic {
            source.interval
        } else {
            source.interval.mul_f64(self.random.exponential())
        };
        Some((due, source.size))
    }

    /// Postpones all calls that are due earlier to this instant.
    pub(super) fn postpone(&mut self, until: Instant) {
        for source in &mut self.sources {
            source.next = until.max(source.next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_core::time::monotonic;

    const SECOND: Duration = Duration::from_secs(1);

    fn arrivals(start: Instant, hits: f64, volley: (u32, u32)) -> Arrivals {
        let random = [Random::new(1, 0), Random::new(1, 1)];
        Arrivals::new(random, start, hits, Some((SECOND * volley.0, volley.1)))
    }

    #[test]
    fn reports_come_about_once_an_interval() {
        let start = monotonic();
        let mut reports = Periodic::new(Random::new(1, 0), start, SECOND);
        assert!(start <= reports.first && reports.first < start + SECOND);
        let mut now = reports.first;
        for _ in 0..100 {
            let next = reports.after(now);
            assert!(now + SECOND.mul_f64(0.89) < next && next < now + SECOND.mul_f64(1.11));
            now = next;
        }
    }

    #[test]
    fn calls_come_as_often_as_the_options_say() {
        let start = monotonic();
        let counts = |hits, volley| {
            let mut arrivals = arrivals(start, hits, volley);
            let calls = std::iter::from_fn(|| arrivals.next());
            let calls: Vec<_> = calls.take_while(|(due, _)| *due < start + 100 * SECOND).collect();
            assert!(calls.is_sorted_by_key(|(due, _)| *due));
            let volleys = calls.iter().filter(|(_, size)| *size > 1).count();
            (calls.len() - volleys, volleys)
        };
        let (single, volleys) = counts(20.0, (4, 30));
        assert!((1800..2200).contains(&single) && volleys == 25, "{single}, {volleys}");
        assert_eq!(counts(0.0, (50, 2)), (0, 2));
    }

    #[test]
    fn postponed_calls_come_at_that_time() {
        let start = monotonic();
        let mut arrivals = arrivals(start, 20.0, (1, 5));
        arrivals.postpone(start + 9 * SECOND);
        arrivals.postpone(start);
        assert_eq!(arrivals.next(), Some((start + 9 * SECOND, 5)));
        assert_eq!(arrivals.next(), Some((start + 9 * SECOND, 1)));
        assert!(arrivals.next().is_some_and(|(due, _)| due > start + 9 * SECOND));
    }
}
