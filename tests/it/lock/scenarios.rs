//! Scenarios D of locks, and other answers of the lock contract.

use std::time::Duration;

use tollgate_client::pb;

use crate::support::{
    locks::{Keeper, acquire, granted, leased, refused, release, renew},
    world::{World, micros, seconds},
};

on_both_engines! {
    d1_a_release_frees_the_lock,
    d3_a_late_release_frees_no_lock_of_the_next_holder,
    d5_owners_of_the_same_instant_have_different_tokens,
    d6_only_the_engines_clock_counts,
    d8_a_call_without_wait_tries_once,
    d9_a_stalled_holder_has_the_smaller_token,
    a_repeated_acquire_gets_the_same_lease,
    a_repeated_release_gets_the_first_answer,
    a_renewal_counts_from_now_and_keeps_its_length,
    a_lease_that_ended_is_not_renewed,
    a_stale_token_neither_renews_nor_releases,
    a_lock_shows_its_holder,
    tokens_grow_while_the_clock_is_set_back,
    locks_of_different_names_share_no_state,
}

async fn d1_a_release_frees_the_lock(world: World) {
    let locks = Keeper::from_world(&world);
    let first = locks.acquired("l", "a").await;
    assert_eq!(locks.held("l", "b").await, "a");
    let by_token =
        pb::ReleaseLockRequest { fencing_token: Some(first.fencing_token), ..release("l", "a") };
    assert!(locks.released(by_token).await);
    let second = locks.acquired("l", "b").await;
    assert!(second.fencing_token > first.fencing_token);
    assert!(locks.released(release("l", "b")).await, "without a token, too");
    locks.acquired("l", "c").await;
}

async fn d3_a_late_release_frees_no_lock_of_the_next_holder(world: World) {
    let locks = Keeper::from_world(&world);
    let late = granted(&locks.ask(leased(5.0, acquire("l", "a"))).await);
    world.advance(Duration::from_secs(5)).await;
    // The lease of `a` has ended, and the lock is free.
    assert!(!locks.released(release("l", "a")).await);
    let next = locks.acquired("l", "b").await;
    let by_token =
        pb::ReleaseLockRequest { fencing_token: Some(late.fencing_token), ..release("l", "a") };
    assert!(!locks.released(by_token).await);
    assert!(!locks.released(release("l", "a")).await);
    assert_eq!(locks.get("l").await.lease, Some(next));
}

async fn d5_owners_of_the_same_instant_have_different_tokens(world: World) {
    // Stepped time stands still: all leases are granted in the same microsecond.
    let locks = Keeper::from_world(&world);
    let mut last = 0;
    for turn in 0..50 {
        let owner = format!("o{turn}");
        let lease = locks.acquired("l", &owner).await;
        assert!(lease.fencing_token > last);
        last = lease.fencing_token;
        assert!(!locks.released(release("l", &format!("o{}", turn + 1))).await);
        assert!(locks.released(release("l", &owner)).await);
    }
}

async fn d6_only_the_engines_clock_counts(world: World) {
    // No request carries a time, so the clock of a contender cannot matter. The lease ends exactly
    // at its end on the engine's clock.
    let locks = Keeper::from_world(&world);
    let lease = granted(&locks.ask(leased(11.0, acquire("l", "a"))).await);
    let (grant, expire) = (micros(lease.grant_time), micros(lease.expire_time));
    assert_eq!(expire - grant, 11_000_000);
    world.advance(Duration::from_micros(10_999_999)).await;
    let answer = locks.ask(acquire("l", "b")).await;
    assert_eq!(refused(&answer), "a");
    assert_eq!(answer.retry_after, Some(seconds(0.001)), "rounded up, never 0");
    world.advance(Duration::from_micros(1)).await;
    locks.acquired("l", "b").await;
}

async fn d8_a_call_without_wait_tries_once(world: World) {
    let locks = Keeper::from_world(&world);
    let at_once = pb::AcquireLockRequest { max_wait: Some(seconds(0.0)), ..acquire("l", "a") };
    granted(&locks.ask(at_once).await);
    let at_once = pb::AcquireLockRequest { max_wait: Some(seconds(0.0)), ..acquire("l", "b") };
    assert_eq!(refused(&locks.ask(at_once).await), "a");
    assert_eq!(locks.get("l").await.waiters, 0);
}

async fn d9_a_stalled_holder_has_the_smaller_token(world: World) {
    let locks = Keeper::from_world(&world);
    let stalled = granted(&locks.ask(leased(1.0, acquire("l", "a"))).await);
    world.advance(Duration::from_secs(1)).await;
    let next = locks.acquired("l", "b").await;
    assert!(next.fencing_token > stalled.fencing_token);
    // The stalled holder learns that it lost the lock when it renews.
    assert_eq!(locks.renewed(renew("l", "a")).await, None);
}

async fn a_repeated_acquire_gets_the_same_lease(world: World) {
    let locks = Keeper::from_world(&world);
    let first = locks.ask(leased(10.0, acquire("l", "a"))).await;
    world.advance(Duration::from_secs(4)).await;
    let again = locks.ask(leased(60.0, acquire("l", "a"))).await;
    assert!(!first.replayed && again.replayed);
    let [first, again] = [first, again].map(|answer| granted(&answer));
    assert_eq!(again.expire_time, first.expire_time, "its end stays the same");
    assert_eq!([first.expires_in, again.expires_in], [Some(seconds(10.0)), Some(seconds(6.0))]);
    assert_eq!(locks.get("l").await.lease.unwrap().expires_in, Some(seconds(6.0)));
    assert_eq!(again.fencing_token, first.fencing_token);
}

async fn a_repeated_release_gets_the_first_answer(world: World) {
    let locks = Keeper::from_world(&world);
    let lease = locks.acquired("l", "a").await;
    let by_token =
        |token| pb::ReleaseLockRequest { fencing_token: Some(token), ..release("l", "a") };
    assert!(locks.released(by_token(lease.fencing_token)).await);
    assert!(locks.released(by_token(lease.fencing_token)).await);
    assert!(locks.released(release("l", "a")).await);
    assert!(!locks.released(by_token(lease.fencing_token + 1)).await);
    assert!(!locks.released(release("l", "b")).await);
    world.advance(Duration::from_secs(300)).await;
    assert!(!locks.released(release("l", "a")).await, "a release is repeated for 5 minutes only");
    assert!(!locks.released(release("never", "a")).await);
}

async fn a_renewal_counts_from_now_and_keeps_its_length(world: World) {
    let locks = Keeper::from_world(&world);
    let lease = granted(&locks.ask(leased(10.0, acquire("l", "a"))).await);
    let end = |lease: &pb::LockLease| micros(lease.expire_time) - micros(lease.grant_time);
    world.advance(Duration::from_secs(9)).await;
    let renewed = locks.renewed(renew("l", "a")).await.expect("the lock is not held");
    assert_eq!((renewed.fencing_token, end(&renewed)), (lease.fencing_token, 19_000_000));
    assert_eq!(renewed.expires_in, Some(seconds(10.0)));
    let longer = pb::RenewLockRequest {
        lease_duration: Some(seconds(60.0)),
        fencing_token: Some(lease.fencing_token),
        ..renew("l", "a")
    };
    assert_eq!(end(&locks.renewed(longer).await.unwrap()), 69_000_000);
    world.advance(Duration::from_secs(1)).await;
    assert_eq!(end(&locks.renewed(renew("l", "a")).await.unwrap()), 70_000_000);
    assert_eq!(locks.get("l").await.lease.unwrap().fencing_token, lease.fencing_token);
}

async fn a_lease_that_ended_is_not_renewed(world: World) {
    let locks = Keeper::from_world(&world);
    assert_eq!(locks.renewed(renew("l", "a")).await, None, "a lock that was never acquired");
    granted(&locks.ask(leased(1.0, acquire("l", "a"))).await);
    assert_eq!(locks.renewed(renew("l", "b")).await, None);
    world.advance(Duration::from_secs(1)).await;
    assert_eq!(locks.renewed(renew("l", "a")).await, None, "an ended lease of a free lock");
    assert!(!locks.get("l").await.held);
    locks.acquired("l", "a").await;
    assert!(locks.released(release("l", "a")).await);
    assert_eq!(locks.renewed(renew("l", "a")).await, None, "after its release");
}

async fn a_stale_token_neither_renews_nor_releases(world: World) {
    let locks = Keeper::from_world(&world);
    let first = granted(&locks.ask(leased(1.0, acquire("l", "a"))).await);
    world.advance(Duration::from_secs(1)).await;
    let second = locks.acquired("l", "a").await;
    let token = Some(first.fencing_token);
    let stale = pb::RenewLockRequest { fencing_token: token, ..renew("l", "a") };
    assert_eq!(locks.renewed(stale).await, None);
    let stale = pb::ReleaseLockRequest { fencing_token: token, ..release("l", "a") };
    assert!(!locks.released(stale).await);
    assert_eq!(locks.get("l").await.lease, Some(second));
}

async fn a_lock_shows_its_holder(world: World) {
    let locks = Keeper::from_world(&world);
    assert_eq!(locks.get("l").await, pb::GetLockResponse::default());
    let lease = locks.acquired("l", "a").await;
    assert_eq!((&*lease.name, &*lease.owner), ("l", "a"));
    let length = micros(lease.expire_time) - micros(lease.grant_time);
    assert_eq!(length, 30_000_000, "the default");
    let shown = locks.get("l").await;
    assert!(shown.held && shown.waiters == 0);
    assert_eq!(shown.lease, Some(lease));
}

async fn tokens_grow_while_the_clock_is_set_back(world: World) {
    let locks = Keeper::from_world(&world);
    let mut last = 0;
    for _ in 0..3 {
        let lease = granted(&locks.ask(leased(1.0, acquire("l", "a"))).await);
        assert!(lease.fencing_token > last);
        last = lease.fencing_token;
        assert!(locks.released(release("l", "a")).await);
        world.time().set_back(1_000_000).await;
    }
}

async fn locks_of_different_names_share_no_state(world: World) {
    let locks = Keeper::from_world(&world);
    let names = ["a", "a}", "a%7D", "{", "a:b", "a}:lock", "*", "é", "a b"];
    for name in names {
        locks.acquired(name, name).await;
    }
    for name in names {
        assert_eq!(locks.held(name, "other").await, name);
    }
}
