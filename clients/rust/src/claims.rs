//! The calls for leases that a connection makes, and the leases that it gives back.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::{Connection, Error, calls::Call, clock::Moment, random};

/// Maximum number of attempts to give a lease back, and bounds of the pause between two of them.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// A granted lease, as a cancelled call learns of it.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    /// `None` if the token of a call is unknown and no other call has the same identity.
    pub(crate) token: Option<u64>,
    /// Whether an earlier call was granted the lease.
    pub(crate) replayed: bool,
    /// The task of a slot.
    pub(crate) task: String,
    /// Time that is left of the lease.
    pub(crate) left: Duration,
}

/// The calls for leases of one connection, by the identity of the lease. All calls with one
/// identity get the same lease, so a lease is given back only if no other call has received it or
/// may receive it.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<HashMap<String, Entry>>);

/// The calls for one lease.
#[derive(Debug, Default)]
struct Entry {
    /// Number of calls whose caller waits for the answer.
    calls: usize,
    /// Number of cancelled calls that have not ended.
    cancelled: usize,
    /// Tokens that were granted to calls, and tokens that callers have received.
    granted: Vec<Option<u64>>,
    given: Vec<Option<u64>>,
    ending: Option<Arc<Ending>>,
}

/// A lease that is being given back.
#[derive(Debug, Default)]
struct Ending {
    /// Makes the next attempt immediately, as the last one.
    hurry: watch::Sender<bool>,
    done: watch::Sender<bool>,
}

/// One call for a lease, until it is answered.
#[derive(Debug)]
pub(crate) struct Claim {
    connection: Connection,
    key: String,
    is_cancelled: bool,
}

impl Entry {
    /// Registers the attempts to give the lease back.
    fn begin(&mut self) -> Arc<Ending> {
        self.ending.insert(Arc::default()).clone()
    }
}

/// The attempts to give a lease back, until they have ended.
struct Trying {
    connection: Connection,
    key: String,
    ending: Arc<Ending>,
}

/// Returns the identity of a lease.
pub(crate) fn key(parts: &[&str]) -> String {
    parts.join("\0")
}

impl Claims {
    fn entries(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the calls for a lease, and forgets them if none is left.
    fn update<T>(&self, key: &str, change: impl FnOnce(&mut Entry) -> T) -> T {
        let mut entries = self.entries();
        let entry = entries.entry(key.to_owned()).or_default();
        let changed = change(entry);
        if entry.calls + entry.cancelled == 0 && entry.ending.is_none() {
            entries.remove(key);
        }
        changed
    }

    /// Returns the lease that is being given back; otherwise registers a call, if `registers` is
    /// true.
    fn ending(&self, key: &str, registers: bool) -> Option<Arc<Ending>> {
        self.update(key, |entry| {
            if entry.ending.is_none() && registers {
                entry.calls += 1;
            }
            entry.ending.clone()
        })
    }

    async fn settled(&self, key: &str, registers: bool) {
        while let Some(ending) = self.ending(key, registers) {
            ending.hurry.send_replace(true);
            let mut done = ending.done.subscribe();
            // The sender lives as long as `ending`.
            let _ = done.wait_for(|is_done| *is_done).await;
        }
    }
}

impl Connection {
    /// Registers a call for a lease. If the lease is being given back, makes a last attempt to do
    /// so.
    pub(crate) async fn claim(&self, key: String) -> Claim {
        self.claims().settled(&key, true).await;
        Claim { connection: self.clone(), key, is_cancelled: false }
    }

    /// Makes a last attempt to give a lease back, if it is being given back.
    pub(crate) async fn settle(&self, key: &str) {
        self.claims().settled(key, false).await;
    }

    /// Gives a lease back when its scope is left. Returns once the call is answered, or after the
    /// deadline of one call; further attempts then follow in the background until the lease ends.
    pub(crate) async fn leave<M: Call>(&self, key: String, message: M, until: Moment) {
        if let Some(tries) = self.give_up(key, message, until) {
            let _ = timeout(self.deadline(), tries).await;
        }
    }

    /// Gives a lease back in the background, with attempts until the lease ends. Does nothing
    /// outside of a runtime.
    pub(crate) fn give_up<M: Call>(
        &self,
        key: String,
        message: M,
        until: Moment,
    ) -> Option<JoinHandle<()>> {
        let runtime = Handle::try_current().ok()?;
        let ending = self.claims().update(&key, Entry::begin);
        let trying = Trying { connection: self.clone(), key, ending };
        Some(runtime.spawn(async move {
            let _ = trying.tries(message, until).await;
        }))
    }
}

impl Claim {
    /// Records that the caller has received the answer, with the token of its lease if it has one.
    pub(crate) fn answered(self, token: Option<u64>) {
        if token.is_some() {
            self.connection.claims().update(&self.key, |entry| entry.given.push(token));
        }
    }

    /// Records that the caller gets no answer. Once the call has ended, its lease is given back in
    /// the background, unless another call has received it or may receive it. `pause` is the time
    /// after which the call has ended.
    pub(crate) fn withdraw<M: Call>(
        mut self,
        ended: impl Future<Output = Option<Grant>> + Send + 'static,
        message: impl FnOnce(&Grant) -> M + Send + 'static,
        pause: Duration,
    ) {
        let Ok(runtime) = Handle::try_current() else { return };
        self.is_cancelled = true;
        self.connection.claims().update(&self.key, |entry| {
            entry.calls -= 1;
            entry.cancelled += 1;
        });
        runtime.spawn(async move {
            let Some(grant) = ended.await else { return };
            let Some(ending) = self.begin(&grant) else { return };
            let until = Moment::now() + grant.left;
            let (connection, key) = (self.connection.clone(), self.key.clone());
            drop(self);
            let trying = Trying { connection, key, ending };
            if trying.tries(message(&grant), until).await.is_ok() {
                sleep(pause).await;
            }
        });
    }

    /// Begins to give a lease back, if it was granted to this call and belongs to no other call.
    fn begin(&self, grant: &Grant) -> Option<Arc<Ending>> {
        self.connection.claims().update(&self.key, |entry| {
            if !grant.replayed {
                entry.granted.push(grant.token);
            }
            let is_own = entry.granted.contains(&grant.token);
            let is_free = entry.calls == 0 && !entry.given.contains(&grant.token);
            (is_own && is_free).then(|| entry.begin())
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let is_cancelled = self.is_cancelled;
        self.connection.claims().update(&self.key, |entry| {
            let calls = if is_cancelled { &mut entry.cancelled } else { &mut entry.calls };
            *calls -= 1;
        });
    }
}

impl Trying {
    /// Makes a call until it is answered. Without an answer the lease ends by itself.
    async fn tries<M: Call>(&self, message: M, until: Moment) -> Result<M::Answer, Error> {
        let connection = &self.connection;
        let mut hurry = self.ending.hurry.subscribe();
        let mut attempt = 0;
        loop {
            let error = match connection.once(connection.deadline(), message.clone()).await {
                Ok(answered) => return Ok(answered.answer),
                Err(error) => error,
            };
            attempt += 1;
            let bound = (PAUSE * 2_u32.pow(attempt.min(10))).min(PAUSE_MAX);
            let pause = error.retry_after.unwrap_or_default() + random::between(bound, 0.5, 1.0);
            let is_last = attempt == TRIES || *hurry.borrow() || Moment::now() + pause >= until;
            if is_last || !error.is_passing() {
                return Err(error);
            }
            tokio::select! {
                ended = connection.closing().pause(pause) => ended?,
                _ = hurry.wait_for(|it| *it) => {}
            }
        }
    }
}

impl Drop for Trying {
    fn drop(&mut self) {
        self.connection.claims().update(&self.key, |entry| {
            if entry.ending.as_ref().is_some_and(|ending| Arc::ptr_eq(ending, &self.ending)) {
                entry.ending = None;
            }
        });
        self.ending.done.send_replace(true);
    }
}
