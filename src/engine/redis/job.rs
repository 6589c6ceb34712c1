//! A decision on its way to a node, and the call that waits for its reply.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use tokio::{sync::oneshot, time::timeout_at};

use super::slot::Slot;
use crate::{
    confirmation::Confirmation,
    decision::{Arguments, Judge, Reply},
    error::Error,
    script::Script,
};

/// How a decision is sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sending {
    /// Whether it may be sent again when its reply was lost.
    pub(super) repeatable: bool,
    /// Which replicas have to have what it wrote before its reply counts.
    pub(super) confirmation: Confirmation,
    /// Whether it counts as none of the calls in flight, and goes by itself.
    pub(super) is_upkeep: bool,
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
        deadline: Instant,
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

    /// It is about to be written to a socket: from now on its fate is unknown.
    pub(super) fn note_sent(&self) {
        self.progress.store(true, Ordering::Release);
    }

    /// The node said that it did not execute it.
    pub(super) fn note_unexecuted(&self) {
        self.progress.store(self.repeated, Ordering::Release);
    }

    pub(super) fn answer(self, reply: Result<Reply, Error>) {
        let repeated = self.repeated;
        // A caller that has gone away has chosen not to know.
        let _ = self.reply.send(match reply {
            Ok(reply) => Ok(Answer { reply, repeated }),
            // Whatever kept the second try from being made, or from being executed, says
            // nothing of the first, which may have been.
            Err(Error::Unavailable(_)) if repeated => Err(Error::DeadlineExceeded),
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
