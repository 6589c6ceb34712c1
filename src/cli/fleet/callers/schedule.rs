//! Times of the calls of a caller. They depend on the seed only.

use std::time::{Duration, Instant};

use super::CallerOptions;
use crate::cli::fleet::dice::Dice;

/// The future calls of one caller.
#[derive(Debug)]
pub(super) struct Schedule {
    dice: Dice,
    /// Time of the next single call, and the mean interval.
    single: Option<(Instant, Duration)>,
    volley: Option<Volley>,
}

#[derive(Debug)]
struct Volley {
    next: Instant,
    every: Duration,
    size: u32,
}

impl Schedule {
    /// Creates the schedule of a caller. Single calls are a Poisson process; volleys are periodic
    /// with a random phase.
    pub(super) fn new(options: &CallerOptions, seed: u64, caller: u32, start: Instant) -> Schedule {
        let stream = 2 * u64::from(caller);
        let mut schedule = Schedule { dice: Dice::new(seed, stream), single: None, volley: None };
        if options.hits > 0.0 {
            let mean = Duration::from_secs_f64(1.0 / options.hits);
            schedule.single = Some((start + schedule.gap(mean), mean));
        }
        if let Some(size) = options.volley {
            let every = options.volley_every;
            let phase = every.mul_f64(Dice::new(seed, stream + 1).fraction());
            schedule.volley = Some(Volley { next: start + phase, every, size });
        }
        schedule
    }

    /// Returns the time of the next call or volley, and its size. Answers of the server do not
    /// influence it.
    pub(super) fn next(&mut self) -> Option<(Instant, u32)> {
        let single = self.single.map(|(next, _)| next);
        if let Some(volley) = &mut self.volley
            && single.is_none_or(|single| volley.next <= single)
        {
            let due = volley.next;
            volley.next += volley.every;
            return Some((due, volley.size));
        }
        let (due, mean) = self.single?;
        self.single = Some((due + self.gap(mean), mean));
        Some((due, 1))
    }

    /// Postpones calls that are due before an instant; later calls follow from there.
    pub(super) fn postpone(&mut self, until: Instant) {
        if let Some((next, _)) = &mut self.single {
            *next = until.max(*next);
        }
        if let Some(volley) = &mut self.volley {
            volley.next = until.max(volley.next);
        }
    }

    fn gap(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(self.dice.exponential())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::{cli::fleet::FleetOptions, decision::time::monotonic};

    const SECOND: Duration = Duration::from_secs(1);

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        fleet: FleetOptions,
    }

    fn schedule(flags: &str, seed: u64, start: Instant) -> Schedule {
        let arguments = ["fleet", "--rate"].into_iter().chain(flags.split_whitespace());
        let options = Cli::try_parse_from(arguments).expect("good flags").fleet.callers;
        Schedule::new(&options, seed, 3, start)
    }

    /// Single calls and volleys of the first 100 seconds.
    fn counts(flags: &str) -> (usize, usize) {
        let start = monotonic();
        let mut schedule = schedule(flags, 1, start);
        let calls = std::iter::from_fn(|| schedule.next());
        let calls: Vec<_> = calls.take_while(|(due, _)| *due < start + 100 * SECOND).collect();
        assert!(calls.is_sorted_by_key(|(due, _)| *due));
        let volleys = calls.iter().filter(|(_, size)| *size > 1).count();
        (calls.len() - volleys, volleys)
    }

    #[test]
    fn calls_come_as_often_as_asked_for() {
        let (single, volleys) = counts("--hits 20 --volley 30 --volley-every 4s");
        assert!((1800..2200).contains(&single), "{single}");
        assert_eq!(volleys, 25);
        assert_eq!(counts("--hits 0 --volley 2 --volley-every 50s"), (0, 2));
    }

    #[test]
    fn the_same_seed_is_the_same_schedule() {
        let start = monotonic();
        let first = |seed| {
            let mut schedule = schedule("--volley 5", seed, start);
            [schedule.next(), schedule.next(), schedule.next()]
        };
        assert_eq!(first(5), first(5));
        assert_ne!(first(5), first(6));
    }

    #[test]
    fn what_is_put_off_comes_then() {
        let start = monotonic();
        let mut schedule = schedule("--hits 20 --volley 5 --volley-every 1s", 1, start);
        schedule.postpone(start + 9 * SECOND);
        schedule.postpone(start);
        assert_eq!(schedule.next(), Some((start + 9 * SECOND, 5)));
        assert_eq!(schedule.next(), Some((start + 9 * SECOND, 1)));
        assert!(schedule.next().is_some_and(|(due, _)| due > start + 9 * SECOND));
    }
}
