//! The index stage: enters outcomes into an index that listings read, such as bans into the ban
//! index.
//!
//! The index is in another hash slot than the partition, so it cannot be written in the atomic step
//! of the decision. It decides nothing. A lost entry hides a ban from ListBans until the next call
//! of its key; the ban stays in force.

use std::{
    collections::HashMap,
    marker::PhantomData,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{Answered, Engine, embedded::Sharded};
use tollgate_core::{
    IndexEntry, Indexing,
    names::Namespace,
    time::{Timestamp, monotonic},
};

/// Maximum time that an answer waits for the write of its entry.
const ENTER_MAX: Duration = Duration::from_millis(100);
/// Time after which an entry is entered again, in case the store lost it.
const ENTER_EVERY: Duration = Duration::from_secs(60);
/// Maximum number of remembered entries. Above it all are forgotten and entered again.
const REMEMBERED_MAX: usize = 65_536;

/// The entries of one kind that this server has entered: the name of each, its end, and the time at
/// which it was entered.
#[derive(Debug)]
struct RecentEntries<E> {
    entries: Mutex<Remembered>,
    kind: PhantomData<fn() -> E>,
}

/// Boxed: nearly all calls have no entry, and their futures stay below 1 KiB.
pub(super) type Entering<'e> = Pin<Box<dyn Future<Output = ()> + Send + 'e>>;

type Remembered = HashMap<Box<[u8]>, (Timestamp, Instant)>;

impl<E> Default for RecentEntries<E> {
    fn default() -> RecentEntries<E> {
        RecentEntries { entries: Mutex::default(), kind: PhantomData }
    }
}

impl<E: IndexEntry> RecentEntries<E> {
    /// Whether an entry must be entered.
    fn is_due(&self, entry: &E) -> bool {
        let entries = self.lock();
        let last = entries.get(entry.name());
        last.is_none_or(|(until, at)| *until != entry.until() || at.elapsed() >= ENTER_EVERY)
    }

    /// Remembers that an entry is in the index.
    fn add(&self, entry: &E) {
        let mut entries = self.lock();
        if entries.len() >= REMEMBERED_MAX {
            entries.clear();
        }
        entries.insert(entry.name().into(), (entry.until(), monotonic()));
    }

    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Enters outcomes; `None` if no entry is due, as for nearly all calls. The outcomes are
    /// already in force, so a failure does not affect the answer. The next outcome with the same
    /// entry tries again. An outcome of the fallback is known to this server only, so it is not
    /// entered.
    pub(super) fn enter<'e, 'd, D>(
        &'e self,
        answers: impl Iterator<Item = (&'d D, &'d Answered<D::Outcome>)>,
        deadline: Instant,
    ) -> Option<Entering<'e>>
    where
        D: Indexing<Entry: IndexEntry<State: Sharded>>,
    {
        let answers = answers.filter(|(_, answer)| !answer.is_degraded());
        let entries = answers.filter_map(|(decision, answer)| decision.entry(&answer.outcome));
        let entries: Vec<_> = entries.filter(|entry| self.recent().is_due(entry)).collect();
        (!entries.is_empty()).then(|| Box::pin(self.enter_all(entries, deadline)) as Entering<'e>)
    }

    async fn enter_all<E>(&self, entries: Vec<E>, deadline: Instant)
    where
        E: IndexEntry<State: Sharded>,
    {
        let deadline = deadline.min(monotonic() + ENTER_MAX);
        let entered = self.store_all(&entries, deadline).await;
        for (entry, entered) in entries.iter().zip(entered.unwrap_or_default()) {
            match entered {
                Ok(()) => self.recent().add(entry),
                Err(error) => tracing::debug!(
                    %error,
                    namespace = Namespace::text_of(entry.partition()),
                    entry = &*String::from_utf8_lossy(entry.name()),
                    "cannot add an entry to its index"
                ),
            }
        }
    }

    /// The recent entries of this kind.
    fn recent<E: IndexEntry>(&self) -> &RecentEntries<E> {
        self.hub().by_type(RecentEntries::default)
    }
}
