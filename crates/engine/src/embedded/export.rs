//! A data directory as export lines, for `engine::export`, while no server runs on it.
//!
//! An import is written in one transaction: the directory then contains all of it, or is unchanged.

use std::{mem, path::Path};

use super::{
    super::export::{Failure, Line, Sink},
    store::{Disk, FILE, FileStore, OpenError, WriteBatch},
};
use tollgate_core::{
    record::{Change, Changes, Unreadable, split_key},
    time::{Clock, Mark, Timestamp},
};

/// A data directory, locked against servers.
#[derive(Debug)]
pub struct Directory {
    store: FileStore,
    clock: Clock,
    /// The latest time reached by the directory's clock or by an imported line.
    reached: Timestamp,
    /// Fencing tokens up to this time may have been handed out.
    reserved: Timestamp,
    /// The entries of an import, written by `flush`.
    batch: WriteBatch,
}

impl Directory {
    /// Opens a directory. With `is_there` it must exist; otherwise it is created if needed.
    pub(crate) fn open(path: &Path, is_there: bool) -> Result<Directory, OpenError> {
        if is_there && !path.join(FILE).exists() {
            return Err(OpenError::Missing(path.display().to_string()));
        }
        let disk = Disk::directory(path).map_err(|error| match error {
            OpenError::Taken(_) => OpenError::Taken(format!(
                "{} is locked by the server that uses it: stop that first",
                path.display()
            )),
            error => error,
        })?;
        let mut store = FileStore::open(disk)?;
        store.recover()?;
        let mark = store.scan(|_, _| Ok(()))?;
        let [reached, reserved] = mark.map_or([Timestamp(0); 2], |mark| [mark.reached, mark.limit]);
        Ok(Directory {
            store,
            clock: Clock::system(),
            reached,
            reserved,
            batch: WriteBatch::default(),
        })
    }

    /// Replaces the clock, for tests.
    pub(crate) fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// Returns the time in µs: that of the clock, or that of the directory if it is later.
    pub(crate) fn now(&self) -> u64 {
        self.clock.now().max(self.reached).0
    }

    /// Passes all entries as lines to `sink`. Stops at the first error.
    pub(crate) fn read(&self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        let mut failure = None;
        let scanned = self.store.scan(|key, value| {
            let parts =
                split_key(key).ok_or_else(|| Unreadable("its key is truncated".to_owned()))?;
            let (kind, partition, part) = parts;
            let Some(line) = Line::from_entry(kind, partition, part, value)? else { return Ok(()) };
            sink(line).map_err(|error| {
                failure = Some(error);
                Unreadable(String::new())
            })
        });
        match failure {
            Some(failure) => Err(failure),
            None => scanned.map(drop).map_err(Failure::from),
        }
    }

    /// Whether there are no entries; the clock's mark does not count.
    pub(crate) fn is_empty(&self) -> Result<bool, Failure> {
        let mut is_empty = true;
        self.store.scan(|_, _| {
            is_empty = false;
            Ok(())
        })?;
        Ok(is_empty)
    }

    /// Starts the batch of an import, which replaces all entries.
    pub(crate) fn begin(&mut self, time: u64) {
        self.reached = self.reached.max(Timestamp(time));
        self.batch.add(Change::Clear(&[]));
    }

    /// Adds a line to the batch.
    pub(crate) fn write(&mut self, line: &Line) -> Result<(), Failure> {
        let mut changes = Changes::default();
        line.record(&mut changes).map_err(|why| Failure::Damaged(why.to_owned()))?;
        changes.row().iter().for_each(|change| self.batch.add(change));
        Ok(())
    }

    /// Writes the batch in one transaction.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        let reached = Timestamp(self.now());
        // The next server's clock continues from here, so that no time of an imported line occurs
        // again.
        let mark = Mark { reached, limit: reached.max(self.reserved), is_last: true };
        let last = self.store.last();
        let written = self.store.write(&mem::take(&mut self.batch), mark, last);
        written.map_err(|why| Failure::Directory(OpenError::Unusable(why)))
    }
}
