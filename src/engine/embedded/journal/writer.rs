//! What writes the journal.

use std::{
    mem,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Instant,
};

use super::{
    super::store::{Batch, Store},
    Durability, MANY, RETRY_EVERY, Shared, WRITE_EVERY, lock,
};
use crate::time::{KeptClock, monotonic};

/// Writes what is in line: on a thread of its own, or when its owner says.
#[derive(Debug)]
pub struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) store: Store,
    pub(super) clock: Arc<KeptClock>,
    /// What is not down yet of what was taken out of the queue.
    pub(super) batch: Batch,
}

/// Says that nothing is written any more where the thread ends by a bug.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.note_failure("its thread has ended; start the server again");
        }
    }
}

impl Writer {
    pub(super) fn run(mut self) {
        let _end = End(self.shared.clone());
        let mut began = monotonic();
        loop {
            self.wait(began);
            began = monotonic();
            if !self.write() {
                return;
            }
        }
    }

    /// Writes what is in line, and the clock's mark if it is due; whether there can be more
    /// to write. What fails is written with the next.
    pub fn write(&mut self) -> bool {
        let is_closing = lock(&self.shared.queue).is_closing;
        if is_closing {
            // What is collected now is the last: nothing that comes later is told.
            self.clock.end_reservation();
        }
        let ticket = self.collect();
        let is_idle = self.batch.is_empty() && !self.clock.is_due();
        if is_idle && !is_closing {
            return true;
        }
        let mark = if is_closing { self.clock.last_mark() } else { self.clock.mark() };
        match self.store.write(&self.batch, mark) {
            Ok(()) => {
                // Calls wait for the word, not for what it was about to be freed.
                let _written = mem::take(&mut self.batch);
                lock(&self.shared.queue).note_synced();
                self.clock.note_synced(mark);
                self.shared.note_written(ticket);
            }
            Err(why) => {
                if is_closing {
                    tracing::error!(
                        why,
                        changes = self.batch.len(),
                        "not written at the end: lost"
                    );
                }
                self.shared.note_failure(&why);
            }
        }
        !is_closing
    }

    /// Returns once it is time to write, after a write that began then: one that took long is
    /// followed at once by the next.
    fn wait(&self, began: Instant) {
        let shared = &self.shared;
        let (end, enough) = match shared.durability {
            _ if shared.is_failing.load(Ordering::Acquire) => {
                (monotonic() + RETRY_EVERY, usize::MAX)
            }
            Durability::Always => (began + WRITE_EVERY, 1),
            Durability::Interval => (began + WRITE_EVERY, MANY),
        };
        let mut queue = lock(&shared.queue);
        loop {
            let left = end.saturating_duration_since(monotonic());
            let is_asked = queue.is_mark_due && enough < usize::MAX;
            let is_much = enough < usize::MAX && shared.is_much(&queue);
            let is_enough = queue.count >= enough || is_much;
            if queue.is_closing || is_asked || is_enough || left.is_zero() {
                break;
            }
            queue.is_idle = true;
            let waited = shared.wake.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        queue.is_idle = false;
    }

    /// Takes what is in line; the last ticket.
    fn collect(&mut self) -> u64 {
        let mut queue = lock(&self.shared.queue);
        queue.is_mark_due = false;
        let taken = queue.take();
        let ticket = queue.ticket;
        drop(queue);
        for row in taken {
            row.iter().for_each(|change| self.batch.add(change));
        }
        ticket
    }
}
