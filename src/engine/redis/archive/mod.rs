//! Every key of a Redis as export lines, for `engine::export`.
//!
//! # Consistency of an export
//! All keys of a partition share a hash tag and are read in one MULTI, so the lines of a partition
//! are of one instant. The keys are found by SCAN before that. A lease that begins after the SCAN
//! is found through the pool's list of leases. A result or an answer for repeats may be missed.
//!
//! # Atomicity of an import
//! An import takes many commands. A marker key exists until the lines are verified. Servers refuse
//! to start while it exists.
//!
//! The modules parse and build the same bytes as the scripts (`lua/README.md`). A change of a
//! format must be made in both.

mod counters;
mod key;
mod pool;
mod primaries;
mod read;
mod values;
mod write;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    time::Duration,
};

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::timeout;

use super::{
    super::export::{Failure, Sink},
    options::RedisOptions,
};
use crate::decision::{export::Line, time::Clock};
use key::KeyBuilder;
use primaries::Primaries;

/// The number of partitions that are read concurrently.
const READS: usize = 64;
/// The number of commands in one pipeline.
const WRITES: usize = 500;
/// The time limit for reading the marker when a server starts.
const MARKER_TIMEOUT: Duration = Duration::from_secs(1);

/// The keys of a Redis under one prefix.
pub struct Keyspace {
    primaries: Primaries,
    keys: KeyBuilder,
    /// The buffered commands, each with its key.
    unsent: Vec<(Vec<u8>, redis::Cmd)>,
    /// A replacement for the clock of Redis, in tests.
    clock: Option<Clock>,
    /// The clock of Redis when the import began, in µs.
    now: u64,
    /// Of each imported pool: its last token, and the time at which the last of its records is
    /// forgotten.
    pools: HashMap<Vec<u8>, (u64, u64)>,
    /// Of each policy with bans: the end of the last ban.
    bans: HashMap<Vec<u8>, u64>,
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyspace").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// The reason why a server must not start on this Redis: an unfinished import. `None` if there is
/// none, or Redis does not answer within a second.
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
        Ok(Keyspace {
            primaries,
            keys: KeyBuilder::new(&options.key_prefix),
            unsent: Vec::new(),
            clock: None,
            now: 0,
            pools: HashMap::new(),
            bans: HashMap::new(),
        })
    }

    /// Replaces the clock, for tests.
    pub(in super::super) fn set_clock(&mut self, clock: Clock) {
        self.clock = Some(clock);
    }

    /// The clock of Redis, in µs.
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
    pub(in super::super) async fn read(
        &mut self,
        now: u64,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        let mut partitions: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>> = BTreeMap::new();
        let (pattern, keys) = (self.keys.pattern(), self.keys.clone());
        let found = |found: Vec<Vec<u8>>| {
            for key in found {
                if let Some(tag) = keys.tag(&key) {
                    partitions.entry(tag.to_vec()).or_default().insert(key);
                }
            }
            true
        };
        self.primaries.scan(&pattern, found).await.map_err(Failure::Redis)?;
        let primaries = &self.primaries;
        let read = partitions.into_iter().map(|(tag, found)| {
            let (primaries, keys) = (primaries.clone(), self.keys.clone());
            async move { read::partition(primaries, &keys, &tag, found, now).await }
        });
        let mut read = stream::iter(read).buffered(READS);
        while let Some(lines) = read.try_next().await? {
            lines.into_iter().try_for_each(&mut *sink)?;
        }
        Ok(())
    }

    /// Starts an import: sets the marker and removes all keys under the prefix.
    pub(in super::super) async fn begin(&mut self) -> Result<(), Failure> {
        // TTLs count on the clock of Redis, even in tests.
        self.now = self.primaries.time().await.map_err(Failure::Redis)?;
        let marker = self.keys.marker();
        let mut set = redis::cmd("SET");
        set.arg(&marker).arg(self.now);
        self.primaries.ask::<()>(&marker, &set).await.map_err(Failure::Redis)?;
        let mut found: Vec<Vec<u8>> = Vec::new();
        let all = |keys: Vec<Vec<u8>>| {
            found.extend(keys);
            true
        };
        let pattern = self.keys.pattern();
        self.primaries.scan(&pattern, all).await.map_err(Failure::Redis)?;
        for key in found {
            // UNLINK frees memory in the background, so Redis is not blocked.
            let mut unlink = redis::cmd("UNLINK");
            unlink.arg(&key);
            self.send((key, unlink)).await?;
        }
        self.send_all().await
    }

    /// Adds a line; sends commands when enough are buffered.
    pub(in super::super) async fn write(&mut self, line: &Line) -> Result<(), Failure> {
        for command in self.commands(line) {
            self.send(command).await?;
        }
        Ok(())
    }

    /// Sends all buffered commands, and those for whole pools and policies.
    pub(in super::super) async fn flush(&mut self) -> Result<(), Failure> {
        for command in self.last_commands() {
            self.send(command).await?;
        }
        self.send_all().await
    }

    /// Removes the marker: servers may start.
    pub(in super::super) async fn finish(&mut self) -> Result<(), Failure> {
        let marker = self.keys.marker();
        let mut delete = redis::cmd("DEL");
        delete.arg(&marker);
        self.primaries.ask::<()>(&marker, &delete).await.map_err(Failure::Redis)
    }

    async fn send(&mut self, command: (Vec<u8>, redis::Cmd)) -> Result<(), Failure> {
        self.unsent.push(command);
        if self.unsent.len() < WRITES {
            return Ok(());
        }
        self.send_all().await
    }

    async fn send_all(&mut self) -> Result<(), Failure> {
        let unsent = std::mem::take(&mut self.unsent);
        self.primaries.send(&unsent).await.map_err(Failure::Redis)
    }
}
