//! The writer of the log appends queued changes in one write for all waiting calls.

use std::{
    mem,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use super::{
    super::store::ChangeLog, ChangeQueue, FailureGuard, JournalState, RETRY_EVERY, lock,
    queue::QueuedRows,
};
use tollgate_core::time::KeptClock;

/// A write with this number of decisions means that many calls are in flight.
const CROWD: u64 = 8;
/// Maximum pause before the next write when many calls are in flight. The pause ends when as many
/// decisions are queued as the last write contained. Each write takes a core away from the threads
/// that decide.
const PAUSE: Duration = Duration::from_micros(500);

/// Appends the queue to the log: on a thread, or by [`JournalWriter::log`] in simulations.
///
/// [`JournalWriter::log`]: super::JournalWriter::log
#[derive(Debug)]
pub(super) struct LogWriter {
    shared: Arc<JournalState>,
    log: ChangeLog,
    clock: Arc<KeptClock>,
    /// The number of the last change in the log.
    last: u64,
    /// Changes that were removed from the queue but could not be written, with the number of the
    /// last one.
    unwritten: Option<(QueuedRows, u64)>,
}

impl LogWriter {
    pub(super) fn new(
        shared: &Arc<JournalState>,
        log: ChangeLog,
        clock: &Arc<KeptClock>,
    ) -> LogWriter {
        let last = shared.logged.load(Ordering::Acquire);
        LogWriter { shared: shared.clone(), log, clock: clock.clone(), last, unwritten: None }
    }

    /// Appends until the engine closes.
    pub(super) fn run(mut self) {
        let _end = FailureGuard(self.shared.clone());
        while self.wait() {
            let before = self.last;
            self.write();
            let count = self.last - before;
            if count >= CROWD {
                self.gather(count);
            }
        }
        self.close();
    }

    /// Appends all queued changes, and wakes the calls that wait for them. A failed record is
    /// written again by the next call, before others.
    pub(super) fn write(&mut self) {
        if let Some((rows, last)) = self.unwritten.take() {
            self.append(rows, last);
        }
        if self.unwritten.is_none() {
            let (rows, last) = lock(&self.shared.queue).take_unlogged();
            self.append(rows, last);
        }
    }

    fn append(&mut self, rows: QueuedRows, last: u64) {
        if rows.rows.is_empty() {
            return;
        }
        let synced = self.shared.written.load(Ordering::Acquire);
        let span = [self.last, last];
        match self.log.append(&rows.rows, span, self.clock.now(), synced) {
            Ok(()) => {
                self.last = last;
                self.hand_over(rows, last);
                self.shared.logged.store(last, Ordering::Release);
                self.shared.record_success(&self.shared.is_log_failing);
                self.shared.waiters.wake();
            }
            Err(error) => {
                self.unwritten = Some((rows, last));
                self.shared
                    .record_failure(&self.shared.is_log_failing, &format!("the log: {error}"));
            }
        }
    }

    /// Passes all changes to redb, including those that could not be logged.
    pub(super) fn close(&mut self) {
        self.write();
        if let Some((rows, last)) = self.unwritten.take() {
            self.hand_over(rows, last);
            let (rows, last) = lock(&self.shared.queue).take_unlogged();
            self.hand_over(rows, last);
        }
    }

    fn hand_over(&self, rows: QueuedRows, last: u64) {
        let mut queue = lock(&self.shared.queue);
        queue.record_logged(rows, last);
        if self.shared.is_urgent(&queue) && mem::take(&mut queue.is_idle) {
            self.shared.wake.notify_one();
        }
    }

    /// Waits until the next write is worthwhile if many calls are in flight.
    fn gather(&self, count: u64) {
        let mut queue = lock(&self.shared.queue);
        queue.log_due = self.last + count;
        queue.is_log_idle = true;
        let waited = self
            .shared
            .wake_log
            .wait_timeout_while(queue, PAUSE, |queue| !queue.is_log_due() && !queue.is_log_closing);
        queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        (queue.log_due, queue.is_log_idle) = (0, false);
    }

    /// Waits for changes or, after a failure, for a pause. Returns whether the engine is still
    /// running.
    fn wait(&self) -> bool {
        let shared = &self.shared;
        let mut queue = lock(&shared.queue);
        if self.unwritten.is_some() {
            let is_open = |queue: &mut ChangeQueue| !queue.is_log_closing;
            let paused = shared.wake_log.wait_timeout_while(queue, RETRY_EVERY, is_open);
            queue = paused.unwrap_or_else(PoisonError::into_inner).0;
            return !queue.is_log_closing;
        }
        while !queue.is_log_closing && !queue.has_unlogged() {
            queue.is_log_idle = true;
            queue = shared.wake_log.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.is_log_idle = false;
        !queue.is_log_closing
    }
}
