//! H14: ten leases lapse within milliseconds of each other while 20 calls wait.
//!
//! Grants and ends are read from the engine's clock. They show the delay of the server, however
//! busy the test machine is.

use bytes::Bytes;
use tollgate_core::{
    admission::{AdmitTask, HeartbeatPool, Overrides, Pool},
    lock::{AcquireLock, Lock},
    names::Name,
    time::Millis,
    waiting::{Heartbeat, WaitingCall},
};

use super::{super::bystander::Bystander, *};
use crate::{
    lock::waiting::ask,
    support::twins::{States, Twins},
};

const SLOTS: usize = 10;
/// Length of the first leases, in seconds. All waiting calls arrive within it.
const LEASE: f64 = 3.0;
/// Bound on the median delay of the waiters, in µs, on a busy machine. A server that waits for its
/// next heartbeat is 300 ms late.
const LATE_MAX: u64 = 150_000;
/// Attempts, in case the machine stalls.
const ROUNDS: usize = 3;

#[tokio::test(flavor = "multi_thread")]
async fn h14_waiters_get_slots_as_they_end_embedded() {
    let (_, site) = Site::one(false).await;
    are_in_time(&[&site]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h14_waiters_get_slots_as_they_end_redis() {
    let (_redis, site) = Site::one(true).await;
    are_in_time(&[&site]).await;
}

/// No wake-up arrives: the servers may not subscribe, and their scripts may not publish.
#[tokio::test(flavor = "multi_thread")]
async fn h14_waiters_of_two_servers_get_slots_as_they_end_without_wake_ups() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let user = ["ACL", "SETUSER", "deaf", "on", ">secret", "~*", "+@all", "resetchannels"];
    redis.command(&user).await.unwrap();
    let url = format!("redis://deaf:secret@127.0.0.1:{}", redis.port);
    let (one, other) = (Site::on(&url, "").await, Site::on(&url, "").await);
    are_in_time(&[&one, &other]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h14_waiters_of_two_servers_get_slots_as_they_end() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let (one, other) = (Site::on(&redis.url(), "").await, Site::on(&redis.url(), "").await);
    are_in_time(&[&one, &other]).await;
}

async fn are_in_time(sites: &[&Site]) {
    let bystander = Bystander::start(&sites[0].server.address()).await;
    for kind in [Kind::Pool, Kind::Lock] {
        let mut late = Vec::new();
        for round in 0..ROUNDS {
            late = match kind {
                Kind::Pool => slots_that_end_together(sites, &format!("p{round}")).await,
                Kind::Lock => locks_that_end_together(sites, &format!("l{round}")).await,
            };
            late.sort();
            eprintln!("{kind:?}: late by {late:?} µs");
            if late[late.len() / 2] < LATE_MAX {
                break;
            }
        }
        assert!(late[late.len() / 2] < LATE_MAX, "{kind:?}: {late:?} µs");
    }
    bystander.finish().await;
}

/// Returns the delay of each of the first ten waiters, in µs.
async fn slots_that_end_together(sites: &[&Site], pool: &str) -> Vec<u64> {
    sites[0].set_capacity(pool, SLOTS as u32).await;
    let mut ends = Vec::new();
    for holder in 0..SLOTS {
        let lease = LEASE + 0.01 * holder as f64;
        ends.push(sites[0].hold(Kind::Pool, pool, &format!("holder{holder}"), lease).await.until);
    }
    ends.sort();
    let mut calls = Vec::new();
    for turn in 0..2 * SLOTS {
        let site = sites[turn % sites.len()];
        calls.push(site.ask(Kind::Pool, pool, &format!("d{turn}"), 60.0, 60.0));
        site.wait_for_waiters(Kind::Pool, pool, turn as u32 + 1).await;
    }
    let rest = calls.split_off(SLOTS);
    let mut grants = Vec::new();
    for call in calls {
        grants.push(granted(call).await.from);
    }
    // The waiters that came first were admitted, and none of the others.
    assert_eq!(sites[0].waiters(Kind::Pool, pool).await, SLOTS as u32);
    for call in rest {
        assert!(!call.is_finished());
        call.abort();
    }
    grants.sort();
    grants
        .iter()
        .zip(ends)
        .map(|(grant, end)| grant.checked_sub(end).expect("no overlap"))
        .collect()
}

/// Does the same with ten locks and two waiters each.
async fn locks_that_end_together(sites: &[&Site], prefix: &str) -> Vec<u64> {
    let (mut holders, mut calls) = (Vec::new(), Vec::new());
    for lock in 0..SLOTS {
        let name = format!("{prefix}-{lock}");
        holders.push(sites[0].hold(Kind::Lock, &name, "holder", LEASE).await);
        for waiter in 0..2 {
            let site = sites[(lock + waiter) % sites.len()];
            calls.push(site.ask(Kind::Lock, &name, &format!("o{waiter}"), 60.0, 60.0));
            site.wait_for_waiters(Kind::Lock, &name, waiter as u32 + 1).await;
        }
    }
    let mut late = Vec::new();
    for (lock, call) in calls.into_iter().enumerate() {
        if lock % 2 == 1 {
            assert!(!call.is_finished());
            call.abort();
            continue;
        }
        let grant = granted(call).await;
        late.push(grant.from.checked_sub(holders[lock / 2].until).expect("no overlap"));
    }
    late
}

fn name(text: &str) -> Name {
    Name::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

/// A lease of at most 400 ms ends before the next heartbeat of a server. A wake-up reports its end
/// to the server of the first waiter.
#[tokio::test(flavor = "multi_thread")]
async fn h14_the_first_waiter_is_woken_for_a_short_lease() {
    for (lease, told) in [(400, 1), (401, 0)] {
        let channel = format!("test:{:016x}", rand::random::<u64>());
        let mut twins = Twins::listening(std::slice::from_ref(&channel)).await;
        let (mut pools, mut locks) = (States::<Pool>::new(), States::<Lock>::new());
        let mut both = async |who: &str, lease: u64, number: Option<u64>| {
            let lock = ask(who, number.map(|number| (number, 0, &*channel)));
            let lock = AcquireLock { lease_duration: Millis(lease), ..lock };
            let pool = crate::admission::waiting::ask(who, false, false);
            let lease_duration = Some(Millis(lease));
            let pool = AdmitTask { lease_duration, waiting: lock.waiting.clone(), ..pool };
            twins.agree(&mut pools, &pool, "").await;
            twins.agree(&mut locks, &lock, "").await;
        };
        both("holder", 1000, None).await;
        both("first", lease, Some(1)).await;
        both("next", lease, Some(2)).await;
        twins.time.advance(1_000_000).await;
        both("first", lease, Some(1)).await;
        assert_eq!(twins.agree_on_wake_ups("").await, 2 * told, "{lease} ms");
    }
}

/// A heartbeat reports the next end even while slots are free.
#[tokio::test(flavor = "multi_thread")]
async fn h14_a_heartbeat_reports_the_next_end_while_slots_are_free() {
    let (twins, mut pools) = (Twins::new().await, States::<Pool>::new());
    let settings = crate::admission::waiting::ask("d", false, false).settings;
    let settings = tollgate_core::admission::Settings { capacity: 3, ..settings };
    let ask = |device: &str, lease: u64, waiting: Option<WaitingCall>| AdmitTask {
        pool: name("p"),
        device: name(device),
        task: Some(name("t")),
        lease_duration: Some(Millis(lease)),
        settings,
        waiting,
    };
    for (device, lease) in [("a", 1000), ("b", 1004), ("c", 1009)] {
        assert!(twins.agree(&mut pools, &ask(device, lease, None), "").await.is_granted());
    }
    for number in 1..=5 {
        let (ticket, wait, keep) = (0, Millis(60_000), Millis(60_000));
        let channel = "s".into();
        let waiting = WaitingCall { number, ticket, wait, ticket_kept: Millis(0), keep, channel };
        let waits = ask(&format!("w{number}"), 60_000, Some(waiting));
        assert!(!twins.agree(&mut pools, &waits, "").await.is_granted());
    }
    let heartbeat = Heartbeat { channel: "s".into(), keep: Millis(60_000), gone: None };
    let heartbeat = HeartbeatPool { pool: name("p"), settings, heartbeat };
    let mut answers = Vec::new();
    for step in [0, 1000, 4, 5, 1] {
        twins.time.advance(step * 1000).await;
        let seen = twins.agree(&mut pools, &heartbeat, "").await;
        answers.push((seen.frees_in.map(|in_| in_.0), seen.proceeding.len()));
    }
    // No call took a freed slot: all three slots are free, and no lease is running.
    let expected = [(Some(1000), 0), (Some(4), 1), (Some(5), 2), (None, 3), (None, 3)];
    assert_eq!(answers, expected);
    // With more leases than slots, the reported end is the first one that frees a slot.
    for number in 1..=3 {
        let waiting = None;
        let mut taken = ask(&format!("w{number}"), 1000 * number, waiting);
        taken.settings.barging = true;
        assert!(twins.agree(&mut pools, &taken, "").await.is_granted());
    }
    let overrides = Overrides { capacity: Some(2), ..Overrides::default() };
    let lower = tollgate_core::admission::ConfigurePool {
        pool: name("p"),
        overrides,
        reset: false,
        settings,
    };
    twins.agree(&mut pools, &lower, "").await;
    let seen = twins.agree(&mut pools, &heartbeat, "").await;
    assert_eq!((seen.frees_in, seen.proceeding.len()), (Some(Millis(2000)), 0));
}
