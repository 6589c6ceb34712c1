use super::*;
use crate::{
    Allowance,
    admission::{EventKind, Lease, task::ends},
    time::Millis,
};

fn leased(lease: Lease, slot_end: Timestamp, forget: Timestamp) -> Task {
    Task { lease, slot_end, forget, state: TaskState::Leased, is_disclosed: false, queued: None }
}

#[test]
fn forgotten_records_do_not_accumulate() {
    let mut pool = Pool::default();
    for second in 0..10_000u64 {
        let now = Timestamp(second * 1_000_000);
        let (expire, retention) = (now.after(Millis(500)), Millis::from_secs(60));
        let lease = Lease { token: now.0, grant: now, expire };
        let (slot_end, forget) = ends(expire, Millis(0), retention);
        pool.lapse(now);
        pool.reclaim(&Settings::default(), &mut Allowance::new(), now);
        pool.put(&second.to_be_bytes(), leased(lease, slot_end, forget), now);
    }
    assert!(pool.tasks.len() < 70, "{} records", pool.tasks.len());
    assert!(pool.leases.len() < 2, "{} leases", pool.leases.len());
}

#[test]
fn a_swept_pool_is_vacant() {
    let mut pool = Pool::default();
    let lease = Lease { token: 1, grant: Timestamp(1), expire: Timestamp(2) };
    for task in 0..10u8 {
        pool.put(&[task], leased(lease, Timestamp(3), Timestamp(10)), Timestamp(1));
    }
    pool.sweep(Timestamp(10), 100, &mut Bin::new());
    assert!(!pool.is_vacant(Timestamp(10)) && pool.in_use() == 0);
    assert_eq!(pool.tasks.len(), 10, "no event reports the ends yet");
    pool.reclaim(&Settings::default(), &mut Allowance::new(), Timestamp(10));
    let mut bin = Bin::new();
    pool.sweep(Timestamp(10), 4, &mut bin);
    assert_eq!((pool.tasks.len(), bin.len()), (6, 4), "the next sweep drops them");
    pool.sweep(Timestamp(10), 100, &mut Bin::new());
    let forgotten = Timestamp(10).after(crate::collections::KEPT);
    pool.sweep(forgotten, 100, &mut Bin::new());
    assert!(pool.is_vacant(forgotten));
}

#[test]
fn an_old_history_is_dropped_in_steps() {
    let (mut pool, settings) = (Pool::default(), Settings { history: 5000, ..Settings::default() });
    let member = Member::from(&b"d\x1ft"[..]);
    for time in 1..=1000 {
        let (kind, time) = (EventKind::Admitted, Timestamp(time));
        let (token, attempt, member) = (1, 0, member.clone());
        let event = Event { kind, token, attempt, outcome: None, capacity: None, time, member };
        pool.log(event, &settings);
    }
    let lapsed = Timestamp(1000).after(crate::collections::KEPT);
    for _ in 0..10 {
        assert!(!pool.is_vacant(lapsed));
        assert_eq!(pool.sweep(lapsed, 100, &mut Bin::new()), 100);
        assert!(pool.events.is_none(), "nothing reads it any more");
    }
    assert!(pool.is_vacant(lapsed));
}
#[test]
fn leases_that_end_together_are_counted_and_reclaimed_in_steps() {
    let mut pool = Pool::default();
    let (start, end) = (Timestamp(1), Timestamp(2));
    for task in 0..5000u64 {
        let lease = Lease { token: task, grant: start, expire: end };
        pool.put(&task.to_be_bytes(), leased(lease, end, Timestamp(3)), start);
    }
    // One of the tasks has a newer lease: the expiry of its first lease is still logged.
    pool.lapse(end);
    assert_eq!((pool.in_use(), pool.leases.len(), pool.ended.len()), (0, 5000, 0));
    let lease = Lease { token: 7000, grant: end, expire: Timestamp(9) };
    pool.put(&7u64.to_be_bytes(), leased(lease, Timestamp(9), NEVER), end);
    assert_eq!((pool.in_use(), pool.replaced.len()), (1, 1));
    for left in (0..50).rev() {
        assert!(pool.has_ended(end));
        assert_eq!(pool.reclaim(&Settings::default(), &mut Allowance::new(), end), left * 100);
    }
    assert!(!pool.has_ended(end) && pool.replaced.is_empty());
    assert_eq!((pool.in_use(), pool.ended.len()), (1, 4999));
}
