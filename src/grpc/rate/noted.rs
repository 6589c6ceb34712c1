//! Which bans this server has noted for listings.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    rate::NoteBan,
    time::{Timestamp, monotonic},
};

/// A note that got lost with its store is made good after this.
const NOTE_EVERY: Duration = Duration::from_secs(60);
/// Keys remembered; past it all are forgotten and noted anew.
const NOTED_MAX: usize = 65_536;

/// Banned keys, the end of the ban that was noted of each, and when.
#[derive(Debug, Default)]
pub(super) struct Noted(Mutex<Notes>);

type Notes = HashMap<Box<[u8]>, (Timestamp, Instant)>;

impl Noted {
    /// Whether a ban has to be noted.
    pub(super) fn is_due(&self, note: &NoteBan) -> bool {
        let noted = self.lock();
        let last = noted.get(note.name.as_bytes());
        last.is_none_or(|(until, at)| *until != note.until || at.elapsed() >= NOTE_EVERY)
    }

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
