//! Loads a data directory into an engine, at start.
//!
//! Entries arrive in the order of their keys, so all entries of a partition are consecutive. One
//! state is restored at a time. A large file is read by a second thread. An unreadable entry ends
//! the start with an error; nothing is skipped.

use std::{
    mem,
    panic::resume_unwind,
    sync::mpsc::{SyncSender, sync_channel},
    thread,
};

use super::{
    super::registry::stored_states,
    Embedded,
    store::{FileStore, OpenError},
    tables::Tabled,
};
use tollgate_core::{
    record::{Recorded, Unreadable, split_key},
    time::Mark,
};

/// The size of a chunk that the reading thread passes on, in bytes.
const CHUNK_BYTES: usize = 256 << 10;
/// Maximum number of chunks that wait to be restored, which bounds the memory of a load.
const CHUNKS_MAX: usize = 16;

/// Loads all entries. Returns the clock's mark and the number of entries.
pub(super) fn load(
    engine: &mut Embedded,
    store: &FileStore,
) -> Result<(Option<Mark>, usize), OpenError> {
    let mut loader = Loader { engine, open: None, count: 0 };
    let mark = if store.is_large() {
        load_beside(&mut loader, store)?
    } else {
        store.scan(|key, value| loader.entry(key, value))?
    };
    loader.finish();
    Ok((mark, loader.count))
}

/// Restores states while another thread reads ahead; each is about half of the work.
fn load_beside(loader: &mut Loader<'_>, store: &FileStore) -> Result<Option<Mark>, OpenError> {
    let (sender, chunks) = sync_channel(CHUNKS_MAX);
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("load".into());
        let reading = thread.spawn_scoped(scope, move || read(store, &sender));
        let reading = reading
            .map_err(|error| OpenError::Unusable(format!("cannot start a thread: {error}")))?;
        let put = chunks.into_iter().try_for_each(|chunk: EntryChunk| {
            chunk.each(|key, value| {
                loader.entry(key, value).map_err(|why| store.unreadable(key, &why))
            })
        });
        let mark = reading.join().unwrap_or_else(|panic| resume_unwind(panic));
        put?;
        mark
    })
}

/// Sends all entries in chunks. Returns the clock's mark.
fn read(store: &FileStore, sender: &SyncSender<EntryChunk>) -> Result<Option<Mark>, OpenError> {
    let mut chunk = EntryChunk::default();
    let mark = store.scan(|key, value| {
        chunk.add(key, value);
        if chunk.bytes.len() < CHUNK_BYTES {
            Ok(())
        } else {
            // The receiver has stopped at an unreadable entry and reports that one.
            sender
                .send(mem::take(&mut chunk))
                .map_err(|_| Unreadable("an earlier entry is unreadable".to_owned()))
        }
    })?;
    let _ = sender.send(chunk);
    Ok(mark)
}

/// Entries in the order of their keys.
#[derive(Debug, Default)]
struct EntryChunk {
    bytes: Vec<u8>,
    /// The lengths of each key and value.
    lengths: Vec<[usize; 2]>,
}

impl EntryChunk {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.lengths.push([key.len(), value.len()]);
    }

    fn each<E>(&self, mut entry: impl FnMut(&[u8], &[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut rest = &self.bytes[..];
        self.lengths.iter().try_for_each(|[key, value]| {
            let (bytes, after) = rest.split_at(key + value);
            rest = after;
            let (key, value) = bytes.split_at(*key);
            entry(key, value)
        })
    }
}

/// Restores one partition at a time; `open` is the current one.
struct Loader<'a> {
    engine: &'a mut Embedded,
    /// Kind, name and state of the current partition.
    open: Option<Open>,
    /// The number of entries read.
    count: usize,
}

/// Kind, name and state of a partition.
type Open = (u8, Box<[u8]>, Box<dyn Restored>);

/// A state of any kind that is being restored.
trait Restored {
    fn restore(&mut self, part: &[u8], value: &[u8]) -> Result<(), Unreadable>;
    /// Derives the unstored parts of the state and adds it to its shard.
    fn insert(self: Box<Self>, engine: &mut Embedded, partition: Box<[u8]>);
}

impl<S: Tabled> Restored for S {
    fn restore(&mut self, part: &[u8], value: &[u8]) -> Result<(), Unreadable> {
        Recorded::restore(self, part, value)
    }

    fn insert(mut self: Box<Self>, engine: &mut Embedded, partition: Box<[u8]>) {
        self.restored();
        self.track_changes();
        engine.namespaces.add::<S>(&partition, None);
        let mut tables = engine.shard(S::tag(&partition));
        S::table(&mut tables).insert(partition, *self);
    }
}

macro_rules! fresh {
    ($($table:ident: $state:ty $(, events $event:ty => $history:ident)?;)*) => {
        /// Returns a fresh state of a kind; `None` if there is no such kind.
        fn fresh(kind: u8) -> Option<Box<dyn Restored>> {
            match kind {
                $(<$state as Recorded>::KIND => Some(Box::<$state>::default()),)*
                _ => None,
            }
        }
    };
}

stored_states!(fresh);

impl Loader<'_> {
    /// Restores one entry; a new partition completes the one before it.
    fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<(), Unreadable> {
        let key = split_key(key).ok_or_else(|| Unreadable("its key is truncated".to_owned()))?;
        let (kind, partition, part) = key;
        self.count += 1;
        let is_open =
            self.open.as_ref().is_some_and(|open| open.0 == kind && *open.1 == *partition);
        if !is_open {
            self.finish();
            let fresh = fresh(kind).ok_or_else(|| {
                Unreadable(format!("unknown kind {kind}: a newer tollgate wrote it"))
            })?;
            self.open = Some((kind, partition.into(), fresh));
        }
        match &mut self.open {
            Some((_, _, state)) => state.restore(part, value),
            None => Ok(()),
        }
    }

    /// Completes the current partition and adds it to the engine.
    fn finish(&mut self) {
        if let Some((_, partition, state)) = self.open.take() {
            state.insert(self.engine, partition);
        }
    }
}
