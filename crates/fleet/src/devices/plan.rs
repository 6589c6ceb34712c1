//! The random behaviour of devices, which depends only on the seed.

use std::time::Duration;

use crate::{options::DeviceOptions, random::Random};

/// How a device behaves with its tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeviceManner {
    /// Runs its tasks and reports.
    Regular,
    /// Takes a task and never reports.
    Silent,
    /// Reports after the end of the lease.
    Late,
    /// Crashes once during a task, restarts and runs it again.
    Crashing,
}

/// The course of one task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TaskPlan {
    /// Duration of the task.
    pub(super) duration: Duration,
    /// How long after its start a crashing device restarts: up to the duration of the task plus one
    /// report interval.
    pub(super) restart_after: Duration,
}

impl TaskPlan {
    /// Draws the next task of a device. Every device draws all values, so that its durations do not
    /// depend on its kind.
    pub(super) fn draw(options: &DeviceOptions, random: &mut Random) -> TaskPlan {
        let duration = options.task_duration.draw(random);
        let crash_after = duration.mul_f64(random.fraction());
        let away = options.report_interval.mul_f64(random.fraction());
        TaskPlan { duration, restart_after: crash_after + away }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::tests::parse;

    #[test]
    fn the_same_seed_is_the_same_plan() {
        let options = parse("--task-duration exp:3s").expect("good flags").device;
        let plan = |seed| TaskPlan::draw(&options, &mut Random::new(seed, 17));
        assert_eq!(plan(5), plan(5));
        assert_ne!(plan(5), plan(6));
        assert!(plan(5).restart_after <= plan(5).duration + options.report_interval);
    }
}
