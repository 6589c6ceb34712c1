//! One exchange of a pipeline with its node: jobs out, replies back.
//!
//! Jobs of the same script and slot form one EVALSHA, up to a number, a size and a cost. All
//! EVALSHAs of a batch go in one write. Each reply ends in one of these ways:
//! - an outcome or a refusal answers the call, after replica acknowledgement if required
//! - MOVED, ASK or TRYAGAIN sends the job elsewhere
//! - another marker of the store than expected: a probe, then the job is sent again
//! - a broken connection sends a repeatable job again, once; other calls get
//!   [`Error::DeadlineExceeded`]
//! - no reply by the deadline of the whole batch: every call gets [`Error::DeadlineExceeded`]

use std::{cmp::Ordering, time::Duration};

use redis::{RedisResult, Value};
use tokio::time::{error::Elapsed, timeout_at};

use super::{
    connection::NodeConnection,
    evaluate::{self, Run},
    job::Job,
    pipeline::Pipeline,
    replicas::UnacknowledgedReply,
    shared::Redirect,
};
use tollgate_core::{Cost, Reply, error::Error, time::monotonic};
use tollgate_telemetry::{
    line_pace::LinePace,
    metrics,
    spans::{Attribute, BatchSpans, SpanValue},
};

/// The age below which a connection that leads to a replica is kept: reconnecting has just been
/// tried.
const YOUNG: Duration = Duration::from_secs(1);
/// The bytes of one script call, unless a single job is larger. Redis serves no other client while
/// it reads and copies them.
const SIZE_MAX: usize = 1 << 20;

/// Limits the lines about lost connections: a Redis that closes them can repeat them.
static LOST: LinePace = LinePace::new(5, Duration::from_secs(10));

impl Pipeline {
    /// Sends jobs in one round trip and answers their calls. Skips jobs whose call was answered
    /// already.
    pub(super) async fn exchange(&self, connection: &mut NodeConnection, mut jobs: Vec<Job>) {
        jobs.retain(Job::note_sent);
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
                self.monitor.note_answer();
                let (mut is_read_only, mut open) = (false, OpenJobs::default());
                for (run, result) in runs.into_iter().zip(results) {
                    is_read_only |= self.hand_out(run, result, &mut open);
                }
                let OpenJobs { waiting, unmarked } = open;
                if !unmarked.is_empty() {
                    self.read_marker(connection, unmarked).await;
                }
                // The node is a replica now: reconnect to find its successor.
                if is_read_only && connection.made.elapsed() > YOUNG {
                    self.lose(connection);
                }
                if let Err(unknown) = self.acknowledge(connection, waiting).await {
                    self.lose(connection);
                    unknown.into_iter().for_each(|job| self.send_again(job));
                }
            }
            // An error of the connection, not of a single command.
            Ok(Err(error)) => {
                if let Some(suppressed) = LOST.due() {
                    tracing::debug!(%error, suppressed, "lost a connection to Redis");
                }
                self.lose(connection);
                runs.into_iter().flat_map(|run| run.jobs).for_each(|job| self.send_again(job));
            }
            Err(_) => {
                connection.mark_broken();
                let jobs = runs.into_iter().flat_map(|run| run.jobs);
                jobs.for_each(|job| job.answer(Err(Error::DeadlineExceeded)));
            }
        }
    }

    /// Drops this connection, and all that were made before it.
    fn lose(&self, connection: &mut NodeConnection) {
        connection.mark_broken();
        self.monitor.note_loss(connection.epoch);
    }

    /// Groups jobs into script calls of one script and one slot.
    fn group(&self, mut jobs: Vec<Job>) -> Vec<Run> {
        let kind = |job: &Job| {
            (job.script.name.as_ptr(), job.slot, job.asking, job.delivery.is_background())
        };
        jobs.sort_by(|one, other| {
            // Neighbours of one pool or policy share keys and arguments.
            let share = || match one.script.shared() {
                Some(_) => one.arguments.keys().next().cmp(&other.arguments.keys().next()),
                None => Ordering::Equal,
            };
            kind(one).cmp(&kind(other)).then_with(share)
        });
        let mut runs: Vec<Run> = Vec::new();
        // The size, in bytes, and the cost, in µs, of the current script call.
        let (mut size, mut cost) = (0, 0);
        for job in jobs {
            size += job.arguments.size();
            cost += job.delivery.cost.micros();
            let fits = |run: &&mut Run| {
                let is_alone = job.delivery.is_background() || job.script.repeated;
                let most = if is_alone { 1 } else { self.shared.batch_max };
                let is_like = run.jobs.first().is_some_and(|first| kind(first) == kind(&job));
                let is_short = size <= SIZE_MAX && cost <= Cost::CALL_MAX;
                is_like && run.jobs.len() < most && is_short
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

    /// Answers the jobs of a script call, except those that stay `open`. Returns whether a replica
    /// answered.
    fn hand_out(&self, run: Run, result: RedisResult<Value>, open: &mut OpenJobs) -> bool {
        let replies = match result {
            Ok(value) => evaluate::replies(value, run.jobs.len()),
            Err(error) => match Redirect::of(&error) {
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
                                self.monitor.note_refusal(why);
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

    /// Sends a job where its node said. That node did not execute it.
    fn redirect(&self, job: Job, redirect: &Redirect) {
        job.note_unexecuted();
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
}

/// The jobs of an exchange that are not answered yet.
#[derive(Default)]
struct OpenJobs {
    /// Replies that need replica acknowledgement.
    waiting: Vec<UnacknowledgedReply>,
    /// Jobs that were not executed because the marker of the store has changed.
    unmarked: Vec<Job>,
}

/// The properties of the span of a batch.
fn attributes(size: usize) -> Vec<Attribute> {
    let text = |text: &'static str| SpanValue::Text(text.into());
    let size = SpanValue::Number(i64::try_from(size).unwrap_or(i64::MAX));
    vec![
        ("db.system.name", text("redis")),
        ("db.operation.name", text("PIPELINE EVALSHA")),
        ("db.operation.batch.size", size),
    ]
}

/// The reason why a batch has no replies.
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
