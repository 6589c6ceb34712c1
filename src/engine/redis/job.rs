//! A decision on its way to a node, and the call that waits for its reply.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{sync::oneshot, time::timeout_at};

use super::slot::Slot;
use crate::{
    budget::{self, Limit},
    confirmation::Confirmation,
    decision::{Arguments, Cost, Judge, Reply},
    error::Error,
    script::Script,
};

/// Decisions in a lane of which nothing is measured.
const FEW: u32 = 64;

/// How a decision is sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sending {
    /// Whether it may be sent again when its reply was lost.
    pub(super) repeatable: bool,
    /// Which replicas have to have what it wrote before its reply counts.
    pub(super) confirmation: Confirmation,
    /// Whether it counts as none of the calls in flight, and goes by itself.
    pub(super) is_upkeep: bool,
    /// Whether it goes before those that wait.
    pub(super) goes_first: bool,
    /// How long it holds Redis, and whether it travels in bulk.
    pub(super) cost: Cost,
}

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) reply: Reply,
    /// Whether it may have been executed before.
    pub(super) repeated: bool,
}

/// A decision on its way.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) script: &'static Script,
    pub(super) arguments: Arguments,
    pub(super) slot: Slot,
    pub(super) sending: Sending,
    pub(super) deadline: Instant,
    /// When it was made.
    since: Instant,
    /// How many waited in its lane when it came.
    pub(super) ahead: usize,
    /// Whether it is all of its call, and is refused where it would wait too long.
    pub(super) sheds: bool,
    /// What it means when replicas do not confirm it; none where they need not.
    pub(super) judge: Option<Judge>,
    /// It goes with the one before it, and after it: both are of one call.
    pub(super) follows: bool,
    /// How often its node sent it elsewhere.
    pub(super) redirects: u32,
    /// It may have been executed before.
    pub(super) repeated: bool,
    /// Its slot is on its way to the node that it goes to now.
    pub(super) asking: bool,
    progress: Arc<AtomicBool>,
    reply: oneshot::Sender<Result<Answer, Error>>,
}

/// The call that waits.
#[derive(Debug)]
pub(super) struct Pending {
    deadline: Instant,
    progress: Arc<AtomicBool>,
    answer: oneshot::Receiver<Result<Answer, Error>>,
}

impl Job {
    /// A decision, and what waits for its reply.
    pub(super) fn new(
        script: &'static Script,
        arguments: Arguments,
        slot: Slot,
        sending: Sending,
        (since, deadline): (Instant, Instant),
    ) -> (Job, Pending) {
        let (reply, answer) = oneshot::channel();
        let progress = Arc::new(AtomicBool::new(false));
        let pending = Pending { deadline, progress: progress.clone(), answer };
        let job = Job {
            script,
            arguments,
            slot,
            sending,
            deadline,
            since,
            ahead: 0,
            sheds: false,
            judge: None,
            follows: false,
            redirects: 0,
            repeated: false,
            asking: false,
            progress,
            reply,
        };
        (job, pending)
    }

    /// Whether somebody still waits for it.
    pub(super) fn is_wanted(&self, now: Instant) -> bool {
        self.deadline > now && !self.reply.is_closed()
    }

    /// The time that it had when it was made.
    pub(super) fn time(&self) -> Duration {
        self.deadline.saturating_duration_since(self.since)
    }

    /// How long it has waited for each that was ahead of it; none where those were few.
    pub(super) fn waited_each(&self, now: Instant) -> Option<Duration> {
        let ahead = u32::try_from(self.ahead).ok().filter(|ahead| *ahead >= FEW)?;
        Some(now.saturating_duration_since(self.since) / ahead)
    }

    /// It is about to be written to a socket: from now on its fate is unknown.
    pub(super) fn note_sent(&self) {
        self.progress.store(true, Ordering::Release);
    }

    /// The node said that it did not execute it.
    pub(super) fn note_unexecuted(&self) {
        self.progress.store(self.repeated, Ordering::Release);
    }

    /// Refuses it: it would not be executed in time.
    pub(super) fn refuse(self) {
        budget::note(Limit::Overload);
        self.answer(Err(Error::Overloaded));
    }

    pub(super) fn answer(self, reply: Result<Reply, Error>) {
        let repeated = self.repeated;
        // A caller that has gone away has chosen not to know.
        let _ =
            self.reply.send(match reply {
                Ok(reply) => Ok(Answer { reply, repeated }),
                // Whatever kept the second try from being made, or from being executed, says
                // nothing of the first, which may have been.
                Err(
                    Error::Unavailable(_) | Error::Refused(_) | Error::Overloaded | Error::Ending,
                ) if repeated => Err(Error::DeadlineExceeded),
                Err(error) => Err(error),
            });
    }
}

impl Pending {
    /// The reply; returns by the deadline.
    pub(super) async fn wait(self) -> Result<Answer, Error> {
        match timeout_at(self.deadline.into(), self.answer).await {
            Ok(Ok(answer)) => answer,
            _ if self.progress.load(Ordering::Acquire) => Err(Error::DeadlineExceeded),
            _ => Err(Error::Unavailable("no connection was free in time".to_owned())),
        }
    }
}
