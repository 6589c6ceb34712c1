//! Decides in Redis: one decision is one EVALSHA is one round trip.
//!
//! Calls borrow a connection from a bounded pool for the length of their round
//! trip. While the store is known to be down calls fail at once; a probe finds
//! out when it is back.

mod connection;
mod evaluate;
mod index;
mod monitor;
mod socket;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use bb8_redis::bb8;
use redis::RedisError;
use tokio::{
    sync::{Semaphore, watch},
    time::timeout_at,
};

use super::{BATCH_MAX, PartitionCursor, PartitionPage, StoreState};
use crate::{
    decision::{Call, Decision, Reply, State},
    error::Error,
    script,
    time::monotonic,
};
use connection::Connector;
use evaluate::{Run, Scripts};
use index::Index;
use monitor::Monitor;

/// The longest that a call waits for Redis, whatever its deadline: a peer that
/// vanished without a word must not keep connections for longer.
const ATTEMPT_MAX: Duration = Duration::from_secs(5);

/// How to reach Redis and how to use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisOptions {
    /// `redis://[user:password@]host:port[/database]`.
    pub url: String,
    /// Connections at most: 1 to 1024.
    pub connections: u32,
    /// Calls in flight at most; further ones are refused at once.
    pub calls_max: usize,
    /// What every key starts with.
    pub key_prefix: String,
    /// Lua that sets `now` in place of Redis's own clock, for tests that step
    /// the time. None in production.
    pub clock: Option<String>,
}

impl RedisOptions {
    /// The defaults for a Redis at `url`.
    pub fn new(url: &str) -> RedisOptions {
        RedisOptions {
            url: url.to_owned(),
            connections: 32,
            calls_max: 4096,
            key_prefix: "tollgate".to_owned(),
            clock: None,
        }
    }

    /// Checks the URL; the error says what is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        redis::Client::open(self.url.as_str()).map(drop).map_err(|error| error.to_string())
    }
}

/// The Redis engine.
pub struct Redis {
    pool: bb8::Pool<Connector>,
    calls: Semaphore,
    /// Of the connections, those on which replicas may be waited for.
    waits: Semaphore,
    scripts: Scripts,
    index: Index,
    monitor: Arc<Monitor>,
    key_prefix: String,
}

/// How a pipeline of scripts is sent.
#[derive(Debug, Clone, Copy)]
struct Sending {
    /// Whether it may be sent again when its reply was lost.
    repeatable: bool,
    /// How many replicas have to have what it wrote before its reply counts.
    replicas: u32,
}

/// What each item of a batch was answered.
type Replies = Vec<Result<Reply, Error>>;

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("monitor", &self.monitor).finish_non_exhaustive()
    }
}

impl Redis {
    /// An engine on this Redis, which need not answer yet. The error says what
    /// is wrong with the URL.
    pub fn new(options: &RedisOptions) -> Result<Redis, String> {
        let client = redis::Client::open(options.url.as_str()).map_err(|e| e.to_string())?;
        let monitor = Arc::new(Monitor::new(client.clone()));
        let pool = bb8::Pool::builder()
            .max_size(options.connections)
            // A PING before every call would double the round trips.
            .test_on_check_out(false)
            // The call's own deadline decides how long to wait.
            .retry_connection(false)
            .build_unchecked(Connector::new(client, monitor.clone()));
        Ok(Redis {
            pool,
            calls: Semaphore::new(options.calls_max),
            waits: Semaphore::new(options.connections.div_ceil(4) as usize),
            scripts: Scripts::new(options.clock.as_deref()),
            index: Index::default(),
            monitor,
            key_prefix: options.key_prefix.clone(),
        })
    }

    pub(super) async fn run<D: Decision>(
        &self,
        decision: &D,
        deadline: Instant,
    ) -> Result<D::Outcome, Error> {
        let (partition, listing) = (decision.partition(), decision.listing());
        let call = [Call::of(decision, &self.key_prefix)];
        let note = self
            .index
            .is_due(partition, listing)
            .then(|| [index::note(&self.key_prefix, D::State::CAPABILITY, partition, listing)]);
        let beside = note.as_ref().map(|call| (&script::NOTE_PARTITION, &call[..]));
        let runs: Vec<Run> = std::iter::once((D::SCRIPT, &call[..])).chain(beside).collect();
        let sending =
            Sending { repeatable: decision.is_repeatable(), replicas: decision.replicas() };
        let mut answers = self.evaluate(&runs, sending, deadline).await?.into_iter();
        let outcome = only(answers.next());
        if answers.next().is_some_and(|noted| noted.is_ok()) {
            self.index.noted(partition);
        }
        D::parse(&mut outcome?)
    }

    pub(super) async fn run_all<D: Decision>(
        &self,
        decisions: &[D],
        deadline: Instant,
    ) -> Result<Vec<Result<D::Outcome, Error>>, Error> {
        if decisions.is_empty() {
            return Ok(Vec::new());
        }
        let calls: Vec<Call> =
            decisions.iter().map(|decision| Call::of(decision, &self.key_prefix)).collect();
        let runs: Vec<Run> = calls.chunks(BATCH_MAX).map(|batch| (D::SCRIPT, batch)).collect();
        let mut outcomes = Vec::with_capacity(decisions.len());
        let sending = Sending {
            repeatable: decisions.iter().all(D::is_repeatable),
            replicas: decisions.iter().map(D::replicas).max().unwrap_or(0),
        };
        let answers = self.evaluate(&runs, sending, deadline).await?;
        for (answer, (_, batch)) in answers.into_iter().zip(&runs) {
            match answer {
                Ok(replies) => {
                    outcomes.extend(replies.into_iter().map(|reply| D::parse(&mut reply?)));
                }
                Err(error) => outcomes.extend(batch.iter().map(|_| Err(error.clone()))),
            }
        }
        Ok(outcomes)
    }

    pub(super) async fn partitions(
        &self,
        capability: &'static str,
        limit: u32,
        after: Option<&PartitionCursor>,
        deadline: Instant,
    ) -> Result<PartitionPage, Error> {
        let call = [index::list(&self.key_prefix, capability, limit, after)];
        let sending = Sending { repeatable: true, replicas: 0 };
        let runs = [(&script::LIST_PARTITIONS, &call[..])];
        let answers = self.evaluate(&runs, sending, deadline).await?;
        index::parse_page(&mut only(answers.into_iter().next())?)
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        self.monitor.check()
    }

    pub(super) fn state(&self) -> watch::Receiver<StoreState> {
        self.monitor.state()
    }

    pub(super) async fn maintain(&self) {
        self.monitor.probe().await;
    }

    /// Runs scripts in one round trip.
    ///
    /// If the connection breaks they are sent once more, where they can be
    /// repeated.
    async fn evaluate(
        &self,
        runs: &[Run<'_>],
        sending: Sending,
        deadline: Instant,
    ) -> Result<Vec<Result<Replies, Error>>, Error> {
        self.monitor.check()?;
        let _permit = self.calls.try_acquire().map_err(|_| Error::Overloaded)?;
        let _wait = match sending.replicas {
            0 => None,
            // Replicas that are away must not hold up those that need none.
            _ => Some(self.waits.try_acquire().map_err(|_| Error::Overloaded)?),
        };
        let deadline = deadline.min(monotonic() + ATTEMPT_MAX);
        if let Some(answers) = self.attempt(runs, sending.replicas, deadline).await? {
            return Ok(answers);
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
        Ok(answers.collect())
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
                Ok(Some(answers.collect()))
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

/// The reply of a batch of one.
fn only(answer: Option<Result<Replies, Error>>) -> Result<Reply, Error> {
    let none = || Err(Error::Corrupt("a batch without replies".to_owned()));
    answer.map_or_else(none, |replies| replies?.into_iter().next().unwrap_or_else(none))
}
