//! One exchange with a node: what was taken from a lane, as one script call for each
//! kind of decision, and what becomes of each reply.

use std::{cmp::Ordering, time::Duration};

use redis::{RedisError, RedisResult, ServerErrorKind, Value};
use tokio::time::timeout_at;

use super::{
    confirm::Waiting,
    connection::Connection,
    evaluate::{self, Run},
    job::Job,
    lane::Lane,
    topology::Redirect,
};
use crate::{
    decision::{Cost, Reply},
    error::Error,
    time::monotonic,
};

/// A connection that is younger has just been made anew: that it leads to a replica
/// is no reason to do so again.
const YOUNG: Duration = Duration::from_secs(1);
/// Bytes of one script call, as a rule: Redis serves nobody else while it copies them.
const SIZE_MAX: usize = 1 << 20;

impl Lane {
    /// Sends decisions in one round trip, and hands out the replies, those that replicas
    /// have to confirm once they have.
    pub(super) async fn exchange(&self, connection: &mut Connection, jobs: Vec<Job>) {
        let deadline = jobs.iter().map(|job| job.deadline).max().unwrap_or_else(monotonic);
        let runs = self.group(jobs);
        runs.iter().flat_map(|run| &run.jobs).for_each(Job::note_sent);
        let sent = self.shared.scripts.send(connection, &runs, self.monitor.ahead());
        match timeout_at(deadline.into(), sent).await {
            Ok(Ok(results)) => {
                self.monitor.note_answer();
                let (mut is_read_only, mut waiting) = (false, Vec::new());
                for (run, result) in runs.into_iter().zip(results) {
                    is_read_only |= self.hand_out(run, result, &mut waiting);
                }
                // It was demoted; where it was found there may be its successor.
                if is_read_only && connection.made.elapsed() > YOUNG {
                    self.lose(connection);
                }
                if let Err(unknown) = self.confirm(connection, waiting).await {
                    self.lose(connection);
                    unknown.into_iter().for_each(|job| self.send_again(job));
                }
            }
            // What a command was answered is its own; this is of the connection.
            Ok(Err(error)) => {
                tracing::debug!(%error, "a connection to the store is lost");
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

    /// The connection is good for nothing more, nor those that were made before it.
    fn lose(&self, connection: &mut Connection) {
        connection.mark_broken();
        self.monitor.note_loss(connection.epoch);
    }

    /// Script calls of one kind and one slot each.
    fn group(&self, mut jobs: Vec<Job>) -> Vec<Run> {
        let kind =
            |job: &Job| (job.script.name.as_ptr(), job.slot, job.asking, job.sending.is_upkeep);
        jobs.sort_by(|one, other| {
            // What is of one pool shares its keys and arguments.
            let share = || match one.script.shared() {
                Some(_) => one.arguments.keys().next().cmp(&other.arguments.keys().next()),
                None => Ordering::Equal,
            };
            kind(one).cmp(&kind(other)).then_with(share)
        });
        let mut runs: Vec<Run> = Vec::new();
        let (mut size, mut cost) = (0, 0);
        for job in jobs {
            size += job.arguments.size();
            cost += job.sending.cost.micros();
            let fits = |run: &&mut Run| {
                let most = if job.sending.is_upkeep { 1 } else { self.shared.batch_max };
                let is_like = run.jobs.first().is_some_and(|first| kind(first) == kind(&job));
                let is_short = size <= SIZE_MAX && cost <= Cost::CALL_MAX;
                is_like && run.jobs.len() < most && is_short
            };
            match runs.last_mut().filter(fits) {
                Some(run) => run.jobs.push(job),
                None => {
                    (size, cost) = (job.arguments.size(), job.sending.cost.micros());
                    runs.push(Run { script: job.script, asking: job.asking, jobs: vec![job] });
                }
            }
        }
        runs
    }

    /// Hands out the replies of a script call, but for those that have to wait; whether a
    /// replica gave them.
    fn hand_out(&self, run: Run, result: RedisResult<Value>, waiting: &mut Vec<Waiting>) -> bool {
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
                        Ok(reply) => waiting.extend(Waiting::unless_it_counts(job, reply)),
                        Err(error) => job.answer(Err(error)),
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

    /// Sends a decision where its node says; that one did not execute it.
    fn redirect(&self, job: Job, redirect: &Redirect) {
        job.note_unexecuted();
        match self.shared.topology() {
            Some(topology) => topology.redirect(job, redirect),
            None => job.answer(Err(Error::Ending)),
        }
    }

    /// Sends a decision a second time, whose connection broke, where it can be repeated.
    fn send_again(&self, mut job: Job) {
        match self.shared.topology() {
            Some(topology) if job.sending.repeatable && !job.repeated => {
                job.repeated = true;
                topology.push(job);
            }
            _ => job.answer(Err(Error::DeadlineExceeded)),
        }
    }
}

/// Whether a replica answered.
fn is_read_only(reply: &Result<Reply, Error>) -> bool {
    matches!(reply, Err(Error::Refused(reason)) if reason.contains("READONLY"))
}

impl Redirect {
    /// What an error says of where else to go.
    fn of(error: &RedisError) -> Option<Redirect> {
        let to = |(place, slot): (&str, u16)| (place.to_owned(), slot);
        match error.kind() {
            redis::ErrorKind::Server(ServerErrorKind::Moved) => {
                let (place, slot) = error.redirect_node().map(to)?;
                Some(Redirect::Moved { place, slot })
            }
            redis::ErrorKind::Server(ServerErrorKind::Ask) => {
                Some(Redirect::Ask { place: error.redirect_node().map(to)?.0 })
            }
            redis::ErrorKind::Server(ServerErrorKind::TryAgain) => Some(Redirect::TryAgain),
            _ => None,
        }
    }
}
