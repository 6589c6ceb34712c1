//! The ban index stage adds bans to the index that ListBans reads.
//!
//! The index is in a different hash slot than the key, so it cannot be written in the atomic step
//! of the decision. It decides nothing. A lost entry hides a ban from ListBans until the next call
//! of its key; the ban stays in force.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{Answered, Engine};
use tollgate_core::{
    Decision,
    names::Namespace,
    rate::{BanEntry, IndexBan},
    time::{Timestamp, monotonic},
};

/// Maximum time that an answer waits for the write of its entry.
const ENTER_MAX: Duration = Duration::from_millis(100);
/// Time after which an entry is added again, in case the store has lost it.
const ENTER_EVERY: Duration = Duration::from_secs(60);
/// Maximum number of remembered entries. Above it, all are forgotten and added again.
const REMEMBERED_MAX: usize = 65_536;

/// The bans that this server has added to the index: the key of each, its end, and the time at
/// which it was added.
#[derive(Debug, Default)]
struct EnteredBans(Mutex<Remembered>);

/// Boxed, because nearly all calls have no entry, and their futures should stay below 1 KiB.
pub(crate) type Entering<'e> = Pin<Box<dyn Future<Output = ()> + Send + 'e>>;

type Remembered = HashMap<Box<[u8]>, (Timestamp, Instant)>;

impl EnteredBans {
    /// Returns the bans that an engine has added.
    fn lookup(engine: &Engine) -> &EnteredBans {
        engine.hub().by_type(EnteredBans::default)
    }

    /// Whether a ban must be added.
    fn is_due(&self, ban: &BanEntry) -> bool {
        let bans = self.lock();
        let last = bans.get(ban.name.as_bytes());
        last.is_none_or(|(until, at)| *until != ban.until || at.elapsed() >= ENTER_EVERY)
    }

    /// Remembers that a ban is in the index.
    fn add(&self, ban: &IndexBan) {
        let mut bans = self.lock();
        if bans.len() >= REMEMBERED_MAX {
            bans.clear();
        }
        bans.insert(ban.name.as_bytes().into(), (ban.until, monotonic()));
    }

    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds the bans of outcomes; `None` if none is due, as for nearly all calls. The bans are already
/// in force, so a failure does not affect the answer, and the next outcome with the same ban tries
/// again. An outcome of the fallback is known only to this server, so it is not added.
pub(crate) fn enter<'e, 'd, D: Decision>(
    engine: &'e Engine,
    answers: impl Iterator<Item = (&'d D, &'d Answered<D::Outcome>)>,
    deadline: Instant,
) -> Option<Entering<'e>> {
    let ban = const { D::PROPERTIES.ban }?;
    let answers = answers.filter(|(_, answer)| !answer.is_degraded());
    let bans = answers.filter_map(|(decision, answer)| ban(decision, &answer.outcome));
    let bans = bans.filter(|ban| EnteredBans::lookup(engine).is_due(ban));
    let bans: Vec<IndexBan> = bans.map(IndexBan::from).collect();
    (!bans.is_empty()).then(|| Box::pin(enter_all(engine, bans, deadline)) as Entering<'e>)
}

async fn enter_all(engine: &Engine, bans: Vec<IndexBan>, deadline: Instant) {
    let deadline = deadline.min(monotonic() + ENTER_MAX);
    let entered = engine.store_all(&bans, deadline).await;
    for (ban, entered) in bans.iter().zip(entered.unwrap_or_default()) {
        match entered {
            Ok(()) => EnteredBans::lookup(engine).add(ban),
            Err(error) => tracing::debug!(
                %error,
                namespace = Namespace::text_of(ban.partition()),
                entry = &*String::from_utf8_lossy(ban.name.as_bytes()),
                "cannot add an entry to its index"
            ),
        }
    }
}
