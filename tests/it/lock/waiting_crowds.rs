//! More waiters than one step handles. Both executors must agree.

use tollgate_core::{
    admission::{AdmitTask, ConfigurePool, Overrides, Pool},
    lock::{AcquireLock, Acquisition, GetLock, HeartbeatLock, Lock, ReleaseLock},
    time::Millis,
    waiting::{Heartbeat, Proceed, Waits},
};

use crate::{
    admission::waiting::ask as ask_pool,
    lock::waiting::{ask, ticket},
    support::twins::{States, Twins},
};

#[tokio::test(flavor = "multi_thread")]
async fn d21_one_release_wakes_one_of_1000_waiters() {
    let channel = format!("test:{:016x}", rand::random::<u64>());
    let mut twins = Twins::listening(std::slice::from_ref(&channel)).await;
    let mut locks = States::<Lock>::new();
    twins.agree(&mut locks, &ask("a", None), "").await;
    for number in 1..=1000 {
        let owner = format!("o{number}");
        ticket(&twins.agree(&mut locks, &ask(&owner, Some((number, 0, &channel))), "").await);
    }
    assert_eq!(twins.agree_on_wake_ups("").await, 0);
    let AcquireLock { name, owner, .. } = ask("a", None);
    twins.agree(&mut locks, &ReleaseLock { name, owner, token: None }, "").await;
    assert_eq!(twins.agree_on_wake_ups("").await, 1);
}

/// More waiters than one step wakes: each waiter that is served wakes further ones.
#[tokio::test(flavor = "multi_thread")]
async fn many_free_slots_reach_all_waiters() {
    let channel = format!("test:{:016x}", rand::random::<u64>());
    let mut twins = Twins::listening(std::slice::from_ref(&channel)).await;
    let mut pools = States::<Pool>::new();
    let device = |number: u64, ticket: u64| {
        let mut decision = ask_pool(&format!("d{number}"), false, true);
        let waiting = decision.waiting.as_mut().unwrap();
        (waiting.number, waiting.ticket, waiting.channel) =
            (number, ticket, channel.as_str().into());
        decision
    };
    assert!(twins.agree(&mut pools, &ask_pool("holder", false, false), "").await.is_granted());
    let mut tickets = Vec::new();
    for number in 0..300 {
        let outcome = twins.agree(&mut pools, &device(number, 0), "").await;
        let Proceed::Waits(ticket) = AdmitTask::proceed(&outcome) else { panic!("{outcome:?}") };
        tickets.push(ticket);
    }
    let AdmitTask { pool, settings, .. } = ask_pool("holder", false, false);
    let overrides = Overrides { capacity: Some(301), ..Overrides::default() };
    let raise = ConfigurePool { pool, overrides, reset: false, settings };
    twins.agree(&mut pools, &raise, "").await;
    let mut told = twins.agree_on_wake_ups("").await;
    assert_eq!(told, 100);
    for (number, ticket) in tickets.into_iter().enumerate() {
        assert!(told > number, "{number} was told");
        let outcome = twins.agree(&mut pools, &device(number as u64, ticket), "").await;
        assert!(outcome.is_granted());
        told += twins.agree_on_wake_ups("").await;
    }
    assert_eq!(told, 300);
}

/// Returns a lock whose lease has ended, and 1,200 waiters of a dead server.
async fn dead_crowd() -> (Twins, States<Lock>) {
    let (twins, mut locks) = (Twins::new().await, States::<Lock>::new());
    twins.agree(&mut locks, &ask("a", None), "").await;
    for number in 1..=1200 {
        let waiting = Some((number, 0, "dead"));
        ticket(&twins.agree(&mut locks, &ask(&format!("o{number}"), waiting), "").await);
    }
    twins.time.advance(30_000_000).await;
    (twins, locks)
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_of_a_dead_server_do_not_refuse_other_calls() {
    let (twins, mut locks) = dead_crowd().await;
    for _ in 0..2 {
        // The server must repeat the decision immediately.
        let outcome = twins.agree(&mut locks, &ask("b", None), "").await;
        assert_eq!(AcquireLock::proceed(&outcome), Proceed::Again, "{outcome:?}");
    }
    let outcome = twins.agree(&mut locks, &ask("b", None), "").await;
    assert!(matches!(outcome, Acquisition::Acquired { .. }), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_of_a_dead_server_delay_no_other_waiter() {
    let (twins, mut locks) = dead_crowd().await;
    let alive = ask("b", Some((1, 0, "alive")));
    let ticket = ticket(&twins.agree(&mut locks, &alive, "").await);
    let heartbeat = Heartbeat { channel: "alive".into(), keep: Millis(1500), gone: None };
    let heartbeat = HeartbeatLock { name: ask("a", None).name, heartbeat };
    // The call and the first heartbeat have removed 500 places each, and more may have lapsed.
    let answer = twins.agree(&mut locks, &heartbeat, "").await;
    assert_eq!((answer.frees_in, &*answer.proceeding), (Some(Millis(1)), &[][..]));
    let answer = twins.agree(&mut locks, &heartbeat, "").await;
    assert_eq!((answer.frees_in, answer.proceeding.len()), (None, 1));
    let outcome = twins.agree(&mut locks, &ask("b", Some((1, ticket, "alive"))), "").await;
    assert!(matches!(outcome, Acquisition::Acquired { .. }), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_of_a_dead_server_soon_stop_counting() {
    let (twins, mut locks) = dead_crowd().await;
    let get = GetLock { name: ask("a", None).name };
    for left in [700, 200, 0] {
        assert_eq!(twins.agree(&mut locks, &get, "").await.waiters, left);
    }
}
