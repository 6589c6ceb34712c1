//! A job: one decision on its way to a node, and the call that waits for its reply.
//!
//! A job knows whether it was written to a socket, which decides its error. A job that was never
//! written was certainly not executed. For a job that was written but has no reply, it is unknown
//! whether it was executed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{sync::oneshot, time::timeout_at};

use super::slot::Slot;
use crate::budget::{self, ReachedLimit};
use tollgate_core::{
    Arguments, Cost, Decision, Priority, Reply, UndoRule, acknowledgement::Acknowledgement,
    error::Error, script::Script, time::monotonic,
};
use tollgate_telemetry::spans::{self, Calls};

/// How the sweeper's commands are sent: exempt from the limit on calls in flight, and one item per
/// script call.
pub(super) const BACKGROUND: JobDelivery = JobDelivery {
    priority: Priority::Background,
    is_repeatable: true,
    acknowledgement: Acknowledgement::NONE,
    cost: Cost::from_micros(20),
};
/// How registrations in the index and revocations are sent: several per script call.
pub(super) const LISTING: JobDelivery = JobDelivery { priority: Priority::Call, ..BACKGROUND };

/// The batch number of a decision that is the only one of its call.
pub(super) const ALONE: u64 = 0;

/// Minimum queue length at which the wait per job is measured.
const FEW: u32 = 64;

/// Progress: the job waits to be sent.
const WAITS: u8 = 0;
/// Progress: the job was written to a socket. Its outcome is unknown until it is answered.
const SENT: u8 = 1;
/// Progress: a node that did not execute the job named another node, and the job waits to be sent
/// there.
const REDIRECTED: u8 = 2;
/// Progress: its call was answered without it. The job must no longer be sent.
const GIVEN_UP: u8 = 3;

/// The reason why a redirected decision was not executed in time.
pub(super) const MOVED_TOO_LONG: &str = "the slot of the key was migrating, or the marker of the \
                                         store could not be written, until the deadline of the call";

/// A reply.
#[derive(Debug)]
pub(super) struct JobAnswer {
    pub(super) reply: Reply,
    /// Whether an earlier attempt may have been executed.
    pub(super) repeated: bool,
}

/// How a job is queued, sent and repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JobDelivery {
    /// The priority, which decides which jobs go first.
    pub(super) priority: Priority,
    /// Whether the job may be sent again after a lost reply.
    pub(super) is_repeatable: bool,
    /// The replicas that must acknowledge the write before the reply is valid.
    pub(super) acknowledgement: Acknowledgement,
    /// Upper bound on the Redis time of the job.
    pub(super) cost: Cost,
}

impl JobDelivery {
    /// Returns the delivery of a decision.
    pub(super) fn for_decision<D: Decision>(decision: &D) -> JobDelivery {
        JobDelivery {
            priority: D::PROPERTIES.priority,
            is_repeatable: (D::PROPERTIES.is_repeatable)(decision),
            acknowledgement: (D::PROPERTIES.acknowledgement)(decision),
            cost: (D::PROPERTIES.cost)(decision),
        }
    }

    /// Whether this is background work.
    pub(super) fn is_background(&self) -> bool {
        self.priority == Priority::Background
    }

    /// Whether the job frees capacity or extends a lease.
    pub(super) fn frees_capacity(&self) -> bool {
        self.priority == Priority::FreesCapacity
    }
}

/// A decision on its way to a node.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) script: &'static Script,
    /// KEYS and ARGV of the script.
    pub(super) arguments: Arguments,
    /// The slot of its keys.
    pub(super) slot: Slot,
    pub(super) delivery: JobDelivery,
    pub(super) deadline: Instant,
    /// The time when the job was created.
    since: Instant,
    /// The number of jobs that were ahead of it in its pipeline.
    pub(super) ahead: usize,
    /// Whether it may be refused if it would wait too long, which is possible only for the only job
    /// of a call.
    pub(super) sheds: bool,
    /// Decides how to undo the outcome if replicas do not acknowledge it. `None` if it needs no
    /// acknowledgement.
    pub(super) undo_rule: Option<UndoRule>,
    /// The number of its batch, whose jobs are sent together and in order; 0 for the only job of a
    /// call.
    pub(super) batch: u64,
    /// The number of its partition's namespace, in whose line it waits.
    pub(super) namespace: u64,
    /// The number of redirects.
    pub(super) redirects: u32,
    /// Whether an earlier attempt may have been executed.
    pub(super) repeated: bool,
    /// Whether ASKING must precede it: its slot is migrating to the node that it goes to now.
    pub(super) asking: bool,
    /// The sampled calls that it serves.
    pub(super) calls: Option<Calls>,
    progress: Arc<AtomicU8>,
    reply: oneshot::Sender<Result<JobAnswer, Error>>,
}

/// The waiting call of a job.
#[derive(Debug)]
pub(super) struct Pending {
    deadline: Instant,
    /// Whether no caller waits for it.
    is_background: bool,
    progress: Arc<AtomicU8>,
    answer: oneshot::Receiver<Result<JobAnswer, Error>>,
}

impl Job {
    /// Creates a job, and the handle that waits for its reply. The last argument is the job's
    /// creation time and its deadline.
    pub(super) fn new(
        script: &'static Script,
        arguments: Arguments,
        slot: Slot,
        delivery: JobDelivery,
        (since, deadline): (Instant, Instant),
    ) -> (Job, Pending) {
        let (reply, answer) = oneshot::channel();
        let progress = Arc::new(AtomicU8::new(WAITS));
        let is_background = delivery.is_background();
        let pending = Pending { deadline, is_background, progress: progress.clone(), answer };
        let job = Job {
            script,
            arguments,
            slot,
            delivery,
            deadline,
            since,
            ahead: 0,
            sheds: false,
            undo_rule: None,
            batch: 0,
            namespace: 0,
            redirects: 0,
            repeated: false,
            asking: false,
            calls: spans::current(),
            progress,
            reply,
        };
        (job, pending)
    }

    /// Whether its call is still waiting.
    pub(super) fn is_wanted(&self, now: Instant) -> bool {
        self.deadline > now && !self.reply.is_closed()
    }

    /// Returns the time from its creation to its deadline.
    pub(super) fn time(&self) -> Duration {
        self.deadline.saturating_duration_since(self.since)
    }

    /// Returns the measured wait per job that was ahead; `None` if there were few.
    pub(super) fn waited_each(&self, now: Instant) -> Option<Duration> {
        let ahead = u32::try_from(self.ahead).ok().filter(|ahead| *ahead >= FEW)?;
        Some(now.saturating_duration_since(self.since) / ahead)
    }

    /// Marks it as sent before it is written to a socket: from now on, its outcome is unknown.
    /// Returns false if its call has given it up, in which case it must not be sent.
    pub(super) fn mark_sent(&self) -> bool {
        self.progress.swap(SENT, Ordering::AcqRel) != GIVEN_UP
    }

    /// Records that the node did not execute it.
    pub(super) fn mark_unexecuted(&self) {
        let unless_given_up = |progress| match progress {
            SENT if !self.repeated => Some(REDIRECTED),
            _ => None,
        };
        let order = Ordering::AcqRel;
        let _ = self.progress.fetch_update(order, Ordering::Acquire, unless_given_up);
    }

    /// Rejects it, because it would not be executed in time.
    pub(super) fn reject(self) {
        self.answer(Err(budget::overloaded(ReachedLimit::Overload)));
    }

    /// Answers the call. After a second attempt, an error that means "not executed" becomes
    /// [`Error::DeadlineExceeded`].
    pub(super) fn answer(self, reply: Result<Reply, Error>) {
        let repeated = self.repeated;
        // A cancelled call has dropped its receiver.
        let _ = self.reply.send(match reply {
            Ok(reply) => Ok(JobAnswer { reply, repeated }),
            Err(error) if repeated => Err(after_repeat(error)),
            Err(error) => Err(error),
        });
    }
}

/// Converts the error of a second attempt into the error of the call. Even if the second attempt
/// was not executed, the first one may have been.
pub(super) fn after_repeat(error: Error) -> Error {
    match error {
        Error::Unavailable(_)
        | Error::Refused(_)
        | Error::StoreLost
        | Error::Overloaded
        | Error::Ending => Error::DeadlineExceeded,
        error => error,
    }
}

impl Pending {
    /// Waits for the reply until the deadline. Fails with `Overloaded` if the deadline passed
    /// before a caller's decision was sent: it was not executed, and never will be.
    pub(super) async fn wait(self) -> Result<JobAnswer, Error> {
        if let Ok(Ok(answer)) = timeout_at(self.deadline.into(), self.answer).await {
            return answer;
        }
        let why = match self.progress.swap(GIVEN_UP, Ordering::AcqRel) {
            SENT => return Err(Error::DeadlineExceeded),
            REDIRECTED => MOVED_TOO_LONG,
            _ if monotonic() < self.deadline => "its connection has ended before it was sent",
            _ if self.is_background => "no connection was free in time",
            _ => return Err(budget::overloaded(ReachedLimit::Overload)),
        };
        Err(Error::Unavailable(why.to_owned()))
    }
}

#[cfg(test)]
mod tests;
