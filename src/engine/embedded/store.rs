//! The data directory: one file of redb, and one that is locked while a server uses it.
//!
//! What is written is synced before the file's head names it, and the head is synced then:
//! two syncs, where redb could do with one. With one, damage in what was written last cannot
//! be told from a write that was torn, and what had been acknowledged would be cut off in
//! silence. And a sync that fails may leave pages that are never written, though whoever reads
//! the file sees them: with two nothing names them, and what failed is written anew, all of it.

mod batch;
mod rights;

use std::{
    fmt,
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use redb::{
    Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError,
    TableDefinition, TableError,
};

pub(super) use batch::Batch;

use crate::{
    record::{META, Unreadable, decode, encode},
    time::Mark,
};

const ENTRIES: TableDefinition<&[u8], &[u8]> = TableDefinition::new("entries");
pub(super) const FILE: &str = "tollgate.redb";
const UNFINISHED: &str = "tollgate.redb.unfinished";
const LOCK: &str = "tollgate.lock";
/// Pages that are kept in memory: what states need is in memory already.
const CACHE_BYTES: usize = 64 << 20;
/// Where a file begins to be large.
const LARGE: u64 = 8 << 20;
/// The key of the clock's mark.
const CLOCK: &[u8] = &[META, 0, 0, b'c'];

/// Why a data directory cannot be used, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenError {
    /// It is damaged.
    Damaged(String),
    /// It cannot be read or written.
    Unusable(String),
    /// Another server uses it.
    Taken(String),
    /// There is none.
    Missing(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Damaged(why) => write!(
                f,
                "{why}. Restore the directory from a copy, or move it out of \
                 the way to begin without what is in it"
            ),
            OpenError::Unusable(why) => write!(
                f,
                "{why}. Look at the disk's health and room, and at who may write there; then start \
                 again"
            ),
            OpenError::Taken(why) => f.write_str(why),
            OpenError::Missing(path) => {
                write!(f, "{path} holds no state: name the server's --data-dir")
            }
        }
    }
}

impl std::error::Error for OpenError {}

/// Opens the file, or what stands for it.
type Opener = Box<dyn Fn(&mut Builder) -> Result<Database, DatabaseError> + Send + Sync>;

/// Where entries are kept.
pub struct Disk {
    /// What errors name.
    path: PathBuf,
    open: Opener,
    /// Locked for as long as it is open.
    _lock: Option<File>,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Disk").field(&self.path).finish()
    }
}

impl Disk {
    /// A directory, made if it is not there, that no other server uses.
    pub fn directory(directory: &Path) -> Result<Disk, OpenError> {
        let failed = |what: &str, error: &dyn fmt::Display| {
            OpenError::Unusable(format!("{what} {}: {error}", directory.display()))
        };
        rights::make_directory(directory).map_err(|error| failed("cannot make", &error))?;
        let lock = rights::open_file(&directory.join(LOCK));
        let lock = lock.map_err(|error| failed("cannot write to", &error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::Taken(format!(
                    "another server uses {}: give each a data directory of its own",
                    directory.display()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(failed("cannot lock", &error)),
        }
        let path = directory.join(FILE);
        if !path.exists() {
            begin(directory, &path).map_err(|error| failed("cannot make a file in", &error))?;
        }
        for path in [directory, &path, &directory.join(LOCK)] {
            rights::warn_if_wide(path);
        }
        // Its name has to last, too, and the directory's.
        for folder in [directory, directory.parent().unwrap_or(directory)] {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            let synced = File::open(folder).and_then(|folder| folder.sync_all());
            synced.map_err(|error| failed("cannot sync", &error))?;
        }
        let file = path.clone();
        // One that is gone is not made anew: what was in it is missed.
        let open = move |builder: &mut Builder| builder.open(&file);
        Ok(Disk { path, open: Box::new(open), _lock: Some(lock) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whatever this opens, under a name for errors.
    pub fn custom(
        path: &Path,
        open: impl Fn(&mut Builder) -> Result<Database, DatabaseError> + Send + Sync + 'static,
    ) -> Disk {
        Disk { path: path.to_owned(), open: Box::new(open), _lock: None }
    }
}

/// Makes an empty file, whole or not at all: one that is cut off would be damaged for ever.
fn begin(directory: &Path, path: &Path) -> Result<(), redb::Error> {
    let unfinished = directory.join(UNFINISHED);
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    // Made here, and not by redb, for its rights.
    drop(rights::open_file(&unfinished)?);
    drop(builder().create(&unfinished)?);
    Ok(fs::rename(&unfinished, path)?)
}

/// The entries on disk. What fails leaves it closed; the next write opens it again.
#[derive(Debug)]
pub(super) struct Store {
    disk: Disk,
    database: Option<Database>,
}

impl Store {
    /// Opens it, and checks every byte of what is there.
    pub(super) fn open(disk: Disk) -> Result<Store, OpenError> {
        let mut builder = builder();
        let database = (disk.open)(builder.set_check_integrity_on_open(true));
        let database = database.map_err(|error| disk.open_error(&error))?;
        Ok(Store { disk, database: Some(database) })
    }

    /// Hands over every entry, in the order of their keys; returns the clock's mark.
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
            let restored = match key == CLOCK {
                true => decode(value).map(|read| mark = Some(read)),
                false => entry(key, value),
            };
            restored.map_err(|why| self.unreadable(key, &why))?;
        }
        Ok(mark)
    }

    /// Why an entry cannot be read.
    pub(super) fn unreadable(&self, key: &[u8], Unreadable(why): &Unreadable) -> OpenError {
        let (path, key) = (self.disk.path.display(), key.escape_ascii());
        OpenError::Damaged(format!("{path}: the entry {key} cannot be read: {why}"))
    }

    /// Whether reading it is worth a thread.
    pub(super) fn is_large(&self) -> bool {
        fs::metadata(&self.disk.path).is_ok_and(|file| file.len() > LARGE)
    }

    /// Writes changes and a mark in one step, synced when it returns. What fails may be
    /// down or not: it has to be written again.
    pub(super) fn write(&mut self, batch: &Batch, mark: Mark) -> Result<(), String> {
        let written = self.try_write(batch, mark);
        if written.is_err() {
            // redb takes no more after a failure.
            self.database = None;
        }
        written.map_err(|error| format!("{}: {error}", self.disk.path.display()))
    }

    fn try_write(&mut self, batch: &Batch, mark: Mark) -> Result<(), redb::Error> {
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
        }
        write.commit()?;
        Ok(())
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

impl Disk {
    fn open_error(&self, error: &DatabaseError) -> OpenError {
        let path = self.path.display();
        match error {
            DatabaseError::DatabaseAlreadyOpen => {
                OpenError::Taken(format!("another process uses {path}"))
            }
            DatabaseError::UpgradeRequired(version) => OpenError::Damaged(format!(
                "{path} is of form {version}, which this tollgate does not read"
            )),
            DatabaseError::Storage(StorageError::Io(error)) => self.io_error(error),
            error => OpenError::Damaged(format!("{path} is damaged: {error}")),
        }
    }

    fn error(&self, error: &redb::Error) -> OpenError {
        match error {
            redb::Error::Io(error) => self.io_error(error),
            error => OpenError::Damaged(format!("{} is damaged: {error}", self.path.display())),
        }
    }

    fn io_error(&self, error: &io::Error) -> OpenError {
        let path = self.path.display();
        match error.kind() {
            // It ends before what it says it holds, or is of another kind altogether.
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
                OpenError::Damaged(format!("{path} is damaged: {error}"))
            }
            _ => OpenError::Unusable(format!("cannot use {path}: {error}")),
        }
    }
}
