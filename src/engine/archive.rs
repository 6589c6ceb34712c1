//! What an engine keeps, read and written while no engine runs on it: for archives.

use std::{fmt, io, path::Path};

use super::{
    embedded::{Directory, OpenError},
    redis::{Keyspace, RedisOptions},
};
use crate::{
    archive::{Line, Unfit},
    time::Clock,
};

/// Takes lines one by one.
pub(crate) type Sink<'a> = dyn FnMut(Line) -> Result<(), Failure> + Send + 'a;

/// What is exported, or imported into.
#[derive(Debug)]
pub enum Store {
    /// The data directory of an embedded engine.
    Directory(Box<Directory>),
    /// A Redis.
    Redis(Keyspace),
}

/// Why an export or an import has failed.
#[derive(Debug)]
pub enum Failure {
    /// The data directory cannot be used.
    Directory(OpenError),
    /// The Redis cannot be used; says what to do.
    Redis(String),
    /// What is stored is not as it should be; says what to do.
    Damaged(String),
    /// The archive's file cannot be written.
    File(io::Error),
    /// The archive is none that can be taken in.
    Unfit(Unfit),
    /// The target holds something already.
    Occupied(String),
    /// What was written is not all there.
    Unverified(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Directory(error) => error.fmt(f),
            Failure::File(error) => error.fmt(f),
            Failure::Unfit(unfit) => unfit.fmt(f),
            Failure::Redis(why)
            | Failure::Damaged(why)
            | Failure::Occupied(why)
            | Failure::Unverified(why) => f.write_str(why),
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Failure {
        Failure::Directory(error)
    }
}

impl Store {
    /// A data directory to export, which is there.
    pub fn existing(path: &Path) -> Result<Store, Failure> {
        Ok(Store::Directory(Box::new(Directory::open(path, true)?)))
    }

    /// A data directory to import into, made if it is not there.
    pub fn directory(path: &Path) -> Result<Store, Failure> {
        Ok(Store::Directory(Box::new(Directory::open(path, false)?)))
    }

    /// A Redis, which has to answer.
    pub async fn redis(options: &RedisOptions) -> Result<Store, Failure> {
        Keyspace::open(options).await.map(Store::Redis).map_err(Failure::Redis)
    }

    /// The same on another clock than its own, for tests that step the time.
    #[must_use]
    pub fn on_clock(mut self, clock: Clock) -> Store {
        match &mut self {
            Store::Directory(directory) => directory.set_clock(clock),
            Store::Redis(keyspace) => keyspace.set_clock(clock),
        }
        self
    }

    /// What the first line of its archive calls it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Store::Directory(_) => "embedded",
            Store::Redis(_) => "redis",
        }
    }

    /// The time on its clock, µs.
    pub(crate) async fn now(&mut self) -> Result<u64, Failure> {
        match self {
            Store::Directory(directory) => Ok(directory.now()),
            Store::Redis(keyspace) => keyspace.now().await,
        }
    }

    /// Hands over all that has not lapsed.
    pub(crate) async fn read(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        let now = self.now().await?;
        let mut unlapsed = |line: Line| if line.has_lapsed(now) { Ok(()) } else { sink(line) };
        match self {
            Store::Directory(directory) => directory.read(&mut unlapsed),
            Store::Redis(keyspace) => keyspace.read(now, &mut unlapsed).await,
        }
    }

    /// Whether it holds anything.
    pub(crate) async fn is_empty(&mut self) -> Result<bool, Failure> {
        match self {
            Store::Directory(directory) => directory.is_empty(),
            Store::Redis(keyspace) => keyspace.is_empty().await,
        }
    }

    /// Begins to take lines in, in place of all that it holds, by what the clock was that they
    /// are from. Until `finish` they are none that an engine decides on.
    pub(crate) async fn begin(&mut self, time: u64) -> Result<(), Failure> {
        match self {
            Store::Directory(directory) => {
                directory.begin(time);
                Ok(())
            }
            Store::Redis(keyspace) => keyspace.begin().await,
        }
    }

    /// Takes a line in.
    pub(crate) async fn write(&mut self, line: &Line) -> Result<(), Failure> {
        match self {
            Store::Directory(directory) => directory.write(line),
            Store::Redis(keyspace) => keyspace.write(line).await,
        }
    }

    /// Writes what is not yet.
    pub(crate) async fn flush(&mut self) -> Result<(), Failure> {
        match self {
            Store::Directory(directory) => directory.flush(),
            Store::Redis(keyspace) => keyspace.flush().await,
        }
    }

    /// Lets engines decide on what was taken in, which is verified.
    pub(crate) async fn finish(&mut self) -> Result<(), Failure> {
        match self {
            Store::Directory(_) => Ok(()),
            Store::Redis(keyspace) => keyspace.finish().await,
        }
    }
}
