//! Queued tasks: queues them, and checks their attempts.
//!
//! The devices know which attempts of each task they were given and how these ended. At the end
//! this is compared with the server's lists and with the events of the pool. If an operator cancels
//! or evicts tasks during the run, the result is wrong.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tokio::time::sleep;
use tollgate_client::{EnqueueStatus, Error, Pool, QueuedTask, TaskState, Watch};

use super::{
    attempts::Attempts,
    events::{EventTotals, Events},
};
use crate::{
    counters::AtomicCounter, options::FleetOptions, progress::Level, report::Report, run::World,
};
use tollgate_core::{admission::ENQUEUE_MAX, time::monotonic};
use tollgate_telemetry::text::grouped;

/// Maximum size of a batch, bytes: below the server's maximum message size.
const BATCH_BYTES_MAX: usize = 3 * 1024 * 1024;
/// Maximum size of a task without its payload, bytes.
const TASK_BYTES: usize = 128;
/// Maximum number of queued tasks whose events have not been seen yet, which is fewer than a pool
/// stores.
const BEHIND_MAX: u64 = 4000;
/// Pause before the events are checked again.
const BEHIND: Duration = Duration::from_millis(10);
/// Pause after a failed call.
const AFTER_FAILURE: Duration = Duration::from_millis(200);
/// Pause before the last events are read again.
const EVENTS_AGAIN: Duration = Duration::from_millis(50);
/// How long to wait for the last events.
const EVENTS_LATE: Duration = Duration::from_secs(10);

/// The queued tasks of a run.
#[derive(Debug)]
pub(super) struct TaskQueue {
    pub(super) attempts: Attempts,
    events: Events,
    /// Prefix of the device names of the run.
    prefix: String,
    tasks: usize,
    devices: usize,
    queued: AtomicCounter,
    /// Tasks that the pool refused.
    refused: AtomicCounter,
    /// Whether no more tasks will be queued.
    is_complete: AtomicBool,
}

impl TaskQueue {
    /// Creates the tasks, and opens the stream of the pool's events.
    pub(super) async fn open(world: &World, pool: &Pool) -> TaskQueue {
        let queue = TaskQueue::new(&world.options, &world.run);
        match Watch::open(pool.connection().clone(), pool.name(), None).await {
            Ok(watch) => drop(tokio::spawn(queue.events.clone().follow(watch))),
            Err(error) => queue.events.lack(error.to_string()),
        }
        queue
    }

    fn new(options: &FleetOptions, run: &str) -> TaskQueue {
        let prefix = format!("{run}/");
        TaskQueue {
            attempts: Attempts::new(options),
            events: Events::new(prefix.clone()),
            prefix,
            tasks: options.queue.tasks as usize,
            devices: options.device.devices as usize,
            queued: AtomicCounter::default(),
            refused: AtomicCounter::default(),
            is_complete: AtomicBool::new(false),
        }
    }

    /// Whether no more tasks will be queued.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete.load(Ordering::Relaxed)
    }

    /// Queues all tasks in batches, one call after another, so that the tasks of each device are
    /// queued in order. Ends early if the fleet stops or the pool refuses a task.
    pub(super) async fn produce(&self, world: &World, pool: &Pool) {
        let size = world.options.queue.payload as usize + TASK_BYTES;
        let batch = (BATCH_BYTES_MAX / size).clamp(1, ENQUEUE_MAX);
        let mut first = 0;
        while first < self.tasks && !world.stop.is_set() && self.refused.get() == 0 {
            // Waits, because a pool stores a limited number of events.
            if self.events.behind(self.queued.get()) > BEHIND_MAX {
                sleep(BEHIND).await;
                continue;
            }
            let numbers = first..(first + batch).min(self.tasks);
            let tasks = numbers.clone().map(|number| self.task(number)).collect();
            // Retried until the server answers, because skipping a batch would change the order.
            let Some(statuses) = world.calls.make(pool.enqueue(tasks)).await else {
                world.stop.pause(monotonic() + AFTER_FAILURE).await;
                continue;
            };
            for status in statuses {
                match status {
                    EnqueueStatus::Enqueued => self.queued.add(),
                    EnqueueStatus::Expired | EnqueueStatus::Full => self.refused.add(),
                    // Queued by an earlier attempt of the same call.
                    _ => {}
                }
            }
            first = numbers.end;
        }
        self.is_complete.store(true, Ordering::Relaxed);
    }

    fn task(&self, number: usize) -> QueuedTask {
        QueuedTask {
            device_id: format!("{}device-{}", self.prefix, number % self.devices),
            task_id: format!("task-{number}"),
            payload: self.attempts.payload(number),
            expire_time: None,
        }
    }

    pub(super) fn level(&self, counts: Vec<(&'static str, u64)>) -> Level {
        let totals = self.attempts.totals();
        let counts = [("dispatched", totals.dispatched)].into_iter().chain(counts).collect();
        Level {
            name: "done",
            value: totals.done,
            per_second: false,
            cap: self.tasks as u64,
            counts,
        }
    }

    pub(super) fn count(&self, report: &mut Report) {
        let totals = self.attempts.totals();
        let ends = [
            ("done", totals.done),
            ("among them late", totals.done_late),
            ("dead", self.attempts.dead().len() as u64),
            ("neither", self.attempts.open()),
        ];
        report.rows("Tasks", self.tasks as u64, &ends);
        let parts = [("that failed", totals.failed), ("of lost answers", totals.missed)];
        report.rows("Attempts", totals.dispatched, &parts);
    }

    /// Waits up to 10 s for the events of all attempts, and returns their sums.
    pub(super) async fn seen(&self, report: &mut Report) -> EventTotals {
        let until = monotonic() + EVENTS_LATE;
        let mut seen = self.events.seen();
        // After that time, the sums show what is missing.
        while !self.is_whole(&seen) && monotonic() < until {
            sleep(EVENTS_AGAIN).await;
            seen = self.events.seen();
        }
        report.add_note(match &seen.lack {
            None => format!("Events: {} seen, none is missing", grouped(seen.events)),
            Some(why) => format!("Events: not compared, some are missing: {why}"),
        });
        seen
    }

    /// Whether the events of all attempts have been seen, or some will never arrive.
    fn is_whole(&self, seen: &EventTotals) -> bool {
        let is_all = seen.dispatched >= self.attempts.totals().dispatched && seen.running == 0;
        is_all || seen.lack.is_some()
    }

    /// Compares attempts, lists and events. `lost` is the number of requests without an answer.
    pub(super) fn check(
        &self,
        lists: Option<(usize, usize)>,
        seen: &EventTotals,
        lost: u64,
        report: &mut Report,
    ) {
        let (totals, faults) = (self.attempts.totals(), self.attempts.faults());
        let described = faults.described.join("; ");
        let count = grouped(faults.count);
        report.check(faults.count > 0, format!("{count} FAULTS: {described}"));
        let missed = totals.missed;
        report.check(missed > lost, format!("{missed} ATTEMPTS WENT UNSEEN, {lost} ANSWERS"));
        let refused = self.refused.get();
        report.check(refused > 0, format!("THE POOL HAD NO ROOM FOR {refused} TASKS"));
        let open = self.attempts.open();
        report.check(open > 0, format!("{} TASKS ARE NEITHER DONE NOR DEAD", grouped(open)));
        match lists {
            Some((queued, differ)) => {
                report.check(queued > 0, format!("{queued} TASKS ARE STILL QUEUED"));
                report.check(differ > 0, format!("{differ} DEAD TASKS ARE LISTED WRONGLY"));
            }
            None => report.check(true, "THE SERVER DOES NOT LIST THE TASKS"),
        }
        report.check(seen.ended_twice > 0, "EVENTS END AN ADMISSION TWICE");
        let sums = (seen.queued, seen.dispatched, seen.running);
        let agree = sums == (self.tasks as u64, totals.dispatched, 0)
            // A dead task becomes completed if its result arrives later.
            && seen.dead >= self.attempts.dead().len() as u64;
        report.check(seen.lack.is_none() && !agree, "EVENTS SAY SOMETHING ELSE");
        report.check(seen.lack.is_some(), "EVENTS ARE MISSING: NOT ALL IS PROVEN");
    }

    /// Returns the number of tasks that are still queued, and of those that are dead either on the
    /// server's list or according to the devices, but not both.
    pub(super) async fn lists(&self, pool: &Pool, may_lack: bool) -> Result<(usize, usize), Error> {
        let queued = self.listed(pool, None).await?;
        let dead = self.listed(pool, Some(TaskState::Dead)).await?;
        dead.iter().for_each(|number| self.attempts.is_dead(*number, may_lack));
        Ok((queued.len(), dead.symmetric_difference(&self.attempts.dead()).count()))
    }

    /// Returns the numbers of this run's tasks on a list.
    async fn listed(
        &self,
        pool: &Pool,
        state: Option<TaskState>,
    ) -> Result<BTreeSet<usize>, Error> {
        let (mut numbers, mut page_token) = (BTreeSet::new(), String::new());
        loop {
            let (tasks, next) = pool.list_tasks(state, &page_token).await?;
            let ours = tasks.iter().filter(|(device, _)| device.starts_with(&self.prefix));
            numbers.extend(ours.filter_map(|(_, task)| self.attempts.number(task)));
            if next.is_empty() {
                return Ok(numbers);
            }
            page_token = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_client::{CompleteVerdict, DispatchedTask, Grant, Outcome};

    use super::*;
    use crate::options::tests::parse;

    /// Returns one task that is completed at its first attempt, and one that is dead after it.
    fn verdict(lists: Option<(usize, usize)>, seen: &EventTotals) -> String {
        let flags = "--queued --tasks 2 --devices 2 --max-attempts 1 --payload 0";
        let queue = TaskQueue::new(&parse(flags).expect("good flags"), "7");
        for (number, fencing_token) in [(0, 10), (1, 11)] {
            let task_id = format!("task-{number}");
            let task = Some(DispatchedTask { task_id, attempt: 1, ..DispatchedTask::default() });
            let lease = Duration::from_secs(1);
            let permit = Grant { fencing_token, lease, replayed: false, task };
            queue.attempts.dispatched(&permit, false);
        }
        queue.attempts.reported("task-0", 10, Outcome::Succeeded, CompleteVerdict::Completed);
        let mut report = Report::default();
        queue.check(lists, seen, 0, &mut report);
        report.verdict("Tasks", "held");
        report.to_string()
    }

    #[test]
    fn attempts_lists_and_events_must_agree() {
        let good =
            EventTotals { events: 7, queued: 2, dispatched: 2, dead: 1, ..EventTotals::default() };
        assert_eq!(verdict(Some((0, 0)), &good), "Tasks: held\n");
        for (lists, seen, part) in [
            (None, good.clone(), "DOES NOT LIST"),
            (Some((1, 0)), good.clone(), "STILL QUEUED"),
            (Some((0, 1)), good.clone(), "LISTED WRONGLY"),
            (Some((0, 0)), EventTotals { ended_twice: 1, ..good.clone() }, "TWICE"),
            (Some((0, 0)), EventTotals { dispatched: 3, ..good.clone() }, "SOMETHING ELSE"),
            (Some((0, 0)), EventTotals { dead: 0, ..good.clone() }, "SOMETHING ELSE"),
            (Some((0, 0)), EventTotals { running: 1, ..good.clone() }, "SOMETHING ELSE"),
            (
                Some((0, 0)),
                EventTotals { lack: Some("a gap".to_owned()), ..good },
                "NOT ALL IS PROVEN",
            ),
        ] {
            let text = verdict(lists, &seen);
            assert!(text.contains(part) && text.lines().count() == 1, "{part}: {text}");
        }
    }
}
