//! The data directory: a redb file, the two files of the log, and a lock file that is locked while a
//! server uses the directory.
//!
//! The rest of the engine sees a sorted map from keys to values (`crates/core/src/record/` defines
//! both), and a write that is atomic and synced when it returns.
//!
//! # Two syncs for each write
//! A write syncs its pages first and then the file header that refers to them. redb could use a
//! single sync, but two are needed for two reasons:
//! - Startup must distinguish a torn last write from corruption. With one sync, both look alike,
//!   and acknowledged changes would be cut off silently.
//! - After a failed sync, readers can see pages that never reach the disk. With two syncs, no
//!   header refers to them, and the failed batch is written again in full.

mod batch;
mod lock;
mod log;
mod recover;
mod rights;

use std::{
    fmt,
    fs::{self, File, TryLockError},
    io, mem,
    path::{Path, PathBuf},
};

use redb::{
    Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError,
    TableDefinition, TableError,
};

pub(super) use batch::WriteBatch;
use lock::DirectoryLock;
pub(super) use log::ChangeLog;
pub use log::LogFile;
use recover::{StoreProgress, current_boot};

use tollgate_core::{
    record::{META, Unreadable, decode, encode},
    time::Mark,
};

/// The only table: keys and values of `crates/core/src/record.rs`.
const ENTRIES: TableDefinition<&[u8], &[u8]> = TableDefinition::new("entries");
/// The database file of a data directory.
pub(super) const FILE: &str = "tollgate.redb";
/// The name of a database file while it is created.
const UNFINISHED: &str = "tollgate.redb.unfinished";
/// The lock file of a data directory.
const LOCK: &str = "tollgate.lock";
/// The files of the log.
const LOGS: [&str; 2] = ["tollgate.log.0", "tollgate.log.1"];
/// The page cache of redb. It is small, since the engine keeps all state in memory.
const CACHE_BYTES: usize = 64 << 20;
/// The size above which a file is read by a second thread.
const LARGE: u64 = 8 << 20;
/// The key of the clock's mark.
const CLOCK: &[u8] = &[META, 0, 0, b'c'];
/// The key of the progress in the log.
const LOG: &[u8] = &[META, 0, 0, b'l'];

/// The reason why a data directory cannot be used. The text says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenError {
    /// The file is damaged.
    Damaged(String),
    /// The file cannot be read or written.
    Unusable(String),
    /// Another process uses the directory.
    Taken(String),
    /// The directory contains no state.
    Missing(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Damaged(why) => write!(
                f,
                "{why}. Restore the directory from a backup, or move it away to start without \
                 its state"
            ),
            OpenError::Unusable(why) => write!(
                f,
                "{why}. Check the disk for errors and free space, and the access rights; then \
                 start again"
            ),
            OpenError::Taken(why) => f.write_str(why),
            OpenError::Missing(path) => {
                write!(f, "{path} holds no state: name the server's --data-dir")
            }
        }
    }
}

impl std::error::Error for OpenError {}

/// Opens the database. Called again after a failed write.
type Opener = Box<dyn Fn(&mut Builder) -> Result<Database, DatabaseError> + Send + Sync>;

/// The place where entries are stored: a directory or a test backend.
pub struct Disk {
    /// The path that appears in errors.
    path: PathBuf,
    /// Opens the database, also after a failed write.
    open: Opener,
    /// The files of the log.
    logs: [Box<dyn LogFile>; 2],
    /// The identity of the machine's boot; `None` if it is unknown.
    boot: Option<String>,
    /// The lock file, which is locked as long as it is open.
    _lock: Option<DirectoryLock>,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Disk").field(&self.path).finish()
    }
}

impl Disk {
    /// Opens a directory, and creates it if it does not exist. Fails with [`OpenError::Taken`] if
    /// another server still uses it after [`lock::WAIT`].
    pub fn directory(directory: &Path) -> Result<Disk, OpenError> {
        let failed = |what: &str, error: &dyn fmt::Display| {
            OpenError::Unusable(format!("{what} {}: {error}", directory.display()))
        };
        rights::make_directory(directory).map_err(|error| failed("cannot create", &error))?;
        let lock = rights::open_file(&directory.join(LOCK));
        let lock = lock.map_err(|error| failed("cannot write to", &error))?;
        let lock = DirectoryLock::take(lock, lock::WAIT).map_err(|error| match error {
            TryLockError::WouldBlock => OpenError::Taken(format!(
                "another server uses {}: give each server its own data directory",
                directory.display()
            )),
            TryLockError::Error(error) => failed("cannot lock", &error),
        })?;
        let path = directory.join(FILE);
        if !path.exists() {
            begin(directory, &path).map_err(|error| failed("cannot create a file in", &error))?;
        }
        let [one, two] = LOGS.map(|name| directory.join(name));
        let open = |path: &Path| {
            let opened = rights::open_file(path);
            opened.map_err(|error| failed("cannot create a log file in", &error))
        };
        let logs: [Box<dyn LogFile>; 2] = [Box::new(open(&one)?), Box::new(open(&two)?)];
        for path in [directory, &path, &directory.join(LOCK), &one, &two] {
            rights::warn_if_wide(path);
        }
        // Syncs the directory and its parent, because the names must also survive a power loss.
        for folder in [directory, directory.parent().unwrap_or(directory)] {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            let synced = File::open(folder).and_then(|folder| folder.sync_all());
            synced.map_err(|error| failed("cannot sync", &error))?;
        }
        let file = path.clone();
        // Never creates the file, because a deleted one would silently be replaced by an empty one.
        let open = move |builder: &mut Builder| builder.open(&file);
        let boot = current_boot();
        Ok(Disk { path, open: Box::new(open), logs, boot, _lock: Some(lock) })
    }

    /// Returns the path that appears in errors.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a disk with another way to open the database, for tests. `path` appears in errors.
    pub fn custom(
        path: &Path,
        open: impl Fn(&mut Builder) -> Result<Database, DatabaseError> + Send + Sync + 'static,
    ) -> Disk {
        let logs = ChangeLog::in_memory();
        Disk { path: path.to_owned(), open: Box::new(open), logs, boot: None, _lock: None }
    }

    /// Replaces the files of the log and the identity of the boot, for tests.
    pub fn with_log(mut self, logs: [Box<dyn LogFile>; 2], boot: &str) -> Disk {
        (self.logs, self.boot) = (logs, Some(boot.to_owned()));
        self
    }
}

/// Creates an empty file under another name and renames it. A file that was cut off at creation
/// would count as damaged forever.
fn begin(directory: &Path, path: &Path) -> Result<(), redb::Error> {
    let unfinished = directory.join(UNFINISHED);
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    // Created here and not by redb, for its access rights.
    drop(rights::open_file(&unfinished)?);
    drop(builder().create(&unfinished)?);
    Ok(fs::rename(&unfinished, path)?)
}

/// The entries on disk. A failed write closes the database; the next write opens it again.
#[derive(Debug)]
pub(super) struct FileStore {
    // Declared before `disk`, so that the database is closed before the directory is unlocked.
    /// `None` after a failed write.
    database: Option<Database>,
    log: ChangeLog,
    /// The number of the last change that redb has.
    last: u64,
    /// The identity of the machine's boot; `None` if it is unknown, or if changes are not logged.
    boot: Option<String>,
    disk: Disk,
}

impl FileStore {
    /// Opens the database and checks every byte of it. Fails with [`OpenError::Damaged`] if a check
    /// fails.
    pub(super) fn open(mut disk: Disk) -> Result<FileStore, OpenError> {
        let mut builder = builder();
        builder.set_check_integrity_on_open(true);
        let is_taken = |error: &DatabaseError| matches!(error, DatabaseError::DatabaseAlreadyOpen);
        let database = lock::when_free(|| (disk.open)(&mut builder), is_taken, lock::WAIT);
        let database = database.map_err(|error| disk.open_error(&error))?;
        let logs = mem::replace(&mut disk.logs, ChangeLog::in_memory());
        let (log, boot) = (ChangeLog::new(logs), disk.boot.clone());
        Ok(FileStore { database: Some(database), log, last: 0, boot, disk })
    }

    /// Returns the number of the last change that redb has.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Removes and returns the log, to append to it on another thread.
    pub(super) fn take_log(&mut self) -> ChangeLog {
        mem::replace(&mut self.log, ChangeLog::new(ChangeLog::in_memory()))
    }

    /// Declares that calls are answered before their changes are written anywhere: unless the
    /// process shuts down properly, its last changes count as lost.
    pub(super) fn forget_boot(&mut self) {
        self.boot = None;
    }

    /// Passes every entry to `entry`, in the order of keys. Returns the clock's mark.
    pub(super) fn scan(
        &self,
        mut entry: impl FnMut(&[u8], &[u8]) -> Result<(), Unreadable>,
    ) -> Result<Option<Mark>, OpenError> {
        let Some(database) = &self.database else { return Ok(None) };
        let failed = |error: redb::Error| self.disk.error(&error);
        let read = database.begin_read().map_err(|error| failed(error.into()))?;
        let table = match read.open_table(ENTRIES) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => return Ok(None),
            Err(error) => return Err(failed(error.into())),
        };
        let mut mark = None;
        for stored in table.iter().map_err(|error| failed(error.into()))? {
            let (key, value) = stored.map_err(|error| failed(error.into()))?;
            let (key, value) = (key.value(), value.value());
            let restored = match key {
                CLOCK => decode(value).map(|read| mark = Some(read)),
                LOG => Ok(()),
                _ => entry(key, value),
            };
            restored.map_err(|why| self.unreadable(key, &why))?;
        }
        Ok(mark)
    }

    /// Returns the error for an unreadable entry.
    pub(super) fn unreadable(&self, key: &[u8], Unreadable(why): &Unreadable) -> OpenError {
        let (path, key) = (self.disk.path.display(), key.escape_ascii());
        OpenError::Damaged(format!("{path}: the entry {key} cannot be read: {why}"))
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> &Path {
        self.disk.path()
    }

    /// Whether a second thread is worth its cost.
    pub(super) fn is_large(&self) -> bool {
        fs::metadata(&self.disk.path).is_ok_and(|file| file.len() > LARGE)
    }

    /// Writes a batch and a mark in one transaction, synced on return. `last` is the number of the
    /// batch's last change. After an error, the batch may or may not be on disk, so it must be
    /// written again.
    pub(super) fn write(
        &mut self,
        batch: &WriteBatch,
        mark: Mark,
        last: u64,
    ) -> Result<(), String> {
        let progress = StoreProgress { last, boot: self.boot.clone() };
        let written = self.try_write(batch, mark, &progress);
        if written.is_ok() {
            self.last = last
        } else {
            // After an error, redb accepts no further writes.
            self.database = None
        }
        written.map_err(|error| format!("{}: {error}", self.disk.path.display()))
    }

    /// Writes a batch; the errors have redb's type. Opens the database again if the last write
    /// failed.
    fn try_write(
        &mut self,
        batch: &WriteBatch,
        mark: Mark,
        progress: &StoreProgress,
    ) -> Result<(), redb::Error> {
        if self.database.is_none() {
            self.database = Some((self.disk.open)(&mut builder())?);
        }
        let Some(database) = &self.database else { return Err(redb::Error::DatabaseClosed) };
        let mut write = database.begin_write()?;
        write.set_two_phase_commit(true);
        {
            let mut table = write.open_table(ENTRIES)?;
            batch.apply(&mut table)?;
            let mut value = Vec::new();
            encode(&mark, &mut value);
            table.insert(CLOCK, &value[..])?;
            value.clear();
            encode(progress, &mut value);
            table.insert(LOG, &value[..])?;
        }
        write.commit()?;
        Ok(())
    }
}

/// Returns the settings that every opening of the database shares.
fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

impl Disk {
    /// Returns the error for a database that cannot be opened.
    fn open_error(&self, error: &DatabaseError) -> OpenError {
        let path = self.path.display();
        match error {
            DatabaseError::DatabaseAlreadyOpen => {
                OpenError::Taken(format!("another process uses {path}"))
            }
            DatabaseError::UpgradeRequired(version) => OpenError::Damaged(format!(
                "{path} has format {version}, which this tollgate cannot read"
            )),
            DatabaseError::Storage(StorageError::Io(error)) => self.io_error(error),
            error => OpenError::Damaged(format!("{path} is damaged: {error}")),
        }
    }

    /// Returns the error for a database that cannot be read.
    fn error(&self, error: &redb::Error) -> OpenError {
        match error {
            redb::Error::Io(error) => self.io_error(error),
            error => OpenError::Damaged(format!("{} is damaged: {error}", self.path.display())),
        }
    }

    /// Returns the error for a failure of the file system. A file that is too short counts as
    /// damaged.
    fn io_error(&self, error: &io::Error) -> OpenError {
        let path = self.path.display();
        match error.kind() {
            // The file is shorter than its header says, or is not a redb file.
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
                OpenError::Damaged(format!("{path} is damaged: {error}"))
            }
            _ => OpenError::Unusable(format!("cannot use {path}: {error}")),
        }
    }
}
