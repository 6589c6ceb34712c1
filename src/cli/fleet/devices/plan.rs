//! The random behaviour of devices. It depends on the seed only.

use std::time::Duration;

use crate::cli::fleet::{options::DeviceOptions, random::Random, task_duration::TaskDuration};

/// Behaviour of a device with its tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// Time after which a crashing device restarts: during the task, plus up to one report
    /// interval.
    pub(super) restart_after: Duration,
}

/// Returns the kinds of all devices.
pub(super) fn kinds(options: &DeviceOptions, mut random: Random) -> Vec<Kind> {
    let shares = [
        (Manner::Silent, options.silent),
        (Manner::Late, options.late),
        (Manner::Crashing, options.crashes),
    ];
    let manners = random.deal(options.devices, &shares, Manner::Regular);
    let twice = random.deal(options.devices, &[(true, options.duplicates)], false);
    manners.into_iter().zip(twice).map(|(manner, twice)| Kind { manner, twice }).collect()
}

/// The tasks of one device, in order.
#[derive(Debug)]
pub(super) struct Tasks {
    random: Random,
    duration: TaskDuration,
    report_interval: Duration,
}

impl Tasks {
    /// Creates the tasks of a device.
    pub(super) fn new(options: &DeviceOptions, random: Random) -> Tasks {
        let DeviceOptions { task_duration: duration, report_interval, .. } = *options;
        Tasks { random, duration, report_interval }
    }

    /// Draws the next task. Every device draws all values, so that its durations do not depend on
    /// its kind.
    pub(super) fn next(&mut self) -> TaskPlan {
        let duration = self.duration.draw(&mut self.random);
        let crash_after = duration.mul_f64(self.random.fraction());
        let away = self.report_interval.mul_f64(self.random.fraction());
        TaskPlan { duration, restart_after: crash_after + away }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::fleet::options::tests::parse;

    #[test]
    fn the_same_seed_is_the_same_plan() {
        let flags = "--devices 50 --silent 20% --crashes 20% --task-duration exp:3s";
        let options = parse(flags).expect("good flags").device;
        let plan = |seed| {
            let mut tasks = Tasks::new(&options, Random::new(seed, 17));
            (kinds(&options, Random::new(seed, 0)), [tasks.next(), tasks.next()])
        };
        assert_eq!(plan(5), plan(5));
        assert_ne!(plan(5).0, plan(6).0);
        assert_ne!(plan(5).1, plan(6).1);
        let interval = options.report_interval;
        assert!(plan(5).1.iter().all(|plan| plan.restart_after <= plan.duration + interval));
    }
}
