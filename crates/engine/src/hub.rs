//! The registry of this server's long calls: waiting calls and watchers.
//!
//! `waiting` registers each waiting call and receives a number for it. The call's ticket contains
//! that number, so a wake-up for the number reaches the call: directly on the embedded engine, and
//! through Redis pub/sub on [`Hub::channel`] otherwise. Feeds acquire a permit for each watcher. At
//! shutdown [`Hub::close`] ends them all.
//!
//! [`Hub::by_type`] contains the parts of the engine that exist once for each kind of decision.
//!
//! A wake-up means only that a call may be able to proceed. The call then asks the store, which
//! decides.

use std::{
    any::Any,
    collections::HashMap,
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use arc_swap::ArcSwapOption;
use tokio::sync::{Notify, watch};

use crate::budget::{self, CallerLimits, Held, NamespaceBudget, Place, Places, ReachedLimit};
use tollgate_core::{error::Error, names::Namespace};

/// The waiting calls by number, and the permits of watchers.
pub struct Hub {
    /// The pub/sub channel of wake-ups.
    channel: Arc<str>,
    /// The number of the next waiting call.
    next: AtomicU64,
    /// Whether [`Hub::close`] was called.
    closed: watch::Sender<bool>,
    /// The limits of namespaces.
    namespaces: NamespaceBudget,
    /// Maximum number of waiting calls.
    waiters_max: AtomicUsize,
    /// The places of watchers.
    watchers: Arc<Places>,
    /// The places of calls that wait for a coalescer.
    coalesced: Arc<Places>,
    /// The waiting calls by number.
    calls: Mutex<HashMap<u64, Arc<Notify>>>,
    /// The queues of waiters and the coalescer of each kind of decision.
    by_type: ByType,
}

/// The registration of a waiting call, which ends when dropped.
#[derive(Debug)]
pub struct Registration {
    hub: Arc<Hub>,
    number: u64,
    /// Notified by each wake-up.
    wake_ups: Arc<Notify>,
    /// Counts the call for its namespace.
    _held: Option<Held>,
}

/// The permit of a watcher, which ends when dropped.
#[derive(Debug)]
pub struct WatcherPermit {
    _place: Place,
    /// Counts the watcher for its namespace.
    _held: Option<Held>,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("channel", &self.channel).finish_non_exhaustive()
    }
}

impl Hub {
    /// Creates a registry with the default limits. Its unique channel name starts with `prefix`.
    pub fn new(prefix: &str) -> Arc<Hub> {
        let limits = CallerLimits::DEFAULT;
        let random = || RandomState::new().build_hasher().finish();
        Arc::new(Hub {
            // Carries wake-ups. The name is kept from earlier versions, because servers of both
            // versions may share a Redis, and the ACLs of its users contain the pattern.
            channel: format!("{prefix}:hints:{:016x}{:016x}", random(), random()).into(),
            next: AtomicU64::new(1),
            closed: watch::Sender::new(false),
            namespaces: NamespaceBudget::default(),
            waiters_max: AtomicUsize::new(limits.waiters),
            watchers: Arc::new(Places::new(limits.watchers)),
            coalesced: Arc::new(Places::new(limits.sequence_waiters)),
            calls: Mutex::default(),
            by_type: ByType::default(),
        })
    }

    /// Changes the limits on waiting calls and watchers. Calls above a lower limit stay.
    pub(super) fn set_limits(&self, limits: &CallerLimits) {
        self.waiters_max.store(limits.waiters, Ordering::Relaxed);
        self.watchers.set(limits.watchers);
        self.coalesced.set(limits.sequence_waiters);
    }

    /// Returns a value that the engine has once for each kind of decision. The first use calls
    /// `create`.
    pub(super) fn by_type<T: Send + Sync + 'static>(&self, create: impl Fn() -> T) -> &T {
        self.by_type.get_or(create)
    }

    /// Returns the places of calls that wait for a coalescer, `limits.sequence_waiters`.
    pub(super) fn coalesced(&self) -> &Arc<Places> {
        &self.coalesced
    }

    /// Sets the rules that current and future waiting calls follow.
    pub fn follow<R: Send + Sync + 'static>(&self, rules: Arc<R>) {
        self.followed::<R>().store(Some(rules));
    }

    /// Returns the rules that waiting calls follow; none before the first reload.
    pub(super) fn followed<R: Send + Sync + 'static>(&self) -> &ArcSwapOption<R> {
        self.by_type(ArcSwapOption::<R>::empty)
    }

    /// Returns the pub/sub channel of this server's wake-ups, which also identifies the server in
    /// queues.
    pub fn channel(&self) -> &Arc<str> {
        &self.channel
    }

    /// Returns the limits of namespaces and their usage.
    pub fn namespaces(&self) -> &NamespaceBudget {
        &self.namespaces
    }

    /// Registers a call that is about to wait in this partition. Fails with [`Error::Overloaded`]
    /// if `limits.waiters` calls are waiting, and with [`Error::NamespaceLimit`].
    pub fn register(self: &Arc<Hub>, partition: &[u8]) -> Result<Registration, Error> {
        let used = self.namespaces.of(Namespace::prefix_of(partition));
        let held = used.map(|used| used.waiting()).transpose()?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let wake_ups = Arc::new(Notify::new());
        let mut calls = self.lock();
        if calls.len() >= self.waiters_max.load(Ordering::Relaxed) {
            return Err(budget::overloaded(ReachedLimit::Waiters));
        }
        calls.insert(number, wake_ups.clone());
        Ok(Registration { hub: self.clone(), number, wake_ups, _held: held })
    }

    /// Returns a permit for a watcher of this partition, which is released when dropped. Fails with
    /// [`Error::TooManyWatchers`] if there are `limits.watchers` watchers, with
    /// [`Error::NamespaceLimit`], and with [`Error::Ending`] after [`Hub::close`].
    pub fn watcher(&self, partition: &[u8]) -> Result<WatcherPermit, Error> {
        if self.is_closed() {
            return Err(Error::Ending);
        }
        let used = self.namespaces.of(Namespace::prefix_of(partition));
        let held = used.map(|used| used.watcher()).transpose()?;
        let place = self.watchers.take().ok_or_else(|| {
            ReachedLimit::Watchers.record();
            Error::TooManyWatchers
        })?;
        Ok(WatcherPermit { _place: place, _held: held })
    }

    /// Returns the number of waiting calls.
    pub fn calls(&self) -> usize {
        self.lock().len()
    }

    /// Returns the number of watchers.
    pub fn watching(&self) -> usize {
        self.watchers.taken()
    }

    /// Wakes a call. Returns whether the call is registered. If the call has not consumed an
    /// earlier wake-up yet, the two count as one.
    pub fn wake(&self, number: u64) -> bool {
        let wake_ups = self.lock().get(&number).cloned();
        wake_ups.inspect(|wake_ups| wake_ups.notify_one()).is_some()
    }

    /// Ends waiting and watching, at shutdown. Each waiting call is woken, asks the store one last
    /// time and leaves its queue.
    pub fn close(&self) {
        self.closed.send_replace(true);
        self.lock().values().for_each(|wake_ups| wake_ups.notify_one());
    }

    /// Whether [`Hub::close`] was called.
    pub fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Waits until [`Hub::close`] is called.
    pub async fn closed(&self) {
        // The sender lives as long as `self`.
        let _ = self.closed.subscribe().wait_for(|is_closed| *is_closed).await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Notify>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registration {
    /// Returns the number of the call, which is unique on this server.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Waits for the next wake-up. Returns immediately if one has arrived since the last return.
    pub async fn woken(&self) {
        self.wake_ups.notified().await;
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.hub.lock().remove(&self.number);
    }
}

/// Values by type, each created when it is first used. A lookup compares a few type ids and takes
/// no lock.
#[derive(Debug, Default)]
pub(super) struct ByType(OnceLock<Box<TypeEntry>>);

#[derive(Debug)]
struct TypeEntry {
    value: Box<dyn Any + Send + Sync>,
    next: ByType,
}

impl ByType {
    /// Returns the value of this type.
    pub(super) fn get<T: Default + Send + Sync + 'static>(&self) -> &T {
        self.get_or(T::default)
    }

    /// Returns the value of this type. The first use calls `create`.
    pub(super) fn get_or<T: Send + Sync + 'static>(&self, create: impl Fn() -> T) -> &T {
        let mut entries = self;
        loop {
            let entry = entries.0.get_or_init(|| {
                Box::new(TypeEntry { value: Box::new(create()), next: ByType::default() })
            });
            match entry.value.downcast_ref() {
                Some(value) => return value,
                None => entries = &entry.next,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    use super::*;

    #[test]
    fn each_type_has_one_value() {
        let values = ByType::default();
        values.get::<AtomicU32>().store(1, Ordering::Relaxed);
        values.get::<AtomicU64>().store(2, Ordering::Relaxed);
        assert_eq!(values.get::<AtomicU32>().load(Ordering::Relaxed), 1);
        assert_eq!(values.get::<AtomicU64>().load(Ordering::Relaxed), 2);
    }
}
