#![allow(clippy::unwrap_used, reason = "tests")]

use std::{env::temp_dir, fs, process};

use super::{
    super::{Disk, Embedded},
    *,
};
use tollgate_core::{
    record::Changes,
    time::{Clock, Timestamp},
};

#[test]
fn a_call_that_finds_too_many_queued_changes_is_refused_and_counted() {
    let folder = temp_dir().join(format!("tollgate-journal-{}", process::id()));
    let (disk, clock) = (Disk::directory(&folder).unwrap(), Clock::Stepped(Arc::default()));
    let opened = Embedded::open_unwritten(clock, disk, Durability::Always, 7);
    let (engine, _writer) = opened.unwrap();
    let engine = engine.with_limits(&CallerLimits { unsynced_changes: 8, ..CallerLimits::DEFAULT });
    let journal = engine.journal().unwrap();
    assert_eq!(journal.admit(), Ok(()));
    lock(&journal.shared.queue).count = 7;
    assert_eq!(journal.admit(), Ok(()));
    lock(&journal.shared.queue).count = 8;
    let before = ReachedLimit::Overload.times();
    assert_eq!(journal.admit(), Err(Error::Overloaded));
    assert!(ReachedLimit::Overload.times() > before);
    lock(&journal.shared.queue).count = 0;
    drop(engine);
    fs::remove_dir_all(folder).unwrap();
}

/// Changes that are gathered early count with their size in the batch, and are written later.
#[test]
fn gathered_changes_are_written_once_and_count_with_their_size_in_the_batch() {
    let folder = temp_dir().join(format!("tollgate-gather-{}", process::id()));
    let store = FileStore::open(Disk::directory(&folder).unwrap()).unwrap();
    let source = Clock::Stepped(Arc::default());
    let durability = Durability::Interval;
    let clock = Arc::new(KeptClock::resume(source, None, durability.keeps()));
    let (journal, mut writer) = Journal::new(store, clock, durability);
    for number in 0..10_000_u64 {
        let mut changes = Changes::default();
        changes.insert(&[b"e", &number.to_be_bytes()], &number);
        changes.put(&[b"last"], &number);
        if number > 0 {
            changes.remove(&[b"e", &(number - 1).to_be_bytes()]);
        }
        journal.push(changes.row());
        writer.log();
    }
    let raw = lock(&journal.shared.queue).unsynced_bytes();
    writer.gather();
    let left = lock(&journal.shared.queue).unsynced_bytes();
    assert!(left < 100 && raw > 100_000, "{left} of {raw}");
    assert_eq!(writer.batch.len(), 2);
    assert!(writer.write() && lock(&journal.shared.queue).unsynced_bytes() == 0);
    assert_eq!(writer.store.last(), 10_000);
    drop((journal, writer));
    fs::remove_dir_all(folder).unwrap();
}

/// If the sweeper finds no room, the next write starts immediately.
#[test]
fn a_write_starts_immediately_when_the_sweeper_has_no_room() {
    for durability in [Durability::Always, Durability::Interval, Durability::None] {
        let folder = temp_dir().join(format!("tollgate-room-{durability:?}-{}", process::id()));
        let store = FileStore::open(Disk::directory(&folder).unwrap()).unwrap();
        let source = Clock::Stepped(Arc::default());
        let clock = Arc::new(KeptClock::resume(source, None, durability.keeps()));
        let (journal, mut writer) = Journal::new(store, clock.clone(), durability);
        let mut changes = Changes::default();
        changes.remove(&[b"none"]);
        let is_due = || lock(&journal.shared.queue).is_write_due();
        while journal.has_room() {
            assert!(!is_due());
            journal.push(changes.row());
        }
        // Under `interval`, redb receives them through the log.
        writer.log();
        assert!(is_due());
        writer.write();
        assert!(!is_due() && journal.has_room());
        assert_eq!(clock.now(), Timestamp(0), "no time has passed");

        // A small limit on changes leaves room for a quarter of them.
        journal.set_limits(&CallerLimits { unsynced_changes: 40, ..CallerLimits::DEFAULT });
        for _ in 0..10 {
            assert!(journal.has_room());
            journal.push(changes.row());
        }
        assert!(!journal.has_room());
        drop((journal, writer));
        fs::remove_dir_all(&folder).unwrap();
    }
}
