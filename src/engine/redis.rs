//! Decides in Redis: one decision is one EVALSHA is one round trip.
//!
//! Calls borrow a connection from a bounded pool for the length of their round
//! trip. While the store is known to be down calls fail at once; a probe finds
//! out when it is back.

mod connection;
mod evaluate;
mod exchange;
mod hints;
mod index;
mod monitor;
mod round;
mod socket;

use std::{fmt, sync::Arc, time::Instant};

use bb8_redis::bb8;
use tokio::sync::{Semaphore, watch};

use super::{
    BATCH_MAX, PartitionCursor, PartitionPage, StoreState, denials::Denials, hub::Hub,
    stand_in::StandIn,
};
use crate::{
    decision::{Call, Decision, Listing, Reply, State},
    error::Error,
    script,
    time::Clock,
};
use connection::Connector;
use evaluate::{Run, Scripts};
use exchange::{Answers, Sending};
use index::Index;
use monitor::Monitor;

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
    /// How many servers use this Redis: each has a share of what is granted while it
    /// cannot be asked. 1 to 1000.
    pub replicas: u32,
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
            replicas: 1,
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
    hub: Arc<Hub>,
    pub(super) denials: Box<Denials>,
    pub(super) stand_in: Box<StandIn>,
    key_prefix: String,
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
            hub: Hub::new(&options.key_prefix),
            denials: Box::new(Denials::new(Clock::system())),
            stand_in: Box::new(StandIn::new(options.replicas)),
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
        let epoch = self.monitor.epoch();
        let note = self
            .index
            .is_due(partition, listing, epoch)
            .then(|| [index::note(&self.key_prefix, D::State::CAPABILITY, partition, listing)]);
        let beside = note.as_ref().map(|call| (&script::NOTE_PARTITION, &call[..]));
        let runs: Vec<Run> = std::iter::once((D::SCRIPT, &call[..])).chain(beside).collect();
        let sending = Sending {
            repeatable: decision.is_repeatable(),
            replicas: decision.replicas(),
            is_upkeep: decision.is_upkeep(),
        };
        let Answers { answers, repeated } = self.evaluate(&runs, sending, deadline).await?;
        let mut answers = answers.into_iter();
        let outcome = only(answers.next());
        if answers.next().is_some_and(|noted| noted.is_ok()) {
            self.index.noted(partition, epoch);
        } else if repeated {
            self.note_again::<D>(&[(partition, listing)], deadline).await;
        }
        settled(decision, D::parse(&mut outcome?)?, repeated)
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
        let is_upkeep = decisions.iter().all(D::is_upkeep);
        let batch_max = if is_upkeep { 1 } else { BATCH_MAX };
        let epoch = self.monitor.epoch();
        let unnoted = self.unnoted(decisions, epoch);
        let note = |(partition, listing): &(&[u8], Listing)| {
            index::note(&self.key_prefix, D::State::CAPABILITY, partition, *listing)
        };
        let notes: Vec<Call> = unnoted.iter().map(note).collect();
        let batches = calls.chunks(batch_max).map(|batch| (D::SCRIPT, batch));
        let beside = notes.chunks(BATCH_MAX).map(|batch| (&script::NOTE_PARTITION, batch));
        let runs: Vec<Run> = batches.chain(beside).collect();
        let mut outcomes = Vec::with_capacity(decisions.len());
        let sending = Sending {
            repeatable: decisions.iter().all(D::is_repeatable),
            replicas: decisions.iter().map(D::replicas).max().unwrap_or(0),
            is_upkeep,
        };
        let Answers { mut answers, repeated } = self.evaluate(&runs, sending, deadline).await?;
        if answers.split_off(calls.len().div_ceil(batch_max)).iter().all(Result::is_ok) {
            unnoted.iter().for_each(|(partition, _)| self.index.noted(partition, epoch));
        }
        if repeated {
            self.note_again::<D>(&self.unnoted(decisions, self.monitor.epoch()), deadline).await;
        }
        for (answer, batch) in answers.into_iter().zip(decisions.chunks(batch_max)) {
            match answer {
                Ok(replies) => {
                    outcomes.extend(replies.into_iter().zip(batch).map(|(reply, decision)| {
                        settled(decision, D::parse(&mut reply?)?, repeated)
                    }))
                }
                Err(error) => outcomes.extend(batch.iter().map(|_| Err(error.clone()))),
            }
        }
        Ok(outcomes)
    }

    /// Notes partitions whose connection was lost on the way: the store behind the new one
    /// may never have heard of them. What goes wrong here is made good by a later call.
    async fn note_again<D: Decision>(&self, listed: &[(&[u8], Listing)], deadline: Instant) {
        let epoch = self.monitor.epoch();
        let due: Vec<_> = listed
            .iter()
            .filter(|(partition, listing)| self.index.is_due(partition, *listing, epoch))
            .collect();
        let note = |(partition, listing): &&(&[u8], Listing)| {
            index::note(&self.key_prefix, D::State::CAPABILITY, partition, *listing)
        };
        let notes: Vec<Call> = due.iter().map(note).collect();
        let runs: Vec<Run> =
            notes.chunks(BATCH_MAX).map(|batch| (&script::NOTE_PARTITION, batch)).collect();
        let sending = Sending { repeatable: true, replicas: 0, is_upkeep: true };
        if !runs.is_empty() && self.evaluate(&runs, sending, deadline).await.is_ok() {
            due.iter().for_each(|(partition, _)| self.index.noted(partition, epoch));
        }
    }

    /// The partitions that have to be noted beside these decisions, each once.
    fn unnoted<'a, D: Decision>(&self, decisions: &'a [D], epoch: u64) -> Vec<(&'a [u8], Listing)> {
        let listed = decisions.iter().map(|decision| (decision.partition(), decision.listing()));
        let mut due: Vec<_> = listed
            .filter(|(partition, listing)| self.index.is_due(partition, *listing, epoch))
            .collect();
        due.dedup_by_key(|(partition, _)| *partition);
        due
    }

    pub(super) async fn partitions(
        &self,
        capability: &'static str,
        limit: u32,
        after: Option<&PartitionCursor>,
        deadline: Instant,
    ) -> Result<PartitionPage, Error> {
        let after = after.map(|cursor| (cursor.noted, cursor.name.as_bytes()));
        let call = [index::list(&self.key_prefix, capability, limit, after)];
        let sending = Sending { repeatable: true, replicas: 0, is_upkeep: false };
        let runs = [(&script::LIST_PARTITIONS, &call[..])];
        let answers = self.evaluate(&runs, sending, deadline).await?.answers;
        index::parse_page(&mut only(answers.into_iter().next())?)
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        self.monitor.check()
    }

    pub(super) fn state(&self) -> watch::Receiver<StoreState> {
        self.monitor.state()
    }

    /// Grows when a connection is lost: the store may have lost something, too.
    pub(super) fn epoch(&self) -> u64 {
        self.monitor.epoch()
    }

    pub(super) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    pub(super) async fn maintain(&self) {
        tokio::join!(self.monitor.probe(), hints::listen(&self.monitor, &self.hub));
    }
}

/// An outcome, if it says what became of the call.
fn settled<D: Decision>(
    decision: &D,
    outcome: D::Outcome,
    repeated: bool,
) -> Result<D::Outcome, Error> {
    match repeated && !decision.settles(&outcome) {
        true => Err(Error::DeadlineExceeded),
        false => Ok(outcome),
    }
}

/// The reply of a batch of one.
fn only(answer: Option<Result<Replies, Error>>) -> Result<Reply, Error> {
    let none = || Err(Error::Corrupt("a batch without replies".to_owned()));
    answer.map_or_else(none, |replies| replies?.into_iter().next().unwrap_or_else(none))
}
