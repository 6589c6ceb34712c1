//! One exchange with Redis: a connection, scripts, their replies; a second try where
//! the first one's fate is unknown.

use std::time::{Duration, Instant};

use redis::RedisError;
use tokio::{sync::SemaphorePermit, time::timeout_at};

use super::{
    Redis, Replies, connection,
    evaluate::{self, Run},
};
use crate::{error::Error, time::monotonic};

/// The longest that a call waits for Redis, whatever its deadline: a peer that
/// vanished without a word must not keep connections for longer.
const ATTEMPT_MAX: Duration = Duration::from_secs(5);
/// A connection that is younger has just been made anew: that it leads to a replica
/// is no reason to do so again.
const YOUNG: Duration = Duration::from_secs(1);

/// How scripts are sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sending {
    /// Whether they may be sent again when their reply was lost.
    pub(super) repeatable: bool,
    /// How many replicas have to have what they wrote before their reply counts.
    pub(super) replicas: u32,
    /// Whether they count as none of the calls in flight.
    pub(super) is_upkeep: bool,
}

/// What came back.
#[derive(Debug)]
pub(super) struct Answers {
    /// Of each script, the reply of each item.
    pub(super) answers: Vec<Result<Replies, Error>>,
    /// Whether they may have been executed before.
    pub(super) repeated: bool,
}

impl Redis {
    /// Runs scripts in one round trip.
    ///
    /// If the connection breaks they are sent once more, where they can be
    /// repeated.
    pub(super) async fn evaluate(
        &self,
        runs: &[Run<'_>],
        sending: Sending,
        deadline: Instant,
    ) -> Result<Answers, Error> {
        self.monitor.check()?;
        let _permit = match sending.is_upkeep {
            true => None,
            false => Some(self.calls.try_acquire().map_err(|_| Error::Overloaded)?),
        };
        let deadline = deadline.min(monotonic() + ATTEMPT_MAX);
        let _place = match sending.replicas {
            0 => None,
            _ => Some(self.place_to_wait(deadline).await?),
        };
        if let Some(answers) = self.attempt(runs, sending.replicas, deadline).await? {
            return Ok(Answers { answers, repeated: false });
        }
        if !sending.repeatable {
            return Err(Error::DeadlineExceeded);
        }
        // Whatever keeps the second try from being made, or from being executed, says
        // nothing of the first, which may have been.
        let unknown = |error| match error {
            Error::Unavailable(_) => Error::DeadlineExceeded,
            error => error,
        };
        let answers = self.attempt(runs, sending.replicas, deadline).await.map_err(unknown)?;
        let answers = answers.ok_or(Error::DeadlineExceeded)?.into_iter().map(|answer| {
            let replies = answer.map_err(unknown)?;
            Ok(replies.into_iter().map(|reply| reply.map_err(unknown)).collect())
        });
        Ok(Answers { answers: answers.collect(), repeated: true })
    }

    /// A place among those that wait for replicas: if those are away, that must not
    /// hold up who needs none. Leaves time to say that there is none.
    async fn place_to_wait(&self, deadline: Instant) -> Result<SemaphorePermit<'_>, Error> {
        let now = monotonic();
        let until = now + deadline.saturating_duration_since(now).mul_f32(0.8);
        let place = timeout_at(until.into(), self.waits.acquire()).await;
        let none = || Error::Unavailable("others wait for the replicas already".to_owned());
        // It is never closed.
        place.ok().and_then(Result::ok).ok_or_else(none)
    }

    /// One try; none when the connection broke and the fate is unknown.
    async fn attempt(
        &self,
        runs: &[Run<'_>],
        replicas: u32,
        deadline: Instant,
    ) -> Result<Option<Vec<Result<Replies, Error>>>, Error> {
        let borrowed = timeout_at(deadline.into(), connection::borrow(&self.pool, &self.monitor));
        let no_connection = |_| Error::Unavailable("no connection was free in time".to_owned());
        let mut connection = borrowed.await.map_err(no_connection)??;
        let sent = async {
            let results = self.scripts.send(&mut connection, runs).await?;
            let left = deadline.saturating_duration_since(monotonic());
            let waited = match replicas {
                0 => Ok(()),
                _ => evaluate::wait(&mut connection, replicas, left).await?,
            };
            Ok::<_, RedisError>((results, waited))
        };
        match timeout_at(deadline.into(), sent).await {
            Ok(Ok((results, waited))) => {
                self.monitor.note_answer();
                let answers = results.into_iter().zip(runs).map(|(result, (_, batch))| {
                    let value = result.map_err(|error| evaluate::error(&error))?;
                    let replies = evaluate::replies(value, batch.len())?;
                    // What failed by itself has told why.
                    let fine = replies.iter().all(Result::is_ok);
                    if fine { waited.clone().map(|()| replies) } else { Ok(replies) }
                });
                let answers: Vec<_> = answers.collect();
                // It was demoted; where it was found there may be its successor.
                if connection.made.elapsed() > YOUNG && answers.iter().any(is_read_only) {
                    connection.mark_broken();
                    self.monitor.note_loss(connection.epoch);
                }
                Ok(Some(answers))
            }
            Ok(Err(error)) if error.is_unrecoverable_error() => {
                connection.mark_broken();
                self.monitor.note_loss(connection.epoch);
                Ok(None)
            }
            Ok(Err(error)) => Err(evaluate::error(&error)),
            Err(_) => {
                connection.mark_broken();
                Err(Error::DeadlineExceeded)
            }
        }
    }
}

/// Whether a replica answered.
fn is_read_only(answer: &Result<Replies, Error>) -> bool {
    let says_so =
        |error: &Error| matches!(error, Error::Unavailable(reason) if reason.contains("READONLY"));
    match answer {
        Ok(replies) => replies.iter().any(|reply| reply.as_ref().is_err_and(says_so)),
        Err(error) => says_so(error),
    }
}
