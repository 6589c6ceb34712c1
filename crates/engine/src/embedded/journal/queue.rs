//! The queue of changes that wait for the threads of the journal.

use std::{mem, time::Duration};

use tollgate_core::{record::Row, time::Timestamp};

/// The capacity of a buffer. Changes fill several buffers, since a growing buffer would be copied
/// as a whole under the lock.
const ROW_BYTES: usize = 64 << 10;

/// Changes in order.
#[derive(Debug, Default)]
pub(super) struct QueuedRows {
    pub(super) rows: Vec<Row>,
    /// The number of changes.
    pub(super) count: usize,
    pub(super) bytes: usize,
}

impl QueuedRows {
    fn push(&mut self, changes: &Row) {
        self.count += changes.len();
        self.bytes += changes.size();
        match self.rows.last_mut() {
            Some(last) if last.size() + changes.size() <= last.capacity() => last.append(changes),
            _ => {
                let mut row = Row::with_capacity(changes.size().max(ROW_BYTES));
                row.append(changes);
                self.rows.push(row);
            }
        }
    }

    fn append(&mut self, mut later: QueuedRows) {
        self.rows.append(&mut later.rows);
        self.count += later.count;
        self.bytes += later.bytes;
    }
}

/// The work of the journal's threads.
#[derive(Debug, Default)]
pub(super) struct ChangeQueue {
    /// Whether changes are logged before they are passed to redb.
    pub(super) is_logged: bool,
    /// The changes that are not logged yet.
    unlogged: QueuedRows,
    /// The changes for redb.
    ready: QueuedRows,
    /// The number of queued changes.
    pub(super) count: usize,
    /// The bytes of queued changes.
    bytes: usize,
    /// The bytes of changes that are being written to redb.
    writing_bytes: usize,
    /// The number of the last change.
    ticket: u64,
    /// The number of the last change that was passed to redb, or that is ready for it.
    ready_ticket: u64,
    /// The time of the oldest queued change, by the source of the engine's clock.
    since: Option<Timestamp>,
    /// The time of the oldest change that is being written.
    writing_since: Option<Timestamp>,
    /// redb writes as soon as it has the changes up to the first number, because a call waits for a
    /// reservation or the sweeper for room, and once more for the changes up to the second number,
    /// for calls that came later.
    write_due: Option<[u64; 2]>,
    /// Whether the thread of redb waits to be woken.
    pub(super) is_idle: bool,
    /// Whether the thread of the log waits to be woken.
    pub(super) is_log_idle: bool,
    /// The number of the change that wakes it, or a later one.
    pub(super) log_due: u64,
    /// Whether the engine is closing, so that the next record of the log is the last.
    pub(super) is_log_closing: bool,
    /// Whether the engine is closing, so that the next write is the last.
    pub(super) is_closing: bool,
}

impl ChangeQueue {
    /// Creates a queue whose numbers continue after `last`.
    pub(super) fn after(last: u64, is_logged: bool) -> ChangeQueue {
        ChangeQueue { is_logged, ticket: last, ready_ticket: last, ..ChangeQueue::default() }
    }

    /// Appends the changes of a decision. Returns their number in the journal.
    pub(super) fn push(&mut self, changes: &Row, now: Timestamp) -> u64 {
        self.count += changes.len();
        self.bytes += changes.size();
        self.ticket += 1;
        if self.is_logged {
            self.unlogged.push(changes)
        } else {
            self.ready.push(changes);
            self.ready_ticket = self.ticket;
        }
        self.since.get_or_insert(now);
        self.ticket
    }

    /// Whether the thread of the log must be woken if it is waiting.
    pub(super) fn is_log_due(&self) -> bool {
        self.ticket >= self.log_due
    }

    /// Whether changes wait for the log.
    pub(super) fn has_unlogged(&self) -> bool {
        !self.unlogged.rows.is_empty()
    }

    /// Removes and returns all changes that are not logged yet, with the number of the last one.
    pub(super) fn take_unlogged(&mut self) -> (QueuedRows, u64) {
        (mem::take(&mut self.unlogged), self.ticket)
    }

    /// Makes logged changes ready for redb.
    pub(super) fn record_logged(&mut self, logged: QueuedRows, ticket: u64) {
        self.ready.append(logged);
        self.ready_ticket = ticket;
    }

    /// Makes redb write as soon as it has all changes that are queued now.
    pub(super) fn ask_for_write(&mut self) {
        let [first, _] = self.write_due.unwrap_or([self.ticket; 2]);
        self.write_due = Some([first, self.ticket]);
    }

    /// Whether redb must write now, since it has the changes that a call waits for.
    pub(super) fn is_write_due(&self) -> bool {
        self.write_due.is_some_and(|[first, _]| first <= self.ready_ticket)
    }

    /// Removes and returns all changes for redb, with the number of the last one.
    pub(super) fn take(&mut self, now: Timestamp) -> (Vec<Row>, u64) {
        let open = self.write_due.filter(|[_, last]| *last > self.ready_ticket);
        self.write_due = open.map(|[_, last]| [last; 2]);
        (self.gather(now), self.ready_ticket)
    }

    /// Removes and returns all changes for redb, for a batch that is written later.
    pub(super) fn gather(&mut self, now: Timestamp) -> Vec<Row> {
        let taken = mem::take(&mut self.ready);
        if !taken.rows.is_empty() {
            self.count -= taken.count;
            self.bytes -= taken.bytes;
            self.writing_bytes += taken.bytes;
            let since = self.since.take();
            self.writing_since = self.writing_since.or(since);
            // The others were queued a moment ago.
            self.since = (self.count > 0).then_some(now);
        }
        taken.rows
    }

    /// Sets the size of the batch that contains the removed changes: it can be smaller, because
    /// later changes replace earlier ones.
    pub(super) fn record_batch(&mut self, bytes: usize) {
        self.writing_bytes = bytes;
    }

    /// Records that the removed changes are synced.
    pub(super) fn record_synced(&mut self) {
        (self.writing_since, self.writing_bytes) = (None, 0);
    }

    /// Returns the bytes of all changes that are not synced.
    pub(super) fn unsynced_bytes(&self) -> usize {
        self.bytes + self.writing_bytes
    }

    /// Returns the bytes of queued changes, without the batch that redb is writing.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number and the bytes of the changes for redb.
    pub(super) fn ready(&self) -> [usize; 2] {
        [self.ready.count, self.ready.bytes]
    }

    /// Returns the age of the oldest change that is not synced.
    pub(super) fn age(&self, now: Timestamp) -> Duration {
        let since = self.writing_since.or(self.since).unwrap_or(now);
        Duration::from_micros(now.0.saturating_sub(since.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_core::record::{Change, Changes};

    #[test]
    fn changes_that_fill_many_rows_are_drained_in_order() {
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
        let (rows, last) = queue.take(Timestamp(5000));
        assert_eq!((last, queue.ready()), (5000, [0, 0]));
        assert_eq!(queue.unsynced_bytes(), bytes, "they are being written");
        assert_eq!(rows.iter().map(Row::size).sum::<usize>(), bytes);
        queue.record_synced();
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
        assert_eq!((queue.count, queue.take(Timestamp(0)).0.len()), (0, 0));
    }

    /// Calls that come later must not delay the write that the first one waits for.
    #[test]
    fn a_write_is_due_for_the_first_and_for_the_last_call_that_asks() {
        let mut queue = ChangeQueue::after(0, true);
        let mut changes = Changes::default();
        changes.put(&[b"a"], &1u8);
        let ask = |queue: &mut ChangeQueue| {
            queue.push(changes.row(), Timestamp(1));
            queue.ask_for_write();
        };
        ask(&mut queue);
        let (logged, last) = queue.take_unlogged();
        ask(&mut queue);
        assert!(!queue.is_write_due());
        queue.record_logged(logged, last);
        assert!(queue.is_write_due());
        queue.take(Timestamp(2));
        assert!(!queue.is_write_due(), "the second change is not logged");
        let (logged, last) = queue.take_unlogged();
        queue.record_logged(logged, last);
        assert!(queue.is_write_due());
        queue.take(Timestamp(3));
        assert!(!queue.is_write_due());
    }

    #[test]
    fn redb_gets_only_changes_that_are_logged() {
        let mut queue = ChangeQueue::after(7, true);
        let mut changes = Changes::default();
        changes.put(&[b"a"], &1u8);
        assert_eq!(queue.push(changes.row(), Timestamp(10)), 8);
        let (rows, last) = queue.take(Timestamp(11));
        assert_eq!((rows.len(), last), (0, 7));
        let (logged, last) = queue.take_unlogged();
        assert_eq!((logged.count, last, queue.has_unlogged()), (1, 8, false));
        assert_eq!(queue.push(changes.row(), Timestamp(20)), 9);
        queue.record_logged(logged, last);
        assert_eq!(queue.age(Timestamp(20)), Duration::from_micros(10));
        let (rows, last) = queue.take(Timestamp(25));
        assert_eq!((rows.len(), last), (1, 8));
        queue.record_synced();
        assert_eq!(queue.age(Timestamp(30)), Duration::from_micros(5), "of change 9");
    }
}
