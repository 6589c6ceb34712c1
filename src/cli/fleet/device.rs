//! One simulated device.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::watch, time::sleep_until};

use super::{
    gauge::{self, Hold},
    plan::{Kind, Manner, Reports, TaskPlan, Tasks},
    tally::Tally,
    uplink::{Answer, Uplink},
};
use crate::{
    admission::{AdmitDecision, Lease, Outcome},
    decision::time::monotonic,
};

/// Delay of a late report after the end of the lease.
const LATE_BY: Duration = Duration::from_millis(50);

/// A device of the fleet.
#[derive(Debug)]
pub(super) struct Device {
    /// Its behaviour.
    pub(super) kind: Kind,
    /// Its future tasks.
    pub(super) tasks: Tasks,
    /// The times of its reports.
    pub(super) reports: Reports,
    /// Its connection to the server.
    pub(super) uplink: Uplink,
    /// Becomes true when no new work is to be started.
    pub(super) stop: watch::Receiver<bool>,
}

/// A lease that the device holds.
#[derive(Debug, Clone, Copy)]
struct Held {
    token: u64,
    hold: Hold,
    /// Instant at which the lease has certainly ended on the server.
    ended_by: Instant,
}

impl Device {
    /// Runs one task after the other until the fleet stops.
    pub(super) async fn live(mut self) {
        if !self.pause(self.reports.first()).await {
            return;
        }
        for number in 1u64.. {
            let task = format!("task-{number}");
            let plan = self.tasks.next();
            if let Some(held) = self.obtain(&task, None).await {
                self.carry_out(&task, plan, held).await;
            }
            let next = self.reports.after(monotonic());
            if !self.pause(next).await {
                return;
            }
        }
    }

    /// Asks for a task at each report, but not before `retry_after`, until the device holds a
    /// lease. `None` if the task was completed before, or if the fleet stops.
    ///
    /// `held` is the lease of a device that crashed. Such a device asks while the fleet stops too,
    /// until that lease has ended, because its work is not new.
    async fn obtain(&mut self, task: &str, mut held: Option<Held>) -> Option<Held> {
        let first_asked = held.is_none().then(monotonic);
        // An unanswered request may have been granted; a later one is then answered as a repeat.
        let mut lost_since = None;
        loop {
            let sent = monotonic();
            let answer = Answer::of(self.uplink.ask(task).await);
            let wait = match answer.decision {
                Some(AdmitDecision::Admitted { lease, replayed, .. }) => {
                    if let Some(asked) = first_asked {
                        self.tally().waits.add(asked.elapsed());
                    }
                    let granted_after = if replayed { lost_since.unwrap_or(sent) } else { sent };
                    return Some(self.take(&lease, granted_after, held));
                }
                Some(AdmitDecision::AlreadyCompleted) => {
                    self.expire(held);
                    return None;
                }
                Some(
                    AdmitDecision::Full { retry_after, .. } | AdmitDecision::Paused { retry_after },
                ) => {
                    // If the lease still ran, the server would have returned it.
                    self.expire(held.take());
                    retry_after.duration()
                }
                Some(AdmitDecision::NoTask) | None => Duration::ZERO,
            };
            if answer.lost {
                lost_since.get_or_insert(sent);
            }
            let now = monotonic();
            let again = self.reports.after(now).max(now + wait);
            let goes_on = match held {
                Some(held) => {
                    self.wait(again, held).await;
                    !self.stopped() || monotonic() < held.ended_by
                }
                None => self.pause(again).await,
            };
            if !goes_on {
                match held {
                    Some(_) => self.expire(held),
                    None => self.tally().unserved.add(),
                }
                return None;
            }
        }
    }

    /// Takes the granted lease. A repeated lease keeps its counter entry.
    fn take(&self, lease: &Lease, granted_after: Instant, held: Option<Held>) -> Held {
        if let Some(held) = held.filter(|held| held.token == lease.token) {
            return held;
        }
        self.expire(held);
        let length = Duration::from_micros(lease.expire.0.saturating_sub(lease.grant.0));
        let tally = self.tally();
        tally.admitted.add();
        let hold = tally.gauge.enter(gauge::ends(granted_after, length));
        Held { token: lease.token, hold, ended_by: monotonic() + length }
    }

    async fn carry_out(&mut self, task: &str, plan: TaskPlan, held: Held) {
        match self.kind.manner {
            Manner::Regular => {
                sleep_for(plan.duration).await;
                self.report(task, held).await;
            }
            Manner::Silent => {
                // If the fleet stops first, nothing is left to do.
                if self.pause(held.ended_by).await {
                    self.expire(Some(held));
                }
            }
            Manner::Late => {
                sleep_until((held.ended_by + LATE_BY).into()).await;
                self.report(task, held).await;
            }
            Manner::Crashing => {
                let restart = monotonic() + plan.crash_after + plan.away;
                self.wait(restart, held).await;
                if self.stopped() && monotonic() >= held.ended_by {
                    return self.expire(Some(held));
                }
                if let Some(held) = self.obtain(task, Some(held)).await {
                    sleep_for(plan.duration).await;
                    self.report(task, held).await;
                }
            }
        }
    }

    /// Reports success, again at each report until the server answers. While the fleet stops, it
    /// gives up when the lease ends.
    async fn report(&mut self, task: &str, held: Held) {
        self.tally().gauge.leave(held.hold);
        loop {
            let verdicts = self.uplink.complete(task, held.token, Outcome::Succeeded).await;
            if verdicts.iter().any(Option::is_some) {
                return self.tally().reported.add();
            }
            let now = monotonic();
            if self.stopped() && now >= held.ended_by {
                return self.expire(Some(held));
            }
            let again = self.reports.after(now);
            self.wait(again, held).await;
        }
    }

    /// Counts a lease that ended without a result, if there is one.
    fn expire(&self, held: Option<Held>) {
        if let Some(held) = held {
            self.tally().gauge.leave(held.hold);
            self.tally().expired.add();
        }
    }

    /// Waits until an instant; false as soon as the fleet stops.
    async fn pause(&mut self, until: Instant) -> bool {
        tokio::select! {
            biased;
            _ = self.stop.wait_for(|stop| *stop) => false,
            () = sleep_until(until.into()) => true,
        }
    }

    /// Waits with a lease. When the fleet stops, it waits until the end of the lease at most.
    async fn wait(&mut self, until: Instant, held: Held) {
        if !self.pause(until).await {
            sleep_until(until.min(held.ended_by).into()).await;
        }
    }

    fn stopped(&self) -> bool {
        *self.stop.borrow()
    }

    fn tally(&self) -> &Arc<Tally> {
        &self.uplink.tally
    }
}

async fn sleep_for(duration: Duration) {
    sleep_until((monotonic() + duration).into()).await;
}
