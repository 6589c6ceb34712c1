//! Replica acknowledgement: replies that count only once enough replicas have the write.
//!
//! `batch` hands over the replies of decisions with `wait_replicas`. WAIT on the same connection
//! covers all writes of that connection before it, so one WAIT serves a whole batch. If replicas do
//! not acknowledge in time, the decision is undone where possible: the call fails with
//! [`Error::Unacknowledged`], which says whether the decision is void.

use std::time::Duration;

use tokio::time::timeout_at;

use super::{
    connection::NodeConnection,
    evaluate,
    job::{Job, JobAnswer, LISTING},
    pipeline::Pipeline,
    shared::Router,
};
use tollgate_core::{Reply, Revocation, Undo, error::Error, time::monotonic};

/// The time limit of a revocation, also after its call has ended.
const REVOKE_MAX: Duration = Duration::from_secs(5);

/// A reply that waits for replicas.
#[derive(Debug)]
pub(super) struct UnacknowledgedReply {
    job: Job,
    reply: Reply,
    /// How to undo the decision.
    otherwise: Undo,
}

impl UnacknowledgedReply {
    /// Answers the call of a reply that needs no acknowledgement, such as a refusal. Otherwise
    /// returns the reply.
    pub(super) fn unless_it_counts(job: Job, reply: Reply) -> Option<UnacknowledgedReply> {
        // The reply is cloned: after a broken connection the second try is classified again.
        match job.undo_rule.as_ref().map(|rule| rule.undo(reply.clone())) {
            None | Some(Undo::Counts) => {
                job.answer(Ok(reply));
                None
            }
            Some(otherwise) => Some(UnacknowledgedReply { job, reply, otherwise }),
        }
    }
}

impl Pipeline {
    /// Waits until replicas have the writes of this connection, once for each number of replicas,
    /// and answers the calls. If the connection breaks, returns the jobs whose fate is unknown.
    pub(super) async fn acknowledge(
        &self,
        connection: &mut NodeConnection,
        mut waiting: Vec<UnacknowledgedReply>,
    ) -> Result<(), Vec<Job>> {
        // Fewer replicas first: the others may be unreachable.
        waiting.sort_by_key(|waiting| waiting.job.delivery.acknowledgement.replicas);
        while let Some(first) = waiting.first() {
            let acknowledgement = first.job.delivery.acknowledgement;
            let alike = |waiting: &UnacknowledgedReply| {
                waiting.job.delivery.acknowledgement == acknowledgement
            };
            let deadline = waiting.iter().filter(|one| alike(one)).map(|one| one.job.deadline);
            let deadline = deadline.max().unwrap_or_else(monotonic);
            let left = deadline.saturating_duration_since(monotonic());
            let waited = evaluate::wait(&mut connection.socket, acknowledgement, left);
            let waited = match timeout_at(deadline.into(), waited).await {
                Ok(Ok(waited)) => waited,
                Ok(Err(_)) => return Err(waiting.into_iter().map(|waiting| waiting.job).collect()),
                Err(_) => {
                    for UnacknowledgedReply { job, otherwise, .. } in waiting {
                        self.give_up(job, otherwise, "no answer to WAIT".to_owned());
                    }
                    return Err(Vec::new());
                }
            };
            for UnacknowledgedReply { job, reply, otherwise } in
                waiting.extract_if(.., |one| alike(one))
            {
                match &waited {
                    Ok(()) => job.answer(Ok(reply)),
                    Err(why) => self.give_up(job, otherwise, why.clone()),
                }
            }
        }
        Ok(())
    }

    /// Answers a call whose write was not acknowledged, after undoing it if possible.
    fn give_up(&self, job: Job, otherwise: Undo, why: String) {
        let revocation = match otherwise {
            Undo::Revoke(revocation) => revocation,
            Undo::Counts | Undo::Void => {
                return job.answer(Err(Error::Unacknowledged { why, is_void: true }));
            }
            Undo::Stands => {
                return job.answer(Err(Error::Unacknowledged { why, is_void: false }));
            }
        };
        let Some(router) = self.shared.router() else {
            return job.answer(Err(Error::Unacknowledged { why, is_void: false }));
        };
        // A task: the call may have ended, and the pipeline serves others.
        tokio::spawn(async move {
            let is_void = revoke(&*router, &job, revocation).await.unwrap_or(false);
            job.answer(Err(Error::Unacknowledged { why, is_void }));
        });
    }
}

/// Revokes a decision. Returns whether it is void; if not, another call has already reported it.
async fn revoke(router: &dyn Router, job: &Job, revocation: Revocation) -> Result<bool, Error> {
    let Revocation { script, arguments, is_done } = revocation;
    let now = monotonic();
    let times = (now, now + REVOKE_MAX);
    let (revoking, pending) = Job::new(script, arguments, job.slot, LISTING, times);
    router.push(revoking);
    let JobAnswer { mut reply, .. } = pending.wait().await?;
    is_done(&mut reply)
}
