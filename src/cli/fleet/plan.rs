//! The random behaviour of a run. It depends on the seed only; answers of the server do not
//! influence it.

use std::time::{Duration, Instant};

use super::{dice::Dice, options::FleetOptions, task_duration::TaskDuration};

/// Random streams: the first for the fleet, then two for each device.
const KINDS: u64 = 0;

/// Maximum delay of a report, as a share of the interval. A report is never early, because its due
/// time would then still be in the future and be used twice.
const JITTER: f64 = 0.1;

/// Behaviour of a device with its tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Manner {
    /// Runs its tasks and reports.
    Regular,
    /// Takes a task and never reports.
    Silent,
    /// Reports after the end of the lease.
    Late,
    /// Crashes once during a task, restarts and runs it again.
    Crashing,
}

/// Behaviour of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    /// Behaviour with tasks.
    pub(super) manner: Manner,
    /// Whether it sends each message twice.
    pub(super) twice: bool,
}

/// The course of one task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TaskPlan {
    /// Duration of the task.
    pub(super) duration: Duration,
    /// Time after which a crashing device crashes.
    pub(super) crash_after: Duration,
    /// Time until a crashed device restarts: up to one report interval.
    pub(super) away: Duration,
}

/// Returns the kinds of all devices. Shares are exact: 10 % of 2,000 are 200 devices.
pub(super) fn kinds(options: &FleetOptions, seed: u64) -> Vec<Kind> {
    let devices = options.devices as usize;
    let mut dice = Dice::new(seed, KINDS);
    // Shares are summed before rounding, so that shares of 100 % give exactly all devices.
    let upto = |share: f64| ((share * devices as f64).round() as usize).min(devices);
    let silent = upto(options.silent);
    let late = upto(options.silent + options.late);
    let crashing = upto(options.silent + options.late + options.crashes);
    let manner = |rank| match rank {
        rank if rank < silent => Manner::Silent,
        rank if rank < late => Manner::Late,
        rank if rank < crashing => Manner::Crashing,
        _ => Manner::Regular,
    };
    let mut manners: Vec<Manner> = (0..devices).map(manner).collect();
    dice.shuffle(&mut manners);
    let mut twice: Vec<bool> = (0..devices).map(|rank| rank < upto(options.duplicates)).collect();
    dice.shuffle(&mut twice);
    manners.into_iter().zip(twice).map(|(manner, twice)| Kind { manner, twice }).collect()
}

/// The tasks of one device, in order.
#[derive(Debug)]
pub(super) struct Tasks {
    dice: Dice,
    duration: TaskDuration,
    report_interval: Duration,
}

impl Tasks {
    /// Creates the tasks of a device.
    pub(super) fn new(options: &FleetOptions, seed: u64, device: u32) -> Tasks {
        Tasks {
            dice: Dice::new(seed, 1 + 2 * u64::from(device)),
            duration: options.task_duration,
            report_interval: options.report_interval,
        }
    }

    /// Draws the next task. Every device draws all values, so that its durations do not depend on
    /// its kind.
    pub(super) fn next(&mut self) -> TaskPlan {
        let duration = self.duration.draw(&mut self.dice);
        let crash_after = duration.mul_f64(self.dice.fraction());
        let away = self.report_interval.mul_f64(self.dice.fraction());
        TaskPlan { duration, crash_after, away }
    }
}

/// Times of the reports of one device.
#[derive(Debug)]
pub(super) struct Reports {
    dice: Dice,
    first: Instant,
    interval: Duration,
}

impl Reports {
    /// Creates the reports of a device. The first is within one interval after `start`.
    pub(super) fn new(options: &FleetOptions, seed: u64, device: u32, start: Instant) -> Reports {
        let mut dice = Dice::new(seed, 2 + 2 * u64::from(device));
        let first = start + options.report_interval.mul_f64(dice.fraction());
        Reports { dice, first, interval: options.report_interval }
    }

    /// Returns the time of the first report.
    pub(super) fn first(&self) -> Instant {
        self.first
    }

    /// Returns the time of the next report after `now`. Reports stay on a grid, so that each device
    /// keeps its phase and the fleet stays spread.
    pub(super) fn after(&mut self, now: Instant) -> Instant {
        let passed = now.saturating_duration_since(self.first);
        let periods = passed.as_secs_f64() / self.interval.as_secs_f64();
        let due = periods.floor() + 1.0 + JITTER * self.dice.fraction();
        self.first + self.interval.mul_f64(due)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::decision::time::monotonic;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        fleet: FleetOptions,
    }

    fn options(flags: &str) -> FleetOptions {
        let arguments = ["fleet"].into_iter().chain(flags.split_whitespace());
        Cli::try_parse_from(arguments).expect("good flags").fleet
    }

    fn count(kinds: &[Kind], manner: Manner) -> usize {
        kinds.iter().filter(|kind| kind.manner == manner).count()
    }

    #[test]
    fn shares_are_exact_whatever_the_seed() {
        let mixed =
            options("--devices 2000 --silent 10% --late 10% --crashes 5% --duplicates 0.05");
        for seed in 0..20 {
            let kinds = kinds(&mixed, seed);
            assert_eq!(kinds.len(), 2000);
            assert_eq!(count(&kinds, Manner::Silent), 200);
            assert_eq!(count(&kinds, Manner::Late), 200);
            assert_eq!(count(&kinds, Manner::Crashing), 100);
            assert_eq!(count(&kinds, Manner::Regular), 1500);
            assert_eq!(kinds.iter().filter(|kind| kind.twice).count(), 100);
        }
    }

    #[test]
    fn shares_of_everything_leave_nobody_out() {
        let halves = kinds(&options("--devices 3 --silent 50% --late 50%"), 1);
        assert_eq!(count(&halves, Manner::Silent) + count(&halves, Manner::Late), 3);
        assert_eq!(count(&kinds(&options("--devices 7 --crashes 100%"), 1), Manner::Crashing), 7);
    }

    #[test]
    fn the_same_seed_is_the_same_plan() {
        let mixed = options("--devices 50 --silent 20% --crashes 20% --task-duration exp:3s");
        let plan = |seed| {
            let mut tasks = Tasks::new(&mixed, seed, 17);
            (kinds(&mixed, seed), [tasks.next(), tasks.next(), tasks.next()])
        };
        assert_eq!(plan(5), plan(5));
        assert_ne!(plan(5).0, plan(6).0);
        assert_ne!(plan(5).1, plan(6).1);
    }

    #[test]
    fn crashes_come_in_mid_task() {
        let mut tasks = Tasks::new(&options("--report-interval 1s"), 1, 0);
        for _ in 0..100 {
            let plan = tasks.next();
            assert!(plan.crash_after <= plan.duration && plan.away <= Duration::from_secs(1));
        }
    }

    #[test]
    fn reports_come_about_once_an_interval() {
        let (start, interval) = (monotonic(), Duration::from_secs(1));
        let mut reports = Reports::new(&options("--report-interval 1s"), 1, 0, start);
        assert!(start <= reports.first() && reports.first() < start + interval);
        let mut now = reports.first();
        for _ in 0..100 {
            let next = reports.after(now);
            assert!(now + interval.mul_f64(0.89) < next && next < now + interval.mul_f64(1.11));
            now = next;
        }
    }
}
