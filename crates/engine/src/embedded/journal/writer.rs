//! The writer of the journal collects queued changes and writes them to redb in one batch.

use std::{
    mem,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Instant,
};

use super::{
    super::store::{FileStore, WriteBatch},
    FailureGuard, JournalState, LogWriter, RETRY_EVERY, WRITE_EVERY, lock,
};
use tollgate_core::{
    record::Row,
    time::{KeptClock, monotonic},
};
use tollgate_telemetry::metrics;

/// Writes the queue on the journal's thread, or through calls of [`JournalWriter::write`] in
/// simulations.
#[derive(Debug)]
pub struct JournalWriter {
    pub(super) shared: Arc<JournalState>,
    /// The writer of the log, unless it has a thread of its own.
    pub(super) log: Option<LogWriter>,
    pub(super) store: FileStore,
    pub(super) clock: Arc<KeptClock>,
    /// The changes that were removed from the queue and are not synced yet.
    pub(super) batch: WriteBatch,
}

impl JournalWriter {
    /// Writes until the engine closes.
    pub(super) fn run(mut self) {
        let _end = FailureGuard(self.shared.clone());
        let mut began = monotonic();
        loop {
            self.wait(began);
            began = monotonic();
            if !self.write() {
                return;
            }
        }
    }

    /// Appends all queued changes to the log, for simulations. Does nothing without a log.
    pub fn log(&mut self) {
        if let Some(log) = &mut self.log {
            log.write();
        }
    }

    /// Writes all queued changes, and the clock's mark if it is old. Returns whether more writes
    /// can follow. A failed batch is written again with the next one.
    pub fn write(&mut self) -> bool {
        let is_closing = lock(&self.shared.queue).is_closing;
        match &mut self.log {
            Some(log) if is_closing => log.close(),
            _ => self.log(),
        }
        if is_closing {
            // From here on, nothing is acknowledged before it is synced.
            self.clock.end_reservation();
        }
        let ticket = self.collect();
        let is_idle = self.batch.is_empty() && !self.clock.is_due();
        if is_idle && !is_closing {
            return true;
        }
        let mark = if is_closing { self.clock.last_mark() } else { self.clock.mark() };
        let begin = monotonic();
        match self.store.write(&self.batch, mark, ticket) {
            Ok(()) => {
                let duration = monotonic().saturating_duration_since(begin);
                metrics::count(|cells| cells.syncs.observe(duration));
                // Wakes the calls before the batch is freed.
                let _written = mem::take(&mut self.batch);
                lock(&self.shared.queue).record_synced();
                self.clock.record_synced(mark);
                self.shared.written.store(ticket, Ordering::Release);
                self.shared.record_success(&self.shared.is_sync_failing);
                self.shared.waiters.wake();
            }
            // The batch is kept: the next call writes it again, with later changes.
            Err(why) => {
                self.batch.record_failure();
                if is_closing {
                    tracing::error!(
                        why,
                        changes = self.batch.len(),
                        "the last changes could not be written and are lost"
                    );
                }
                self.shared.record_failure(&self.shared.is_sync_failing, &why);
            }
        }
        !is_closing
    }

    /// Waits until it is time for the next write, and adds changes to the batch meanwhile. `began`
    /// is the start of the last write, so that a slow write is followed by the next without a
    /// pause.
    fn wait(&mut self, began: Instant) {
        let shared = self.shared.clone();
        let is_failing = shared.is_sync_failing.load(Ordering::Acquire);
        let end = if is_failing { monotonic() + RETRY_EVERY } else { began + WRITE_EVERY };
        let mut queue = lock(&shared.queue);
        loop {
            let left = end.saturating_duration_since(monotonic());
            let is_due = !is_failing && shared.is_write_due(&queue);
            if queue.is_closing || is_due || left.is_zero() {
                break;
            }
            if !is_failing && shared.is_urgent(&queue) {
                drop(queue);
                self.gather();
                queue = lock(&shared.queue);
                if shared.is_much(self.batch.len(), self.batch.bytes()) {
                    break;
                }
                continue;
            }
            queue.is_idle = true;
            let waited = shared.wake.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        queue.is_idle = false;
    }

    /// Moves queued changes to the batch. Returns the number of the last one.
    fn collect(&mut self) -> u64 {
        let mut queue = lock(&self.shared.queue);
        let (taken, ticket) = queue.take(self.clock.source());
        drop(queue);
        self.add(taken);
        ticket
    }

    /// Moves queued changes to the batch early.
    pub(super) fn gather(&mut self) {
        let rows = lock(&self.shared.queue).gather(self.clock.source());
        self.add(rows);
    }

    /// Adds changes to the batch.
    fn add(&mut self, rows: Vec<Row>) {
        for row in rows {
            row.iter().for_each(|change| self.batch.add(change));
        }
        lock(&self.shared.queue).record_batch(self.batch.bytes());
    }
}
