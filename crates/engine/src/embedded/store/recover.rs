//! Recovery of a data directory at start: redb receives the changes of the log.
//!
//! After a power loss, or under `none`, the last changes may be lost. Sequences then continue above
//! the values that they had reserved.

use std::io::ErrorKind;

use redb::{ReadableDatabase, TableError};
use serde::{Deserialize, Serialize};

use super::{CLOCK, ENTRIES, FileStore, LOG, OpenError, WriteBatch};
use tollgate_core::{
    record::{Change, Recorded, Unreadable, decode, split_key},
    sequence::{Counter, RESERVED, above_reserved},
    time::Mark,
};

/// The progress of redb, stored with each write.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct StoreProgress {
    /// The number of the last change that redb has.
    pub(super) last: u64,
    /// The identity of the machine's boot; `None` if it is unknown, or if the process does not log
    /// its changes.
    pub(super) boot: Option<String>,
}

/// Returns the identity of the current boot, which changes after a power loss. `None` if the system
/// has none.
pub(super) fn current_boot() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(boot.trim().to_owned()).filter(|boot| !boot.is_empty())
}

impl FileStore {
    /// Applies the log to redb, and empties the log.
    pub(in super::super) fn recover(&mut self) -> Result<(), OpenError> {
        let (mark, progress) = self.stored()?;
        let is_same_boot = progress.boot.is_some() && progress.boot == self.boot;
        let replay = self.log.replay(progress.last, is_same_boot);
        let replay = replay.map_err(|error| match error.kind() {
            ErrorKind::InvalidData => {
                let path = self.disk.path.display();
                OpenError::Damaged(format!("the log beside {path} is damaged: {error}"))
            }
            _ => self.disk.io_error(&error),
        })?;
        let is_killed = mark.is_some_and(|mark| !mark.is_last);
        self.last = replay.last;
        if let Some(mark) = mark.filter(|_| !replay.batch.is_empty()) {
            // The clock must not be behind the last record.
            let (reached, limit) = (mark.reached.max(replay.time), mark.limit.max(replay.time));
            let mark = Mark { reached, limit, ..mark };
            self.commit(&replay.batch, mark, &StoreProgress { last: replay.last, ..progress })?;
        }
        // Done before redb stores the new boot: with the new boot, the log would count as damaged
        // if this start is also killed.
        self.log.clear().map_err(|error| self.disk.io_error(&error))?;
        if let Some(mark) = self.stored()?.0.filter(|_| is_killed && !is_same_boot) {
            let batch = self.above_lost()?;
            let progress = StoreProgress { last: self.last, boot: self.boot.clone() };
            self.commit(&batch, mark, &progress)?;
            tracing::warn!(
                path = %self.disk.path.display(),
                sequences = batch.len(),
                is_cut = replay.is_cut,
                "the last server was killed with durability none, or its machine has restarted: \
                 unless its durability was always, its last second may be lost; sequences continue \
                 above the values that it had reserved"
            );
        }
        Ok(())
    }

    /// Returns the changes that move each sequence above the values that it had reserved.
    fn above_lost(&self) -> Result<WriteBatch, OpenError> {
        let (mut batch, mut head) = (WriteBatch::default(), [Vec::new(), Vec::new()]);
        self.scan(|key, value| {
            let Some((Counter::KIND, _, part)) = split_key(key) else { return Ok(()) };
            match part {
                [] => {
                    key.clone_into(&mut head[0]);
                    value.clone_into(&mut head[1]);
                }
                // A head precedes its parts, and is written with its first reservation.
                [RESERVED] if key.strip_suffix(part) == Some(&head[0][..]) => {
                    let [key, head] = &head;
                    if let Some(head) = above_reserved(head, value)? {
                        batch.add(Change::Put(key, &head));
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(batch)
    }

    /// Returns the clock's mark and the progress.
    fn stored(&self) -> Result<(Option<Mark>, StoreProgress), OpenError> {
        let nothing = || Ok((None, StoreProgress::default()));
        let Some(database) = &self.database else { return nothing() };
        let failed = |error: redb::Error| self.disk.error(&error);
        let read = database.begin_read().map_err(|error| failed(error.into()))?;
        let table = match read.open_table(ENTRIES) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => return nothing(),
            Err(error) => return Err(failed(error.into())),
        };
        let get = |key: &[u8]| {
            let found = table.get(key).map_err(|error| failed(error.into()))?;
            Ok(found.map(|value| value.value().to_vec()))
        };
        let unreadable = |key: &[u8], why: Unreadable| self.unreadable(key, &why);
        let mark = get(CLOCK)?.map(|value| decode(&value).map_err(|why| unreadable(CLOCK, why)));
        let progress = get(LOG)?.map(|value| decode(&value).map_err(|why| unreadable(LOG, why)));
        Ok((mark.transpose()?, progress.transpose()?.unwrap_or_default()))
    }

    fn commit(
        &mut self,
        batch: &WriteBatch,
        mark: Mark,
        progress: &StoreProgress,
    ) -> Result<(), OpenError> {
        let written = self.try_write(batch, mark, progress);
        written.map_err(|error| self.disk.error(&error))
    }
}
