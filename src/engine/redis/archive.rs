//! Every key of this Redis, read and written for archives.
//!
//! All keys of a partition share a hash tag and are read in one MULTI: what is said of a
//! partition is of one instant. Keys are found by SCAN before that, so of what comes
//! meanwhile a lease is found all the same, by the list that it is on; a result or an answer
//! for repeats may not be.
//!
//! What is taken in is no one step. Until it is verified a marker stands, which keeps servers
//! from starting on half of it.

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
    super::archive::{Failure, Sink},
    options::RedisOptions,
};
use crate::{archive::Line, time::Clock};
use key::KeyBuilder;
use primaries::Primaries;

/// Partitions that are read at a time.
const READS: usize = 64;
/// Commands that are sent at a time.
const WRITES: usize = 500;
/// How long a server that starts waits for an answer about the marker.
const MARKER_TIMEOUT: Duration = Duration::from_secs(1);

/// The keys of a Redis.
pub struct Keyspace {
    primaries: Primaries,
    keys: KeyBuilder,
    /// Written with the next batch: key and command.
    unsent: Vec<(Vec<u8>, redis::Cmd)>,
    /// In place of its own, in tests.
    clock: Option<Clock>,
    /// The time on its clock when lines began to be taken in.
    now: u64,
    /// Of each pool that was taken in its last token, and when the last of it is forgotten.
    pools: HashMap<Vec<u8>, (u64, u64)>,
    /// Of each policy with bans when the last one ends.
    bans: HashMap<Vec<u8>, u64>,
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyspace").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// Why a server must not decide on what an import has left, and what to do about it; none
/// where there is nothing of the kind, or nobody answers.
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
        "`tollgate import` into it was not finished, so a part may be missing: run it again with \
         --replace"
            .to_owned(),
    )
}

impl Keyspace {
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

    pub(in super::super) fn set_clock(&mut self, clock: Clock) {
        self.clock = Some(clock);
    }

    pub(in super::super) async fn now(&mut self) -> Result<u64, Failure> {
        if let Some(clock) = &self.clock {
            return Ok(clock.now().0);
        }
        self.primaries.time().await.map_err(Failure::Redis)
    }

    pub(in super::super) async fn is_empty(&mut self) -> Result<bool, Failure> {
        let marker = self.keys.marker();
        let mut exists = redis::cmd("EXISTS");
        exists.arg(&marker);
        if self.primaries.ask::<u64>(&marker, &exists).await.map_err(Failure::Redis)? > 0 {
            return Err(Failure::Occupied(
                "an import into it was not finished, so a part may be missing: --replace begins \
                 it anew"
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

    /// Hands over what every partition holds.
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

    pub(in super::super) async fn begin(&mut self) -> Result<(), Failure> {
        // Keys go by Redis's own clock.
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
            let mut unlink = redis::cmd("UNLINK");
            unlink.arg(&key);
            self.send((key, unlink)).await?;
        }
        self.send_all().await
    }

    pub(in super::super) async fn write(&mut self, line: &Line) -> Result<(), Failure> {
        for command in self.commands(line) {
            self.send(command).await?;
        }
        Ok(())
    }

    pub(in super::super) async fn flush(&mut self) -> Result<(), Failure> {
        for command in self.last_commands() {
            self.send(command).await?;
        }
        self.send_all().await
    }

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
