//! The queue of changes that wait for the journal thread.

use std::{mem, time::Duration};

use crate::decision::{persistence::Row, time::Timestamp};

/// The capacity of a buffer. Changes fill several buffers, since a growing buffer would be copied
/// as a whole, under the lock.
const ROW_BYTES: usize = 64 << 10;

/// The work of the journal thread.
#[derive(Debug, Default)]
pub(super) struct ChangeQueue {
    /// The queued changes, in order.
    rows: Vec<Row>,
    /// The number of queued changes.
    pub(super) count: usize,
    /// The bytes of queued changes.
    bytes: usize,
    /// The bytes of changes that are being written.
    writing_bytes: usize,
    /// The number of the last change.
    pub(super) ticket: u64,
    /// The time of the oldest queued change, by the source of the engine's clock.
    pub(super) since: Option<Timestamp>,
    /// The time of the oldest change that is being written.
    pub(super) writing_since: Option<Timestamp>,
    /// Whether the next write starts at once: a call waits for a new mark of the clock, or the
    /// sweeper waits for room.
    pub(super) is_write_due: bool,
    /// Whether the thread waits to be woken.
    pub(super) is_idle: bool,
    /// Whether the engine closes: the next write is the last.
    pub(super) is_closing: bool,
}

impl ChangeQueue {
    /// Appends the changes of a decision. Returns their number in the journal.
    pub(super) fn push(&mut self, changes: &Row, now: Timestamp) -> u64 {
        self.count += changes.len();
        self.bytes += changes.size();
        self.ticket += 1;
        match self.rows.last_mut() {
            Some(last) if last.size() + changes.size() <= last.capacity() => last.append(changes),
            _ => {
                let mut row = Row::with_capacity(changes.size().max(ROW_BYTES));
                row.append(changes);
                self.rows.push(row);
            }
        }
        self.since.get_or_insert(now);
        self.ticket
    }

    /// Takes all queued changes.
    pub(super) fn take(&mut self) -> Vec<Row> {
        self.count = 0;
        self.writing_bytes += mem::take(&mut self.bytes);
        let since = self.since.take();
        self.writing_since = self.writing_since.or(since);
        mem::take(&mut self.rows)
    }

    /// Records that the taken changes are synced.
    pub(super) fn note_synced(&mut self) {
        (self.writing_since, self.writing_bytes) = (None, 0);
    }

    /// The bytes of all changes that are not synced.
    pub(super) fn unsynced_bytes(&self) -> usize {
        self.bytes + self.writing_bytes
    }

    /// The bytes of queued changes, without those being written.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The age of the oldest change that is not synced.
    pub(super) fn age(&self, now: Timestamp) -> Duration {
        let since = self.writing_since.or(self.since).unwrap_or(now);
        Duration::from_micros(now.0.saturating_sub(since.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::persistence::{Change, Changes};

    #[test]
    fn what_fills_many_rows_comes_out_in_its_order() {
        let mut queue = ChangeQueue::default();
        let long = vec![1; 3 * ROW_BYTES];
        let mut changes = Changes::default();
        for number in 0..5000u64 {
            changes.forget();
            changes.put(&[&number.to_be_bytes()], &"some value");
            if number == 3000 {
                changes.head(&long);
            }
            assert_eq!(queue.push(changes.row(), Timestamp(number)), number + 1);
        }
        assert_eq!(queue.count, 5001);
        let bytes = queue.unsynced_bytes();
        let rows = queue.take();
        assert_eq!((queue.bytes(), queue.unsynced_bytes()), (0, bytes), "they are being written");
        assert_eq!(rows.iter().map(Row::size).sum::<usize>(), bytes);
        queue.note_synced();
        assert_eq!(queue.unsynced_bytes(), 0);
        assert!((3..10).contains(&rows.len()), "{} rows", rows.len());
        assert!(rows.iter().all(|row| row.capacity() <= 4 * ROW_BYTES));
        let mut next = 0u64;
        for change in rows.iter().flat_map(Row::iter) {
            match change {
                Change::Put(b"", value) => assert_eq!((value, next), (&long[..], 3001)),
                Change::Put(key, _) => {
                    assert_eq!(key, next.to_be_bytes());
                    next += 1;
                }
                other => unreachable!("{other:?}"),
            }
        }
        assert_eq!(next, 5000);
        assert_eq!((queue.count, queue.take().len()), (0, 0));
    }
}
