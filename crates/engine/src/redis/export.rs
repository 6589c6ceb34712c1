//! Every key of a Redis as export lines, for `engine::export`.
//!
//! The keys are found by SCAN. Scripts other than those of the verbs read and write the values
//! ([`Export`], [`Import`]); only they know the formats.
//!
//! # Consistency of an export
//! A script call reads one key, or a page of a collection, at one instant. If servers use Redis
//! during the export, two entries of a partition can be from different instants.
//! [`Exported::reconcile`] makes them agree, so that the export can be imported. A lease that
//! starts after the SCAN is found through the pool's list of leases. A result or an answer for
//! repeats may be missed.
//!
//! # Atomicity of an import
//! An import takes many script calls. A marker key exists until the lines are verified. Servers
//! refuse to start while it exists.

mod key;
mod primaries;
mod sources;
mod unsent;

use std::{
    collections::HashSet,
    fmt,
    marker::PhantomData,
    slice,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{task::JoinHandle, time::timeout};

use super::{
    super::{
        StoreState,
        export::{Failure, Line, Sink},
    },
    Redis,
    options::RedisOptions,
};
pub(super) use key::KeyBuilder;
pub(super) use primaries::Primaries;
use sources::Sources;
use tollgate_core::{
    Decision,
    error::Error,
    record::{Entry, Export, Exported, Page, Source},
    time::{Clock, monotonic},
};
use unsent::Unsent;

/// Number of decisions that are sent together.
const BATCH: usize = 500;
/// Time limit for a batch.
const BATCH_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for the first answer of all nodes.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for reading the marker when a server starts.
const MARKER_TIMEOUT: Duration = Duration::from_secs(1);

/// The keys of a Redis under one prefix.
pub struct Keyspace {
    primaries: Primaries,
    keys: KeyBuilder,
    /// Runs the scripts.
    redis: Arc<Redis>,
    maintain: JoinHandle<()>,
    /// The buffered entries of an import.
    unsent: Unsent,
    /// A replacement for the clock of Redis, in tests.
    clock: Option<Clock>,
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyspace").field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl Drop for Keyspace {
    fn drop(&mut self) {
        self.maintain.abort();
    }
}

/// Returns the reason why a server must not start on this Redis: an unfinished import. `None` if
/// there is none, or if Redis does not answer within a second.
pub async fn unfinished_import(options: &RedisOptions) -> Option<String> {
    let asked = async {
        let mut primaries = Primaries::connect(options).await.ok()?;
        let marker = KeyBuilder::new(&options.key_prefix).marker();
        let mut get = redis::cmd("EXISTS");
        get.arg(&marker);
        primaries.ask::<u64>(&marker, &get).await.ok().filter(|there| *there > 0)
    };
    timeout(MARKER_TIMEOUT, asked).await.ok()??;
    Some(
        "an import into this Redis was not finished, so state may be missing: run `tollgate \
         import --replace` again"
            .to_owned(),
    )
}

impl Keyspace {
    /// Connects and runs the preflight. The error says what to do.
    pub(in super::super) async fn open(options: &RedisOptions) -> Result<Keyspace, String> {
        let mut primaries = Primaries::connect(options).await?;
        primaries.check(options.eviction).await?;
        let redis = Arc::new(Redis::new(options)?);
        let run = redis.clone();
        let maintain = tokio::spawn(async move { run.maintain().await });
        let mut state = redis.state();
        let answers = state.wait_for(|state| *state != StoreState::Down);
        let answered = timeout(START_TIMEOUT, answers).await.is_ok_and(|state| state.is_ok());
        let keys = KeyBuilder::new(&options.key_prefix);
        let unsent = Unsent::default();
        let keyspace = Keyspace { primaries, keys, redis, maintain, unsent, clock: None };
        match keyspace.redis.check() {
            Err(error) if !answered => Err(format!("cannot use this Redis: {error}")),
            _ => Ok(keyspace),
        }
    }

    /// Replaces the clock, for tests.
    pub(in super::super) fn set_clock(&mut self, clock: Clock) {
        self.clock = Some(clock);
    }

    /// Returns the time of Redis' clock, in µs.
    pub(in super::super) async fn now(&mut self) -> Result<u64, Failure> {
        if let Some(clock) = &self.clock {
            return Ok(clock.now().0);
        }
        self.primaries.time().await.map_err(Failure::Redis)
    }

    /// Whether there is no key under the prefix. Fails if an earlier import was not finished.
    pub(in super::super) async fn is_empty(&mut self) -> Result<bool, Failure> {
        let marker = self.keys.marker();
        let mut exists = redis::cmd("EXISTS");
        exists.arg(&marker);
        if self.primaries.ask::<u64>(&marker, &exists).await.map_err(Failure::Redis)? > 0 {
            return Err(Failure::Occupied(
                "an import into this Redis was not finished, so state may be missing: repeat it \
                 with --replace"
                    .to_owned(),
            ));
        }
        let mut is_empty = true;
        let pattern = self.keys.pattern();
        let seen = |_: Vec<Vec<u8>>| {
            is_empty = false;
            false
        };
        self.primaries.scan(&pattern, seen).await.map_err(Failure::Redis)?;
        Ok(is_empty)
    }

    /// Passes the lines of every partition to `sink`.
    pub(in super::super) async fn read(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        let (mut sources, mut unknown) = (Sources::default(), None);
        let (pattern, keys) = (self.keys.pattern(), self.keys.clone());
        let found = |found: Vec<Vec<u8>>| {
            unknown = found.into_iter().find(|key| !sources.add(&keys, key));
            unknown.is_none()
        };
        self.primaries.scan(&pattern, found).await.map_err(Failure::Redis)?;
        if let Some(key) = unknown {
            let key = key.escape_ascii();
            return Err(damaged(&key, &"it is not a key of tollgate"));
        }
        sources.read(self, sink).await
    }

    /// Passes the lines of the states of one kind to `sink`.
    async fn read_all<S: Exported>(
        &self,
        sources: impl IntoIterator<Item = (Vec<u8>, Source)> + Send,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        let mut sources = sources.into_iter();
        let mut open = OpenPartition::<S>::default();
        loop {
            let batch = sources.by_ref().take(BATCH);
            let batch = batch.map(|(partition, source)| Export::<S>::new(partition, source));
            let batch: Vec<Export<S>> = batch.collect();
            if batch.is_empty() {
                return open.pass(sink);
            }
            let pages =
                self.redis.run_all(&batch, deadline()).await.map_err(|error| redis(&error))?;
            for (mut export, page) in batch.into_iter().zip(pages) {
                if export.partition != open.partition {
                    open.pass(sink)?;
                    open.partition.clone_from(&export.partition);
                }
                let mut page = page.map_err(|error| failure::<S>(&export.partition, &error))?;
                while let Some(next) = export.behind(&page) {
                    open.add(export.named(page));
                    (page, export) = (self.page(&next).await?, next);
                }
                open.add(export.named(page));
            }
        }
    }

    /// Reads one page.
    async fn page<S: Exported>(&self, export: &Export<S>) -> Result<Page, Failure> {
        let pages = self.redis.run_all(slice::from_ref(export), deadline()).await;
        let page = pages.map_err(|error| redis(&error))?.pop();
        page.unwrap_or(Err(Error::DeadlineExceeded))
            .map_err(|error| failure::<S>(&export.partition, &error))
    }

    /// Starts an import: sets the marker and removes all keys under the prefix.
    pub(in super::super) async fn begin(&mut self) -> Result<(), Failure> {
        let now = self.primaries.time().await.map_err(Failure::Redis)?;
        let marker = self.keys.marker();
        let mut set = redis::cmd("SET");
        set.arg(&marker).arg(now);
        self.primaries.ask::<()>(&marker, &set).await.map_err(Failure::Redis)?;
        let pattern = self.keys.pattern();
        for node in 0..self.primaries.count() {
            let mut cursor = 0;
            loop {
                // SCAN visits the keys that remain, even if others are removed meanwhile.
                let (next, keys) =
                    self.primaries.page(node, cursor, &pattern).await.map_err(Failure::Redis)?;
                self.primaries.unlink(&keys).await.map_err(Failure::Redis)?;
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Adds a line; sends its entries when enough are buffered.
    pub(in super::super) async fn write(&mut self, line: &Line) -> Result<(), Failure> {
        self.unsent.add(line).map_err(Failure::Damaged)?;
        if self.unsent.len() < BATCH { Ok(()) } else { self.flush().await }
    }

    /// Sends all buffered entries.
    pub(in super::super) async fn flush(&mut self) -> Result<(), Failure> {
        let unsent = std::mem::take(&mut self.unsent);
        unsent.send(self).await
    }

    /// Runs decisions that write. All must succeed.
    async fn write_all<D: Decision<Outcome = ()>>(&self, decisions: &[D]) -> Result<(), Failure> {
        if decisions.is_empty() {
            return Ok(());
        }
        let written = self.redis.run_all(decisions, deadline()).await;
        let written = written.and_then(|written| written.into_iter().collect::<Result<(), _>>());
        written.map_err(|error| redis(&error))
    }

    /// Returns the id of the store.
    pub(in super::super) async fn store_id(&self) -> Option<String> {
        self.redis.read_store_id().await
    }

    /// Removes the marker of the import, so that servers may start. The store then counts as having
    /// lost nothing, and has the id of the export.
    pub(in super::super) async fn finish(&mut self, id: Option<&str>) -> Result<(), Failure> {
        self.redis.restore_marker(id).await.map_err(|error| redis(&error))?;
        let marker = self.keys.marker();
        let mut delete = redis::cmd("DEL");
        delete.arg(&marker);
        self.primaries.ask::<()>(&marker, &delete).await.map_err(Failure::Redis)
    }
}

/// The entries of the partition that is being read.
struct OpenPartition<S> {
    partition: Vec<u8>,
    entries: Vec<Entry>,
    parts: HashSet<Vec<u8>>,
    state: PhantomData<fn() -> S>,
}

impl<S> Default for OpenPartition<S> {
    fn default() -> OpenPartition<S> {
        let (partition, entries, parts) = Default::default();
        OpenPartition { partition, entries, parts, state: PhantomData }
    }
}

impl<S: Exported> OpenPartition<S> {
    /// Adds entries. The first entry of a part counts.
    fn add(&mut self, mut entries: Vec<Entry>) {
        entries.retain(|entry| self.parts.insert(entry.part.clone()));
        self.entries.extend(entries);
    }

    /// Passes the lines of the partition to `sink`.
    fn pass(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        S::reconcile(&mut self.entries);
        for Entry { part, value } in self.entries.drain(..) {
            let line = Line::from_entry(S::KIND, &self.partition, &part, &value);
            let line = line.map_err(|why| failure::<S>(&self.partition, &Error::Corrupt(why.0)))?;
            line.into_iter().try_for_each(&mut *sink)?;
        }
        self.parts.clear();
        Ok(())
    }
}

fn deadline() -> Instant {
    monotonic() + BATCH_TIMEOUT
}

/// Returns the failure for a call that failed for a reason other than an entry.
fn redis(error: &Error) -> Failure {
    Failure::Redis(format!("Redis command failed: {error}"))
}

/// Returns the failure for an export.
fn failure<S: Exported>(partition: &[u8], error: &Error) -> Failure {
    let tag = format!("{{{}:{}}}", S::CAPABILITY, partition.escape_ascii());
    match error {
        Error::Corrupt(why) | Error::Refused(why) => damaged(&tag, why),
        error => redis(error),
    }
}

/// Returns the failure for an unreadable key or partition.
fn damaged(of: &dyn fmt::Display, why: &dyn fmt::Display) -> Failure {
    Failure::Damaged(format!(
        "a key of this Redis cannot be exported: {of}: {why}; lua/README.md describes the repair"
    ))
}
