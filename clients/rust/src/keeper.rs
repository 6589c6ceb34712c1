//! Renews the held leases of a connection: one queue and one task for all of them.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::{
    sync::{Notify, Semaphore, SemaphorePermit},
    time::sleep,
};

use crate::{clock::Moment, held::Inner};

/// Maximum time between two readings of the clock, which jumps when the machine has slept.
const TICK: Duration = Duration::from_millis(200);

/// Maximum number of renewals at a time. More of them would only wait in the connection while their
/// deadlines run.
const PARALLEL: usize = 64;

/// The place of a lease in the queue.
pub(crate) type Key = (Moment, u64);

/// The queue of a connection. Its task runs while the queue has entries.
#[derive(Clone)]
pub(crate) struct Keeper(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    /// An entry is due earlier than the task expects.
    earlier: Notify,
    renewals: Semaphore,
}

#[derive(Default)]
struct Queue {
    entries: BTreeMap<Key, Weak<Inner>>,
    next: u64,
    /// The number of the running task.
    task: Option<u64>,
}

/// A running task. Another one can start when it has ended, even if it ended with its runtime.
struct Running {
    shared: Arc<Shared>,
    number: u64,
}

impl Default for Keeper {
    fn default() -> Keeper {
        let (queue, earlier) = (Mutex::default(), Notify::new());
        Keeper(Arc::new(Shared { queue, earlier, renewals: Semaphore::new(PARALLEL) }))
    }
}

impl Keeper {
    /// Waits until a renewal may be sent.
    pub(crate) async fn renewal(&self) -> Option<SemaphorePermit<'_>> {
        self.0.renewals.acquire().await.ok()
    }

    /// Enters a lease. It is attended at `due`.
    pub(crate) fn insert(&self, due: Moment, lease: Weak<Inner>) -> Key {
        let mut queue = self.0.queue();
        queue.next += 1;
        let key = (due, queue.next);
        queue.entries.insert(key, lease);
        let is_first = queue.entries.first_key_value().is_some_and(|(first, _)| *first == key);
        if queue.task.is_none() {
            let number = queue.next;
            queue.task = Some(number);
            tokio::spawn(run(Running { shared: self.0.clone(), number }));
        } else if is_first {
            self.0.earlier.notify_one();
        }
        key
    }

    pub(crate) fn remove(&self, key: Key) {
        self.0.queue().entries.remove(&key);
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Keeper").field(&self.0.queue().entries.len()).finish()
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time until the next entry is due. Without an entry the task is over: an
    /// insertion starts the next one.
    fn pause(&self) -> Option<Duration> {
        let mut queue = self.queue();
        let first = queue.entries.first_key_value().map(|((due, _), _)| due.left().min(TICK));
        if first.is_none() {
            queue.task = None;
        }
        first
    }
}

impl Queue {
    /// Removes the leases that are due.
    fn take_due(&mut self, now: Moment) -> Vec<Arc<Inner>> {
        let mut due = Vec::new();
        while let Some(entry) = self.entries.first_entry()
            && entry.key().0 <= now
        {
            due.extend(entry.remove().upgrade());
        }
        due
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        if queue.task == Some(self.number) {
            queue.task = None;
        }
    }
}

async fn run(running: Running) {
    let shared = &running.shared;
    loop {
        let now = Moment::now();
        let due = shared.queue().take_due(now);
        for lease in due {
            Inner::attend(lease, now);
        }
        let Some(pause) = shared.pause() else { return };
        tokio::select! {
            () = sleep(pause) => {}
            () = shared.earlier.notified() => {}
        }
    }
}
