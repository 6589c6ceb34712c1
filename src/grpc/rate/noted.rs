//! The bans that this server has added to the ban index.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    decision::time::{Timestamp, monotonic},
    rate::NoteBan,
};

/// Time after which a ban is added again, in case its store lost the entry.
const NOTE_EVERY: Duration = Duration::from_secs(60);
/// Maximum number of remembered keys. Above it all are forgotten and added again.
const NOTED_MAX: usize = 65_536;

/// Banned keys, with the end of the added ban and the time at which it was added.
#[derive(Debug, Default)]
pub(super) struct NotedBans(Mutex<Notes>);

type Notes = HashMap<Box<[u8]>, (Timestamp, Instant)>;

impl NotedBans {
    /// Whether a ban must be added to the index.
    pub(super) fn is_due(&self, note: &NoteBan) -> bool {
        let noted = self.lock();
        let last = noted.get(note.name.as_bytes());
        last.is_none_or(|(until, at)| *until != note.until || at.elapsed() >= NOTE_EVERY)
    }

    /// Remembers that a ban is in the index.
    pub(super) fn add(&self, note: &NoteBan) {
        let mut noted = self.lock();
        if noted.len() >= NOTED_MAX {
            noted.clear();
        }
        noted.insert(note.name.as_bytes().into(), (note.until, monotonic()));
    }

    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
