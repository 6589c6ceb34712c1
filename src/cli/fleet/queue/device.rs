//! One simulated device: it reports, and runs the task that it gets in the answer.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::watch, time::sleep_until};

use super::{
    ledger::{Given, Ledger},
    tally::Tally,
};
use crate::{
    admission::{AdmitDecision, CompleteVerdict, Dispatched, Lease, Outcome},
    cli::fleet::{
        dice::Dice,
        gauge::{self, Hold},
        plan::{Kind, Manner, Reports, Tasks},
        uplink::{Answer, Uplink},
    },
    decision::time::monotonic,
};

/// Delay of a late report after the end of the lease.
const LATE_BY: Duration = Duration::from_millis(50);

/// A device of the fleet.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) kind: Kind,
    /// Durations of its tasks.
    pub(super) tasks: Tasks,
    pub(super) reports: Reports,
    /// Decides which attempts fail.
    pub(super) dice: Dice,
    pub(super) fail: f64,
    pub(super) uplink: Uplink,
    pub(super) ledger: Arc<Ledger>,
    pub(super) tally: Arc<Tally>,
    /// Becomes true when all tasks are queued.
    pub(super) all_queued: watch::Receiver<bool>,
    /// Becomes true when no new work is to be started.
    pub(super) stop: watch::Receiver<bool>,
    pub(super) memory: Memory,
}

/// State that a device keeps between reports.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// The task that it held when it crashed or its lease ended.
    held: Option<Held>,
    /// The instant before the first request without an answer.
    lost_since: Option<Instant>,
}

/// A task that the device holds.
#[derive(Debug, Clone, Copy)]
struct Held {
    number: usize,
    token: u64,
    hold: Hold,
    /// Instant at which the lease has certainly ended on the server.
    ended_by: Instant,
}

impl Device {
    /// Runs until no task of the device is left, or the fleet stops.
    pub(super) async fn live(mut self) {
        let mut due = self.reports.first();
        while self.pause(due).await {
            // Read before the call, because this answer cannot know of tasks that are queued later.
            let all_queued = *self.all_queued.borrow();
            let sent = monotonic();
            let mut answers = self.uplink.ask("").await;
            // Two calls at once may be granted in one order and answered in another.
            answers.sort_by_key(token);
            answers.iter().flatten().for_each(|decision| self.note(decision));
            let answer = Answer::of(answers);
            if answer.lost {
                self.tally.lost.add();
                self.memory.lost_since.get_or_insert(sent);
            }
            let mut wait = Duration::ZERO;
            match answer.decision {
                Some(AdmitDecision::Admitted { lease, replayed, dispatched }) => {
                    self.run(&lease, replayed, dispatched.as_deref(), sent).await;
                }
                Some(AdmitDecision::NoTask) => {
                    self.tally.no_task.add();
                    if all_queued && !answer.lost {
                        return;
                    }
                }
                Some(
                    AdmitDecision::Full { retry_after, .. } | AdmitDecision::Paused { retry_after },
                ) => {
                    wait = retry_after.duration();
                }
                Some(AdmitDecision::AlreadyCompleted) | None => {}
            }
            let now = monotonic();
            due = self.reports.after(now).max(now + wait);
        }
    }

    /// Records an answer in the ledger.
    fn note(&self, decision: &AdmitDecision) {
        let AdmitDecision::Admitted { lease, replayed, dispatched: Some(task) } = decision else {
            return;
        };
        if let Some(number) = self.number(task) {
            let Dispatched { payload, attempt, .. } = &**task;
            let (token, replayed) = (lease.token, *replayed);
            let (attempt, may_lack) = (*attempt, self.tally.lost.get() > 0);
            let given = Given { number, attempt, token, replayed, may_lack, payload };
            self.ledger.dispatched(given);
        }
    }

    fn number(&self, task: &Dispatched) -> Option<usize> {
        self.ledger.number(std::str::from_utf8(&task.task).ok()?)
    }

    /// Runs the task of an answer.
    async fn run(
        &mut self,
        lease: &Lease,
        replayed: bool,
        task: Option<&Dispatched>,
        sent: Instant,
    ) {
        let Some(number) = task.and_then(|task| self.number(task)) else { return };
        let before = self.memory.held.take();
        let again = before.filter(|held| held.token == lease.token);
        let held = match again {
            Some(held) => held,
            None => {
                let lost_since = self.memory.lost_since.filter(|_| replayed);
                self.take(number, lease, lost_since.unwrap_or(sent))
            }
        };
        self.memory.lost_since = None;
        let stale = before.filter(|stale| stale.token != lease.token);
        if let Some(stale) = stale.filter(|_| self.kind.manner == Manner::Late) {
            // The result of an attempt that was followed by a newer one.
            self.report(stale, Outcome::Succeeded).await;
        }
        let plan = self.tasks.next();
        match self.kind.manner {
            Manner::Silent => {
                self.pause(held.ended_by).await;
            }
            Manner::Late if before.is_none() => {
                sleep_until((held.ended_by + LATE_BY).into()).await;
                match self.dice.fraction() < 0.5 {
                    true => self.report(held, Outcome::Succeeded).await,
                    false => self.memory.held = Some(held),
                }
            }
            Manner::Crashing if before.is_none() => {
                self.memory.held = Some(held);
                self.pause(monotonic() + plan.crash_after + plan.away).await;
            }
            Manner::Regular | Manner::Late | Manner::Crashing => {
                sleep_until((monotonic() + plan.duration).into()).await;
                let fails = self.dice.fraction() < self.fail;
                let outcome = if fails { Outcome::Failed } else { Outcome::Succeeded };
                self.report(held, outcome).await;
            }
        }
    }

    fn take(&self, number: usize, lease: &Lease, granted_after: Instant) -> Held {
        let length = Duration::from_micros(lease.expire.0.saturating_sub(lease.grant.0));
        let devices = &self.tally.devices;
        devices.admitted.add();
        let hold = devices.gauge.enter(gauge::ends(granted_after, length));
        Held { number, token: lease.token, hold, ended_by: monotonic() + length }
    }

    /// Reports a result, again at each report until the server answers.
    async fn report(&mut self, held: Held, outcome: Outcome) {
        self.tally.devices.gauge.leave(held.hold);
        let task = format!("task-{}", held.number);
        loop {
            let verdicts = self.uplink.complete(&task, held.token, outcome).await;
            let note = |verdict: &CompleteVerdict| {
                self.ledger.reported(held.number, held.token, outcome, *verdict);
            };
            verdicts.iter().flatten().for_each(note);
            if verdicts.iter().any(Option::is_some) {
                return self.tally.devices.reported.add();
            }
            let again = self.reports.after(monotonic());
            if !self.pause(again).await {
                return;
            }
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
}

/// Returns the token of an answer; 0 if it grants nothing.
fn token(answer: &Option<AdmitDecision>) -> u64 {
    match answer {
        Some(AdmitDecision::Admitted { lease, .. }) => lease.token,
        _ => 0,
    }
}
