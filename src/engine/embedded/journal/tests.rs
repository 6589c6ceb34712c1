#![allow(clippy::unwrap_used, reason = "tests")]

use super::{
    super::{Disk, Embedded},
    *,
};
use crate::decision::time::Clock;

#[test]
fn a_call_that_finds_too_many_changes_in_line_is_refused_and_counted() {
    let folder = std::env::temp_dir().join(format!("tollgate-journal-{}", std::process::id()));
    let (disk, clock) = (Disk::directory(&folder).unwrap(), Clock::Stepped(Arc::default()));
    let opened = Embedded::open_unwritten(clock, disk, Durability::Always, 7);
    let (engine, _writer) = opened.unwrap();
    let journal = engine.journal().unwrap();
    assert_eq!(journal.admit(), Ok(()));
    lock(&journal.shared.queue).count = MOST;
    let before = budget::count(Limit::Overload);
    assert_eq!(journal.admit(), Err(Error::Overloaded));
    assert!(budget::count(Limit::Overload) > before);
    lock(&journal.shared.queue).count = 0;
    drop(engine);
    std::fs::remove_dir_all(folder).unwrap();
}
