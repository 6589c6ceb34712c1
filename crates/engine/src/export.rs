//! The state of an engine as export lines: the common interface of both kinds of store.
//!
//! `tollgate export` and `tollgate import` (`src/cli/transfer.rs`) are the only callers. They run
//! without an engine. A data directory is locked meanwhile. On Redis, the operator stops the
//! servers first, and a marker key prevents servers from starting on an unfinished import.
//!
//! An import calls `begin`, `write` for each line, `flush`, `read` to verify, and `finish`, in this
//! order.

mod counts;
mod failure;
mod file;
mod line;

use std::path::Path;

pub use counts::Counts;
pub use failure::Failure;
pub(crate) use failure::Sink;
pub use file::Unfit;
pub use file::{Reader, Writer};
pub use line::Line;

use super::{
    embedded::Directory,
    redis::{Keyspace, RedisOptions},
};
use tollgate_core::time::Clock;

/// The source of an export or the target of an import.
#[derive(Debug)]
pub enum Store {
    /// The locked data directory of an embedded engine.
    Directory(Box<Directory>),
    /// A Redis, of any topology.
    Redis(Box<Keyspace>),
}

impl Store {
    /// Opens an existing data directory for an export. Fails if there is none.
    pub fn existing(path: &Path) -> Result<Store, Failure> {
        Ok(Store::Directory(Box::new(Directory::open(path, true)?)))
    }

    /// Opens a data directory for an import, and creates it if it does not exist.
    pub fn directory(path: &Path) -> Result<Store, Failure> {
        Ok(Store::Directory(Box::new(Directory::open(path, false)?)))
    }

    /// Connects to Redis. Fails if Redis does not answer, or fails the preflight.
    pub async fn redis(options: &RedisOptions) -> Result<Store, Failure> {
        Keyspace::open(options)
            .await
            .map(|keys| Store::Redis(Box::new(keys)))
            .map_err(Failure::Redis)
    }

    /// Replaces the clock, for tests that step time.
    #[must_use]
    pub fn on_clock(mut self, clock: Clock) -> Store {
        match &mut self {
            Store::Directory(directory) => directory.set_clock(clock),
            Store::Redis(keyspace) => keyspace.set_clock(clock),
        }
        self
    }

    /// Returns the name of the engine for the first line of an export.
    pub fn name(&self) -> &'static str {
        match self {
            Store::Directory(_) => "embedded",
            Store::Redis(_) => "redis",
        }
    }

    /// Returns the id by which servers recognise that a Redis has lost its data; `None` for a data
    /// directory.
    pub async fn id(&self) -> Option<String> {
        match self {
            Store::Directory(_) => None,
            Store::Redis(keyspace) => keyspace.store_id().await,
        }
    }

    /// Returns the time of the store's clock, in µs.
    pub async fn now(&mut self) -> Result<u64, Failure> {
        match self {
            Store::Directory(directory) => Ok(directory.now()),
            Store::Redis(keyspace) => keyspace.now().await,
        }
    }

    /// Passes every line that has not lapsed to `sink`.
    pub async fn read(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        let now = self.now().await?;
        let mut unlapsed = |line: Line| if line.has_lapsed(now) { Ok(()) } else { sink(line) };
        match self {
            Store::Directory(directory) => directory.read(&mut unlapsed),
            Store::Redis(keyspace) => keyspace.read(&mut unlapsed).await,
        }
    }

    /// Whether the store contains no state. Fails if an earlier import was not finished.
    pub async fn is_empty(&mut self) -> Result<bool, Failure> {
        match self {
            Store::Directory(directory) => directory.is_empty(),
            Store::Redis(keyspace) => keyspace.is_empty().await,
        }
    }

    /// Starts an import that replaces all state. `time` is the clock of the export's source, in µs;
    /// the target's clock must not start before it. No engine may use the state until `finish`.
    pub async fn begin(&mut self, time: u64) -> Result<(), Failure> {
        match self {
            Store::Directory(directory) => {
                directory.begin(time);
                Ok(())
            }
            Store::Redis(keyspace) => keyspace.begin().await,
        }
    }

    /// Adds a line. It is durable after `flush`.
    pub async fn write(&mut self, line: &Line) -> Result<(), Failure> {
        match self {
            Store::Directory(directory) => directory.write(line),
            Store::Redis(keyspace) => keyspace.write(line).await,
        }
    }

    /// Writes all lines that are still buffered.
    pub async fn flush(&mut self) -> Result<(), Failure> {
        match self {
            Store::Directory(directory) => directory.flush(),
            Store::Redis(keyspace) => keyspace.flush().await,
        }
    }

    /// Completes the import, so that engines may use the state. Called once the written lines are
    /// verified. `id` is the id of the exported store, if the export has one.
    pub async fn finish(&mut self, id: Option<&str>) -> Result<(), Failure> {
        match self {
            Store::Directory(_) => Ok(()),
            Store::Redis(keyspace) => keyspace.finish(id).await,
        }
    }
}
