//! One simulated device.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::sleep_until;
use tollgate_client::{Admission, Grant, Outcome, Pool};

use super::{
    Devices,
    concurrency::{CountedLease, certain_end},
    plan::{DeviceManner, TaskPlan},
};
use crate::{
    random::{Kind, Random},
    run::World,
    schedule::Periodic,
};
use tollgate_core::time::monotonic;

/// How long after the end of the lease a late report is sent.
const LATE_BY: Duration = Duration::from_millis(50);

/// A device of the fleet.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) pool: Pool,
    pub(super) name: String,
    pub(super) kind: Kind<DeviceManner>,
    /// Decides the durations of its tasks.
    pub(super) plans: Random,
    pub(super) reports: Periodic,
    /// Decides which attempts fail and which late results are delayed further.
    pub(super) random: Random,
    pub(super) world: Arc<World>,
    pub(super) fleet: Arc<Devices>,
    /// The task that it was running when it crashed or its lease expired. Its next task then runs
    /// without a crash or a delay.
    pub(super) held: Option<RunningTask>,
    /// The instant before the first request without an answer, which may have been granted. A later
    /// request is then answered as a repeat.
    pub(super) lost_since: Option<Instant>,
    /// When it first asked for the task that it is waiting for.
    pub(super) asked_since: Option<Instant>,
}

/// A task that the device is running.
#[derive(Debug, Clone)]
pub(super) struct RunningTask {
    task: String,
    plan: TaskPlan,
    token: u64,
    hold: CountedLease,
    /// When the lease has certainly ended on the server.
    ended_by: Instant,
    /// Whether the lease has been counted as expired without a result.
    is_expired: bool,
}

impl RunningTask {
    /// Counts a lease that has expired without a result, once.
    fn expire(&mut self, fleet: &Devices) {
        if !self.is_expired {
            self.is_expired = true;
            fleet.concurrency.leave(self.hold);
            fleet.expired.add();
        }
    }
}

impl Device {
    /// Asks for a task at each report, but not before `retry_after`, and runs it. Ends when the
    /// fleet stops, or when the device has no queued tasks left.
    pub(super) async fn live(mut self) {
        let (mut due, mut number) = (self.reports.first, 1u64);
        while self.wait(due).await {
            // Read before the call, because its answer does not cover tasks that are queued later.
            let all_queued = self.fleet.queue.as_ref().is_some_and(|queue| queue.is_complete());
            let task = match self.fleet.queue {
                Some(_) => String::new(),
                None => format!("task-{number}"),
            };
            let sent = monotonic();
            if self.held.is_none() {
                self.asked_since.get_or_insert(sent);
            }
            let (answer, is_lost) = self.ask(&task).await;
            if is_lost {
                self.fleet.lost.add();
                self.lost_since.get_or_insert(sent);
            }
            let mut wait = Duration::ZERO;
            match answer {
                Some(Admission::Admitted(permit)) => {
                    if let Some(restart) = self.run(task, permit, sent).await {
                        due = restart;
                        continue;
                    }
                    number += 1;
                }
                Some(Admission::AlreadyCompleted) => {
                    self.expire_held();
                    (self.held, self.asked_since) = (None, None);
                    number += 1;
                }
                Some(Admission::Full { retry_after } | Admission::Paused { retry_after }) => {
                    // If the lease were still running, the server would have returned it.
                    self.expire_held();
                    wait = retry_after;
                }
                Some(Admission::NoTask) => {
                    self.asked_since = None;
                    if all_queued && !is_lost {
                        return;
                    }
                }
                None => {}
            }
            let now = monotonic();
            due = self.reports.after(now).max(now + wait);
        }
        if self.asked_since.is_some() {
            self.fleet.unserved.add();
        }
    }

    /// Waits until the next request. While the fleet stops, only a crashed device still asks, until
    /// its lease has ended, because its work is not new.
    async fn wait(&mut self, due: Instant) -> bool {
        if self.world.stop.pause(due).await {
            return true;
        }
        let running = self.held.as_ref().filter(|held| !held.is_expired);
        let Some(ended_by) = running.map(|held| held.ended_by) else { return false };
        sleep_until(due.min(ended_by).into()).await;
        if monotonic() < ended_by {
            return true;
        }
        self.expire_held();
        false
    }

    /// Asks for a slot. Returns the most favourable answer, and whether a message had no answer.
    async fn ask(&self, task: &str) -> (Option<Admission<Grant>>, bool) {
        let (fleet, calls, twice) = (&self.fleet, &self.world.calls, self.kind.twice);
        let lease = self.world.options.device.lease;
        let call = || self.pool.admit_task(&self.name, task, Some(lease));
        let mut answers = calls.repeat(twice, &calls.requests, call).await;
        let is_lost = answers.len() < if twice { 2 } else { 1 };
        // Two concurrent calls may be granted in one order and answered in another.
        answers.sort_by_key(|(admission, _)| favour(admission));
        for (admission, usage) in &answers {
            fleet.admission(admission, usage);
            if let (Some(queue), Admission::Admitted(permit)) = (&fleet.queue, admission) {
                queue.attempts.dispatched(permit, is_lost || fleet.lost.get() > 0);
            }
        }
        (answers.pop().map(|(admission, _)| admission), is_lost)
    }

    /// Runs a task. Returns the time of the restart if the device crashes.
    async fn run(&mut self, asked: String, permit: Grant, sent: Instant) -> Option<Instant> {
        let task = permit.task.as_ref().map_or(asked, |task| task.task_id.clone());
        let queue = self.fleet.queue.as_ref();
        if queue.is_some_and(|queue| queue.attempts.number(&task).is_none()) {
            return None;
        }
        if let Some(asked) = self.asked_since.take() {
            self.fleet.waits.add(asked.elapsed());
        }
        let before = self.held.take();
        let is_again = before.is_some();
        let plan = match &before {
            Some(held) => held.plan,
            None => TaskPlan::draw(&self.world.options.device, &mut self.plans),
        };
        let mut held = match before {
            Some(held) if held.token == permit.fencing_token => held,
            stale => {
                let held = self.start_task(task, plan, &permit, sent);
                match (stale, self.kind.manner) {
                    // The result of an attempt that a newer one has followed.
                    (Some(stale), DeviceManner::Late) => {
                        self.report(stale, Outcome::Succeeded).await
                    }
                    (Some(mut stale), _) => stale.expire(&self.fleet),
                    (None, _) => {}
                }
                held
            }
        };
        self.lost_since = None;
        match self.kind.manner {
            DeviceManner::Silent => {
                // If the fleet stops first, nothing is left to do.
                if self.world.stop.pause(held.ended_by).await {
                    held.expire(&self.fleet);
                }
            }
            DeviceManner::Late if !is_again => {
                sleep_until((held.ended_by + LATE_BY).into()).await;
                if self.fleet.queue.is_some() && self.random.fraction() < 0.5 {
                    self.held = Some(held)
                } else {
                    self.report(held, Outcome::Succeeded).await
                }
            }
            DeviceManner::Crashing if !is_again => {
                self.held = Some(held);
                return Some(monotonic() + plan.restart_after);
            }
            DeviceManner::Regular | DeviceManner::Late | DeviceManner::Crashing => {
                sleep_until((monotonic() + plan.duration).into()).await;
                let options = &self.world.options;
                let fails = options.queued && self.random.fraction() < options.queue.fail;
                self.report(held, if fails { Outcome::Failed } else { Outcome::Succeeded }).await;
            }
        }
        None
    }

    fn start_task(
        &self,
        task: String,
        plan: TaskPlan,
        permit: &Grant,
        sent: Instant,
    ) -> RunningTask {
        let lost_since = self.lost_since.filter(|_| permit.replayed);
        self.fleet.admitted.add();
        let end = certain_end(lost_since.unwrap_or(sent), permit.lease);
        let hold = self.fleet.concurrency.enter(end);
        let (token, ended_by) = (permit.fencing_token, monotonic() + permit.lease);
        RunningTask { task, plan, token, hold, ended_by, is_expired: false }
    }

    /// Reports a result, again at each report until the server answers. While the fleet stops, it
    /// gives up when the lease ends.
    async fn report(&mut self, mut held: RunningTask, outcome: Outcome) {
        self.fleet.concurrency.leave(held.hold);
        loop {
            let (fleet, calls) = (&self.fleet, &self.world.calls);
            let call = || self.pool.complete_task(&self.name, &held.task, held.token, outcome, "");
            let answers = calls.repeat(self.kind.twice, &calls.results, call).await;
            for (verdict, usage) in &answers {
                fleet.capacity.raise(usage.capacity.into());
                fleet.verdicts.add(verdict.as_str_name());
                if let Some(queue) = &fleet.queue {
                    queue.attempts.reported(&held.task, held.token, outcome, *verdict);
                }
            }
            if !answers.is_empty() {
                return fleet.reported.add();
            }
            let now = monotonic();
            if self.world.stop.is_set() && now >= held.ended_by {
                return held.expire(&self.fleet);
            }
            let again = self.reports.after(now);
            if !self.world.stop.pause(again).await {
                sleep_until(again.min(held.ended_by).into()).await;
            }
        }
    }

    fn expire_held(&mut self) {
        if let Some(held) = &mut self.held {
            held.expire(&self.fleet);
        }
    }
}

/// Ranks answers: a slot before none, the newer of two leases, and the longer of two waits, because
/// a device never asks earlier than any answer allows.
fn favour(admission: &Admission<Grant>) -> (u8, u64, bool, Duration) {
    use Admission::{Admitted, AlreadyCompleted, Full, NoTask, Paused};

    match admission {
        Admitted(it) => (3, it.fencing_token, !it.replayed, Duration::ZERO),
        AlreadyCompleted => (2, 0, false, Duration::ZERO),
        Full { retry_after } | Paused { retry_after } => (1, 0, false, *retry_after),
        NoTask => (0, 0, false, Duration::ZERO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_answers_the_more_favourable_counts() {
        let admitted = |fencing_token, replayed| {
            let lease = Duration::from_secs(1);
            Admission::Admitted(Grant { fencing_token, lease, replayed, task: None })
        };
        let full = |seconds| Admission::Full { retry_after: Duration::from_secs(seconds) };
        for (one, other) in [
            (admitted(1, false), full(5)),
            (admitted(1, false), admitted(1, true)),
            (admitted(2, true), admitted(1, false)),
            (full(9), full(5)),
            (full(1), Admission::NoTask),
        ] {
            assert!(favour(&one) > favour(&other), "{one:?}, {other:?}");
        }
    }
}
