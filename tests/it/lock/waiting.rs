//! Calls that wait for a lock: their order, and the end of a wait.

use std::time::Duration;

use tokio::task::JoinHandle;
use tollgate_client::pb::{self, lock_service_client::LockServiceClient};
use tollgate_core::{
    lock::{AcquireLock, Acquisition, GetLock, HeartbeatLock, Lock},
    names::Name,
    time::Millis,
    waiting::{Heartbeat, Proceed, WaitingCall},
};
use tonic::{Request, transport::Channel};

use crate::support::{
    locks::{Keeper, acquire, granted, leased, refused, release, waiting},
    twins::{States, Twins},
    world::{Locks, World},
};

const PATIENCE: Duration = Duration::from_secs(30);

on_both_engines! {
    waiters_are_served_in_order,
    d20_a_waiter_whose_client_disconnected_is_skipped,
    d21_of_1000_waiters_one_is_served,
    an_expired_wait_is_answered_held,
    a_deadline_shorter_than_the_wait_is_kept,
    an_ended_lease_frees_the_lock_for_the_first_waiter,
    a_repeat_of_the_holder_does_not_wait,
}

/// Returns a call that waits up to 60 s.
pub fn wait(locks: &Keeper, name: &str, owner: &str) -> JoinHandle<pb::AcquireLockResponse> {
    let (locks, request) = (locks.clone(), waiting(60.0, acquire(name, owner)));
    tokio::spawn(async move { locks.ask(request).await })
}

async fn ended(call: JoinHandle<pb::AcquireLockResponse>) -> pb::AcquireLockResponse {
    tokio::time::timeout(PATIENCE, call).await.expect("the call is answered").unwrap()
}

async fn waiters_are_served_in_order(world: World) {
    let locks = Keeper::from_world(&world);
    let mut last = locks.acquired("l", "first").await;
    let mut calls = Vec::new();
    for turn in 0..20 {
        calls.push(wait(&locks, "l", &format!("o{turn}")));
        locks.waiters("l", turn + 1).await;
    }
    for call in calls {
        assert!(locks.released(release("l", &last.owner)).await);
        let next = granted(&ended(call).await);
        assert!(next.fencing_token > last.fencing_token);
        last = next;
    }
    assert_eq!((&*last.owner, locks.get("l").await.waiters), ("o19", 0));
}

async fn d20_a_waiter_whose_client_disconnected_is_skipped(world: World) {
    let locks = Keeper::from_world(&world);
    locks.acquired("l", "a").await;
    let gone = wait(&locks, "l", "b");
    locks.waiters("l", 1).await;
    let there = wait(&locks, "l", "c");
    locks.waiters("l", 2).await;
    gone.abort();
    locks.waiters("l", 1).await;
    assert!(locks.released(release("l", "a")).await);
    assert_eq!(granted(&ended(there).await).owner, "c");
}

async fn d21_of_1000_waiters_one_is_served(world: World) {
    let locks = Keeper::from_world(&world);
    locks.acquired("l", "first").await;
    let mut calls = tokio::task::JoinSet::new();
    for connection in 0..10 {
        let theirs = Keeper(Locks::connect(world.address.clone()).await.unwrap());
        for call in 0..100 {
            let call = wait(&theirs, "l", &format!("o{connection}-{call}"));
            calls.spawn(async move { call.await.unwrap() });
        }
    }
    locks.waiters("l", 1000).await;
    for left in (990..1000).rev() {
        let holder = locks.get("l").await.lease.unwrap().owner;
        assert!(locks.released(release("l", &holder)).await);
        let served = tokio::time::timeout(PATIENCE, calls.join_next()).await.unwrap();
        let served = granted(&served.unwrap().unwrap());
        let shown = locks.get("l").await;
        assert_eq!((shown.lease, shown.waiters), (Some(served), left));
    }
    calls.abort_all();
}

async fn an_expired_wait_is_answered_held(world: World) {
    let locks = Keeper::from_world(&world);
    locks.acquired("l", "a").await;
    let answer = locks.ask(waiting(0.2, acquire("l", "b"))).await;
    assert_eq!(refused(&answer), "a");
    assert_eq!(locks.get("l").await.waiters, 0, "an expired wait leaves the queue");
    assert!(locks.released(release("l", "a")).await);
    locks.acquired("l", "c").await;
}

async fn a_deadline_shorter_than_the_wait_is_kept(world: World) {
    let locks = Keeper::from_world(&world);
    locks.acquired("l", "a").await;
    let stub = LockServiceClient::new(
        Channel::from_shared(world.address.clone()).unwrap().connect().await.unwrap(),
    );
    let mut answers = Vec::new();
    // Several attempts, since a busy machine may miss a deadline.
    while answers.len() < 3 && !answers.last().is_some_and(Result::is_ok) {
        let mut request = Request::new(waiting(60.0, acquire("l", "b")));
        request.metadata_mut().insert("grpc-timeout", "3S".parse().unwrap());
        answers.push(stub.clone().acquire_lock(request).await);
    }
    let answer = answers.pop().unwrap().expect("every attempt missed its deadline");
    assert_eq!(refused(answer.get_ref()), "a");
    locks.waiters("l", 0).await;
}

async fn an_ended_lease_frees_the_lock_for_the_first_waiter(world: World) {
    let locks = Keeper::from_world(&world);
    granted(&locks.ask(leased(5.0, acquire("l", "silent"))).await);
    let first = wait(&locks, "l", "b");
    locks.waiters("l", 1).await;
    let second = wait(&locks, "l", "c");
    locks.waiters("l", 2).await;
    world.advance(Duration::from_secs(5)).await;
    let lease = granted(&ended(first).await);
    assert_eq!(lease.owner, "b");
    world.advance(Duration::from_secs(30)).await;
    assert!(granted(&ended(second).await).fencing_token > lease.fencing_token);
}

async fn a_repeat_of_the_holder_does_not_wait(world: World) {
    let locks = Keeper::from_world(&world);
    let lease = locks.acquired("l", "a").await;
    let other = wait(&locks, "l", "b");
    locks.waiters("l", 1).await;
    let again = locks.ask(waiting(60.0, acquire("l", "a"))).await;
    assert!(again.replayed);
    assert_eq!(granted(&again), lease);
    assert!(locks.released(release("l", "a")).await);
    ended(other).await;
}

/// AcquireLock for the lock `l`. `place` is a call number, a ticket and the channel of a server.
pub fn ask(owner: &str, waiting: Option<(u64, u64, &str)>) -> AcquireLock {
    let name = |text: &str| Name::parse(bytes::Bytes::copy_from_slice(text.as_bytes())).unwrap();
    let waiting = waiting.map(|(number, ticket, channel)| {
        let (wait, ticket_kept, keep) = (Millis(60_000), Millis(0), Millis(1500));
        WaitingCall { number, ticket, wait, ticket_kept, keep, channel: channel.into() }
    });
    let lease_duration = Millis::from_secs(30);
    AcquireLock { name: name("l"), owner: name(owner), lease_duration, waiting }
}

/// Returns the ticket of a call that has to wait.
pub fn ticket(outcome: &Acquisition) -> u64 {
    match outcome {
        Acquisition::Held { proceed: Proceed::Waits(ticket), .. } => *ticket,
        other => panic!("{other:?}"),
    }
}

/// A client has lost its connection, and calls again while its first call still waits.
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_with_two_waiting_calls_has_one_ticket() {
    let (twins, mut locks) = (Twins::new().await, States::<Lock>::new());
    let mut decide = async |decision: AcquireLock| twins.agree(&mut locks, &decision, "").await;
    decide(ask("a", None)).await;
    let first = ticket(&decide(ask("b", Some((1, 0, "s")))).await);
    ticket(&decide(ask("c", Some((2, 0, "s")))).await);
    assert_eq!(ticket(&decide(ask("b", Some((3, 0, "s")))).await), first);
    // The first call ends: the place belongs to the second call.
    let gone = Some((Box::from(&b"b"[..]), 1));
    let heartbeat = Heartbeat { channel: "s".into(), keep: Millis(60_000), gone };
    let name = ask("a", None).name;
    twins.agree(&mut locks, &HeartbeatLock { name: name.clone(), heartbeat }, "").await;
    let view = twins.agree(&mut locks, &GetLock { name }, "").await;
    assert_eq!(view.waiters, 2);
    twins.time.advance(30_000_000).await;
    let mut decide = async |decision: AcquireLock| twins.agree(&mut locks, &decision, "").await;
    let next = decide(ask("b", Some((3, first, "s")))).await;
    assert!(matches!(next, Acquisition::Acquired { .. }), "{next:?}");
}

/// A queue whose server falls silent and returns. Both executors must agree.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_does_not_wait_does_not_overtake() {
    let (twins, mut locks) = (Twins::new().await, States::<Lock>::new());
    let mut decide = async |decision: AcquireLock| twins.agree(&mut locks, &decision, "").await;
    assert!(matches!(decide(ask("a", None)).await, Acquisition::Acquired { .. }));
    let first = ticket(&decide(ask("b", Some((1, 0, "dead")))).await);
    let second = ticket(&decide(ask("c", Some((2, 0, "dead")))).await);
    assert!(first < second);
    // The holder's lease ends: the lock is free, but `b` is next, and no other call gets it. The
    // repeated call of `c` keeps the server of `b` and `c` known until then.
    twins.time.advance(29_000_000).await;
    decide(ask("c", Some((2, second, "dead")))).await;
    twins.time.advance(1_000_000).await;
    match decide(ask("d", None)).await {
        Acquisition::Held { holder, retry_after, proceed: Proceed::Refused } => {
            assert!(holder.is_empty() && retry_after > Millis(0));
        }
        other => panic!("{other:?}"),
    }
    // Then the server is silent until it no longer counts as alive.
    twins.time.advance(500_000).await;
    let next = decide(ask("e", Some((3, 0, "alive")))).await;
    assert!(matches!(next, Acquisition::Acquired { .. }), "{next:?}");
    // The server was only slow: with its old ticket, the call of `c` is ahead of later calls.
    let later = ticket(&decide(ask("f", Some((4, 0, "alive")))).await);
    let back = ticket(&decide(ask("c", Some((2, second, "dead")))).await);
    assert!(back == second && second < later);
}
