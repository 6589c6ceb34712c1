//! Opens an engine on a data directory.

use std::{
    hash::{BuildHasher, RandomState},
    path::Path,
    sync::Arc,
};

use super::{
    Embedded,
    journal::{Durability, Journal, JournalWriter},
    load,
    store::{Disk, FileStore, OpenError, WriteBatch},
};
use tollgate_core::time::{Clock, KeptClock, Millis};

/// A larger lead over the system clock is logged, because it means that the system clock was set
/// back.
const AHEAD_MAX: Millis = Millis::from_secs(10);

impl Embedded {
    /// Opens an engine with the state of a disk, and starts its journal thread.
    pub fn open(source: Clock, disk: Disk, durability: Durability) -> Result<Embedded, OpenError> {
        let salt = RandomState::new().hash_one(durability);
        let (engine, writer) = Embedded::open_unwritten(source, disk, durability, salt)?;
        if let Some(Err(error)) = engine.journal().map(|journal| journal.spawn(writer)) {
            return Err(OpenError::Unusable(format!("cannot start a thread: {error}")));
        }
        Ok(engine)
    }

    /// Opens an engine without a journal thread: the caller runs the returned writer. For the
    /// simulation, which needs a reproducible engine. `salt` selects which partitions share a
    /// shard.
    pub fn open_unwritten(
        source: Clock,
        disk: Disk,
        durability: Durability,
        salt: u64,
    ) -> Result<(Embedded, JournalWriter), OpenError> {
        let mut engine = Embedded::salted(Clock::system(), salt);
        let path = disk.path().to_owned();
        let mut store = FileStore::open(disk)?;
        store.recover()?;
        if durability == Durability::None {
            store.forget_boot();
        }
        let (mark, count) = load::load(&mut engine, &store)?;
        let was_closed = mark.is_none_or(|mark| mark.is_last);
        let clock = Arc::new(KeptClock::resume(source, mark, durability.keeps()));
        log_loaded(&path, count, was_closed, &clock);
        // The reservation of tokens must be on disk before the first call is answered.
        let first = clock.mark();
        let last = store.last();
        store.write(&WriteBatch::default(), first, last).map_err(OpenError::Unusable)?;
        clock.record_synced(first);
        let (journal, writer) = Journal::new(store, clock.clone(), durability);
        engine.journal = Some(journal);
        engine.token_floor = clock.token_floor();
        engine.clock = Clock::Kept(clock);
        Ok((engine, writer))
    }
}

/// Logs the result of loading.
fn log_loaded(path: &Path, count: usize, was_closed: bool, clock: &KeptClock) {
    let path = path.display();
    if !was_closed {
        tracing::warn!(
            %path,
            "the last server of this data directory was killed: an unfinished write was cut off, \
             finished writes are complete"
        );
    }
    if clock.ahead() > AHEAD_MAX {
        let ahead = humantime::format_duration(clock.ahead().duration());
        tracing::warn!(
            %path,
            %ahead,
            "the system clock was set back: it is behind the last decision in the data \
             directory; time continues from that decision"
        );
    }
    tracing::info!(%path, entries = count, "loaded the data directory");
}
