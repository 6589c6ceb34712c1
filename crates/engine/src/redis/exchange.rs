//! One exchange between a pipeline and its node: jobs are sent, and replies are received.
//!
//! Jobs of the same script and slot form one EVALSHA, up to a number, a size and a cost. All
//! EVALSHAs of a batch are sent in one write. Each reply is handled in one of these ways:
//! - an outcome or a refusal answers the call, after replica acknowledgement if required
//! - MOVED, ASK or TRYAGAIN sends the job elsewhere
//! - an unexpected marker of the store leads to a probe, and the job is sent again
//! - after a broken connection, a repeatable job is sent again, once; other calls get
//!   [`Error::DeadlineExceeded`]
//! - without a reply by the deadline of the whole batch, every call gets
//!   [`Error::DeadlineExceeded`]
//!
//! # Replica acknowledgement
//! A reply to a decision with `wait_replicas` is valid only once enough replicas have the write.
//! WAIT covers all earlier writes on its connection, so one WAIT serves a whole batch. If replicas
//! do not acknowledge in time, the decision is undone where possible: the call fails with
//! [`Error::Unacknowledged`], which says whether the decision is void.

use std::time::Duration;

use redis::{RedisResult, Value};
use tokio::time::{error::Elapsed, timeout_at};

use super::{
    connection::NodeConnection,
    evaluate::{self, Run},
    job::{Job, JobAnswer, LISTING},
    pipeline::Pipeline,
    shared::{Redirect, Router},
};
use tollgate_core::{Cost, Reply, Revocation, Undo, error::Error, time::monotonic};
use tollgate_telemetry::{
    line_pace::LinePace,
    metrics,
    spans::{Attribute, BatchSpans, SpanValue},
};

/// The age below which a connection to a replica is kept, because reconnecting has just been tried.
const YOUNG: Duration = Duration::from_secs(1);
/// Maximum number of bytes of one script call, unless a single job is larger. Redis serves no other
/// client while it reads and copies them.
const SIZE_MAX: usize = 1 << 20;
/// Time limit for a revocation, even after its call has ended.
const REVOKE_MAX: Duration = Duration::from_secs(5);

/// Limits the log lines about lost connections, since a Redis that closes connections can cause
/// many.
static LOST: LinePace = LinePace::new(5, Duration::from_secs(10));

impl Pipeline {
    /// Sends jobs in one round trip and answers their calls. Skips jobs whose call was already
    /// answered.
    pub(super) async fn exchange(&self, connection: &mut NodeConnection, mut jobs: Vec<Job>) {
        jobs.retain(Job::mark_sent);
        if jobs.is_empty() {
            return;
        }
        let deadline = jobs.iter().map(|job| job.deadline).max().unwrap_or_else(monotonic);
        let size = jobs.len();
        let spans = BatchSpans::start(jobs.iter().map(|job| job.calls.as_ref()));
        let (runs, node) = (self.group(jobs), self.monitor.arguments());
        let begin = monotonic();
        let sent = self.shared.scripts.send(&mut connection.socket, &runs, &node);
        let sent = timeout_at(deadline.into(), sent).await;
        if let Some(spans) = spans {
            spans.end("PIPELINE EVALSHA", attributes, failure(&sent));
        }
        match sent {
            Ok(Ok(results)) => {
                metrics::count(|cells| {
                    cells.round_trips.observe(monotonic().saturating_duration_since(begin));
                    cells.batches.observe(size);
                });
                self.monitor.record_answer();
                let (mut is_read_only, mut open) = (false, OpenJobs::default());
                for (run, result) in runs.into_iter().zip(results) {
                    is_read_only |= self.hand_out(run, result, &mut open);
                }
                let OpenJobs { waiting, unmarked } = open;
                if !unmarked.is_empty() {
                    // Boxed because it is rare, so that the task of a batch stays small.
                    Box::pin(self.read_marker(connection, unmarked)).await;
                }
                // The node has become a replica, so reconnect to find its successor.
                if is_read_only && connection.made.elapsed() > YOUNG {
                    self.lose(connection);
                }
                if let Err(unknown) = self.acknowledge(connection, waiting).await {
                    self.lose(connection);
                    unknown.into_iter().for_each(|job| self.send_again(job));
                }
            }
            // The connection failed, not just a single command.
            Ok(Err(error)) => {
                if let Some(suppressed) = LOST.due() {
                    tracing::debug!(%error, suppressed, "lost a connection to Redis");
                }
                self.lose(connection);
                runs.into_iter().flat_map(|run| run.jobs).for_each(|job| self.send_again(job));
            }
            Err(_) => {
                connection.is_broken = true;
                let jobs = runs.into_iter().flat_map(|run| run.jobs);
                jobs.for_each(|job| job.answer(Err(Error::DeadlineExceeded)));
            }
        }
    }

    /// Drops this connection and all connections that were made before it.
    fn lose(&self, connection: &mut NodeConnection) {
        connection.is_broken = true;
        self.monitor.record_loss(connection.epoch);
    }

    /// Groups jobs into script calls of one script and one slot.
    fn group(&self, jobs: Vec<Job>) -> Vec<Run> {
        let kind = |job: &Job| {
            (job.script.name.as_ptr(), job.slot, job.asking, job.delivery.is_background())
        };
        // Sorts references, because a job is large, and then moves each job only once.
        let mut order: Vec<_> = (0..)
            .zip(&jobs)
            .map(|(index, job)| {
                // Adjacent jobs of one pool or policy share keys and arguments.
                let shared = job.script.shared().and_then(|_| job.arguments.keys().next());
                (kind(job), shared, index)
            })
            .collect();
        // The index keeps the order of jobs with equal keys.
        order.sort_unstable();
        let order: Vec<usize> = order.into_iter().map(|(_, _, index)| index).collect();
        let mut jobs: Vec<Option<Job>> = jobs.into_iter().map(Some).collect();
        let mut runs: Vec<Run> = Vec::new();
        // The size, in bytes, and the cost, in µs, of the current script call.
        let (mut size, mut cost) = (0, 0);
        for job in order.into_iter().filter_map(|index| jobs[index].take()) {
            size += job.arguments.size();
            cost += job.delivery.cost.micros();
            let fits = |run: &&mut Run| {
                let is_alone = job.delivery.is_background() || job.script.repeated;
                let most = if is_alone { 1 } else { self.shared.batch_max };
                let is_like = run.jobs.first().is_some_and(|first| kind(first) == kind(&job));
                let is_short = size <= SIZE_MAX && cost <= Cost::CALL_MAX;
                is_like && (run.jobs.len() < most && is_short || run.must_have(&job))
            };
            match runs.last_mut().filter(fits) {
                Some(run) => run.jobs.push(job),
                None => {
                    (size, cost) = (job.arguments.size(), job.delivery.cost.micros());
                    runs.push(Run { script: job.script, asking: job.asking, jobs: vec![job] });
                }
            }
        }
        runs
    }

    /// Answers the jobs of a script call, except the jobs that it adds to `open`. Returns whether a replica
    /// answered.
    fn hand_out(&self, run: Run, result: RedisResult<Value>, open: &mut OpenJobs) -> bool {
        let replies = match result {
            Ok(value) => evaluate::replies(run.script, value, run.jobs.len()),
            Err(error) => match Redirect::from_error(&error) {
                Some(redirect) => {
                    run.jobs.into_iter().for_each(|job| self.redirect(job, &redirect));
                    return false;
                }
                None => Err(evaluate::error(&error)),
            },
        };
        match replies {
            Ok(replies) => {
                let is_read_only = replies.iter().any(is_read_only);
                for (job, reply) in run.jobs.into_iter().zip(replies) {
                    match reply {
                        Ok(reply) => {
                            open.waiting.extend(UnacknowledgedReply::unless_it_counts(job, reply))
                        }
                        Err(error) if evaluate::is_marker_changed(&error) => {
                            open.unmarked.push(job);
                        }
                        Err(error) => {
                            if let Error::Refused(why) = &error {
                                self.monitor.record_refusal(why);
                            }
                            job.answer(Err(error));
                        }
                    }
                }
                is_read_only
            }
            Err(error) => {
                let is_read_only = is_read_only(&Err(error.clone()));
                run.jobs.into_iter().for_each(|job| job.answer(Err(error.clone())));
                is_read_only
            }
        }
    }

    /// Probes the node, and sends jobs again that were not executed because its marker has changed.
    async fn read_marker(&self, connection: &mut NodeConnection, jobs: Vec<Job>) {
        let deadline = jobs.iter().map(|job| job.deadline).max().unwrap_or_else(monotonic);
        let greeted = timeout_at(deadline.into(), self.monitor.greet(&mut connection.socket)).await;
        match greeted {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(refusal))) => {
                let refused = |job: Job| job.answer(Err(Error::Refused(refusal.clone())));
                return jobs.into_iter().for_each(refused);
            }
            Ok(Err(_)) | Err(_) => self.lose(connection),
        }
        jobs.into_iter().for_each(|job| self.redirect(job, &Redirect::MarkerRead));
    }

    /// Sends a job to the node that its node named. That node did not execute it.
    fn redirect(&self, job: Job, redirect: &Redirect) {
        job.mark_unexecuted();
        match self.shared.router() {
            Some(router) => router.redirect(job, redirect),
            None => job.answer(Err(Error::Ending)),
        }
    }

    /// Sends a job a second time after its connection broke, if its decision is repeatable.
    fn send_again(&self, mut job: Job) {
        match self.shared.router() {
            Some(router) if job.delivery.is_repeatable && !job.repeated => {
                job.repeated = true;
                router.push(job);
            }
            _ => job.answer(Err(Error::DeadlineExceeded)),
        }
    }

    /// Waits until replicas have the writes of this connection, once for each number of replicas,
    /// and answers the calls. If the connection breaks, returns the jobs whose outcome is unknown.
    pub(super) async fn acknowledge(
        &self,
        connection: &mut NodeConnection,
        mut waiting: Vec<UnacknowledgedReply>,
    ) -> Result<(), Vec<Job>> {
        // Smaller numbers of replicas come first, because the other replicas may be unreachable.
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
        // Runs as a task, because the call may have ended and the pipeline serves others.
        tokio::spawn(async move {
            let is_void = revoke(&*router, &job, revocation).await.unwrap_or(false);
            job.answer(Err(Error::Unacknowledged { why, is_void }));
        });
    }
}

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
        // The reply is cloned, because after a broken connection the second attempt is classified
        // again.
        match job.undo_rule.as_ref().map(|rule| rule.undo(reply.clone())) {
            None | Some(Undo::Counts) => {
                job.answer(Ok(reply));
                None
            }
            Some(otherwise) => Some(UnacknowledgedReply { job, reply, otherwise }),
        }
    }
}

/// The jobs of an exchange that are not answered yet.
#[derive(Default)]
struct OpenJobs {
    /// Replies that need replica acknowledgement.
    waiting: Vec<UnacknowledgedReply>,
    /// Jobs that were not executed because the marker of the store has changed.
    unmarked: Vec<Job>,
}

/// Returns the attributes of the span of a batch.
fn attributes(size: usize) -> Vec<Attribute> {
    let text = |text: &'static str| SpanValue::Text(text.into());
    let size = SpanValue::Number(i64::try_from(size).unwrap_or(i64::MAX));
    vec![
        ("db.system.name", text("redis")),
        ("db.operation.name", text("PIPELINE EVALSHA")),
        ("db.operation.batch.size", size),
    ]
}

/// Returns the reason why a batch has no replies.
fn failure<T>(sent: &Result<RedisResult<T>, Elapsed>) -> Option<&'static str> {
    match sent {
        Ok(Ok(_)) => None,
        Ok(Err(_)) => Some("the connection was lost"),
        Err(_) => Some("no reply by the deadline"),
    }
}

/// Whether a replica answered.
fn is_read_only(reply: &Result<Reply, Error>) -> bool {
    matches!(reply, Err(Error::Refused(reason)) if reason.contains("READONLY"))
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
