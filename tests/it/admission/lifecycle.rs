//! Answers of the admission contract that no scenario covers.

use std::time::Duration;

use pb::{AdmitDecision, CompleteVerdict, EvictVerdict, Outcome, RenewVerdict};
use tollgate_client::pb;

use crate::support::world::{
    START, World, admit, capacity, complete, configure, duration, length, micros, renew,
};

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(300);
const RETENTION: Duration = Duration::from_secs(3600);

on_both_engines! {
    a_lease_carries_its_times_on_the_engines_clock,
    every_answer_contains_the_time_left_of_a_lease,
    an_empty_task_answers_no_task,
    a_paused_pool_admits_no_task_and_lets_running_tasks_finish,
    a_failed_task_is_completed_too,
    a_stale_token_neither_completes_nor_renews,
    a_task_admitted_again_after_its_lease_gets_a_new_token,
    within_the_grace_a_task_reuses_its_own_slot,
    results_and_leases_are_forgotten_after_the_retention,
    eviction_frees_the_slot_and_a_later_result_is_late,
    renewal_counts_from_now_and_may_shorten,
    a_renewal_of_an_ended_or_unknown_lease_is_refused,
    durations_are_rounded_up_to_milliseconds,
    settings_are_in_force_until_reset_and_change_no_granted_lease,
    a_pool_shows_its_times,
    the_largest_result_is_accepted,
}

async fn a_lease_carries_its_times_on_the_engines_clock(world: World) {
    let lease = world.admit("p", "d", "t").await.lease.unwrap();
    assert_eq!((lease.pool, lease.device_id, lease.task_id), ("p".into(), "d".into(), "t".into()));
    assert_eq!(lease.fencing_token, START);
    assert_eq!(micros(lease.grant_time), START);
    assert_eq!(micros(lease.expire_time), START + 300_000_000);
    // A lease of the same instant gets the next token.
    assert_eq!(world.admit("p", "d2", "t").await.lease.unwrap().fencing_token, START + 1);
}

async fn every_answer_contains_the_time_left_of_a_lease(world: World) {
    let grace = pb::ConfigurePoolRequest { expiry_grace: Some(duration(SECOND)), ..configure("p") };
    world.configure(grace).await;
    let granted = world.admit("p", "d", "t").await.lease.unwrap();
    assert_eq!(length(granted.expires_in), LEASE);
    world.advance(Duration::from_micros(1_500_001)).await;
    let replayed = world.admit("p", "d", "t").await.lease.unwrap();
    assert_eq!(length(replayed.expires_in), Duration::from_micros(298_499_999));
    let renewed = world.renew("p", "d", "t").await.lease.unwrap();
    assert_eq!(length(renewed.expires_in), LEASE);

    let listed = async || {
        let request = pb::ListLeasesRequest { pool: "p".into(), ..Default::default() };
        let page = world.client.clone().list_leases(request).await.unwrap().into_inner();
        length(page.leases[0].expires_in)
    };
    world.advance(SECOND).await;
    assert_eq!(listed().await, LEASE - SECOND);
    world.advance(LEASE - SECOND).await;
    assert_eq!(listed().await, Duration::ZERO, "within its grace");
}

async fn an_empty_task_answers_no_task(world: World) {
    for _ in 0..2 {
        let response = world.admit("p", "d", "").await;
        assert_eq!(response.decision(), AdmitDecision::NoTask);
        assert!(response.lease.is_none() && response.retry_after.is_none());
        world.configure(capacity("p", 0)).await;
    }
    assert_eq!(world.in_use("p").await, 0);
}

async fn a_paused_pool_admits_no_task_and_lets_running_tasks_finish(world: World) {
    let lease = world.admit("p", "d", "t").await.lease;
    world.configure(pb::ConfigurePoolRequest { paused: Some(true), ..configure("p") }).await;
    let refused = world.admit("p", "d2", "t").await;
    assert_eq!(refused.decision(), AdmitDecision::Paused);
    assert!(length(refused.retry_after) > Duration::ZERO);
    let replay = world.admit("p", "d", "t").await;
    assert_eq!((replay.decision(), replay.lease), (AdmitDecision::Admitted, lease));
    assert_eq!(world.complete("p", "d", "t").await.verdict(), CompleteVerdict::Completed);
    world.configure(pb::ConfigurePoolRequest { paused: Some(false), ..configure("p") }).await;
    assert_eq!(world.admit("p", "d2", "t").await.decision(), AdmitDecision::Admitted);
}

async fn a_failed_task_is_completed_too(world: World) {
    world.admit("p", "d", "t").await;
    let mut failed = complete("p", "d", "t");
    failed.set_outcome(Outcome::Failed);
    let response = world.client.clone().complete_task(failed).await.unwrap().into_inner();
    assert_eq!(response.verdict(), CompleteVerdict::Completed);
    assert_eq!(world.admit("p", "d", "t").await.decision(), AdmitDecision::AlreadyCompleted);
}

async fn a_stale_token_neither_completes_nor_renews(world: World) {
    let first = world.admit("p", "d", "t").await.lease.unwrap().fencing_token;
    world.advance(LEASE).await;
    let second = world.admit("p", "d", "t").await.lease.unwrap().fencing_token;
    assert!(second > first);
    let mut client = world.client.clone();
    for token in [first, 0, u64::MAX] {
        let request =
            pb::CompleteTaskRequest { fencing_token: Some(token), ..complete("p", "d", "t") };
        let response = client.complete_task(request).await.unwrap().into_inner();
        assert_eq!(response.verdict(), CompleteVerdict::StaleToken);
        assert_eq!(response.usage.unwrap().in_use, 1);
        let request = pb::RenewTaskRequest { fencing_token: Some(token), ..renew("p", "d", "t") };
        let response = client.renew_task(request).await.unwrap().into_inner();
        assert_eq!(response.verdict(), RenewVerdict::StaleToken);
    }
    let request =
        pb::CompleteTaskRequest { fencing_token: Some(second), ..complete("p", "d", "t") };
    let response = client.complete_task(request).await.unwrap().into_inner();
    assert_eq!(response.verdict(), CompleteVerdict::Completed);
}

async fn a_task_admitted_again_after_its_lease_gets_a_new_token(world: World) {
    let first = world.admit("p", "d", "t").await.lease.unwrap();
    world.advance(LEASE).await;
    let again = world.admit("p", "d", "t").await;
    let second = again.lease.unwrap();
    assert!(!again.replayed && second.fencing_token > first.fencing_token);
    assert_eq!(again.usage.unwrap().in_use, 1);
}

async fn within_the_grace_a_task_reuses_its_own_slot(world: World) {
    let grace = Some(duration(30 * SECOND));
    let settings =
        pb::ConfigurePoolRequest { expiry_grace: grace, capacity: Some(1), ..configure("p") };
    world.configure(settings).await;
    let first = world.admit("p", "d", "t").await.lease.unwrap();
    world.advance(LEASE).await;
    assert_eq!(world.admit("p", "d2", "t").await.decision(), AdmitDecision::Full);
    let again = world.admit("p", "d", "t").await;
    assert_eq!(again.decision(), AdmitDecision::Admitted);
    assert!(!again.replayed && again.lease.unwrap().fencing_token > first.fencing_token);
    assert_eq!(again.usage.unwrap().in_use, 1);
}

async fn results_and_leases_are_forgotten_after_the_retention(world: World) {
    for device in ["done", "ended", "evicted"] {
        world.admit("p", device, "t").await;
    }
    world.complete("p", "done", "t").await;
    world.evict("p", "evicted", "t").await;
    world.advance(RETENTION - Duration::from_millis(1)).await;
    assert_eq!(world.complete("p", "done", "t").await.verdict(), CompleteVerdict::AlreadyCompleted);
    assert!(world.evict("p", "evicted", "t").await.replayed);
    world.advance(Duration::from_millis(1)).await;
    assert_eq!(world.complete("p", "done", "t").await.verdict(), CompleteVerdict::Unknown);
    assert_eq!(world.complete("p", "evicted", "t").await.verdict(), CompleteVerdict::Unknown);
    world.advance(LEASE - Duration::from_millis(1)).await;
    assert_eq!(world.renew("p", "ended", "t").await.verdict(), RenewVerdict::Expired);
    world.advance(Duration::from_millis(1)).await;
    assert_eq!(world.renew("p", "ended", "t").await.verdict(), RenewVerdict::Unknown);
    assert_eq!(world.admit("p", "done", "t").await.decision(), AdmitDecision::Admitted);
}

async fn eviction_frees_the_slot_and_a_later_result_is_late(world: World) {
    world.configure(capacity("p", 1)).await;
    world.admit("p", "d", "t").await;
    let first = world.evict("p", "d", "t").await;
    assert_eq!((first.verdict(), first.replayed), (EvictVerdict::Evicted, false));
    assert_eq!(world.in_use("p").await, 0);
    let second = world.evict("p", "d", "t").await;
    assert_eq!((second.verdict(), second.replayed), (EvictVerdict::Evicted, true));
    assert_eq!(world.renew("p", "d", "t").await.verdict(), RenewVerdict::Expired);
    world.admit("p", "d2", "t").await;
    let late = world.complete("p", "d", "t").await;
    assert_eq!((late.verdict(), late.usage.unwrap().in_use), (CompleteVerdict::Late, 1));
    assert_eq!(world.evict("p", "d", "t").await.verdict(), EvictVerdict::Ended);
    world.advance(LEASE).await;
    assert_eq!(world.evict("p", "d2", "t").await.verdict(), EvictVerdict::Ended);
    assert_eq!(world.evict("p", "nobody", "t").await.verdict(), EvictVerdict::Unknown);
}

async fn renewal_counts_from_now_and_may_shorten(world: World) {
    let granted = world.admit("p", "d", "t").await.lease.unwrap();
    world.advance(10 * SECOND).await;
    let mut client = world.client.clone();
    for (asked, expected) in [(None, LEASE), (Some(SECOND), SECOND), (Some(2 * LEASE), 2 * LEASE)] {
        let request =
            pb::RenewTaskRequest { lease_duration: asked.map(duration), ..renew("p", "d", "t") };
        let response = client.renew_task(request).await.unwrap().into_inner();
        let lease = response.lease.unwrap();
        assert_eq!(lease.fencing_token, granted.fencing_token);
        assert_eq!(lease.grant_time, granted.grant_time);
        let ends = START + 10_000_000 + expected.as_micros() as u64;
        assert_eq!(micros(lease.expire_time), ends);
    }
    world.advance(2 * LEASE).await;
    assert_eq!(world.in_use("p").await, 0);
}

async fn a_renewal_of_an_ended_or_unknown_lease_is_refused(world: World) {
    assert_eq!(world.renew("p", "d", "t").await.verdict(), RenewVerdict::Unknown);
    world.admit("p", "d", "t").await;
    world.admit("p", "d", "t2").await;
    world.complete("p", "d", "t").await;
    assert_eq!(world.renew("p", "d", "t").await.verdict(), RenewVerdict::Completed);
    world.advance(LEASE).await;
    let ended = world.renew("p", "d", "t2").await;
    assert_eq!(ended.verdict(), RenewVerdict::Expired);
    assert!(ended.lease.is_none());
}

async fn durations_are_rounded_up_to_milliseconds(world: World) {
    let request = pb::AdmitTaskRequest {
        lease_duration: Some(duration(Duration::from_nanos(100_000_001))),
        ..admit("p", "d", "t")
    };
    let lease = world.client.clone().admit_task(request).await.unwrap().into_inner().lease.unwrap();
    assert_eq!(micros(lease.expire_time), START + 101_000);
}

async fn settings_are_in_force_until_reset_and_change_no_granted_lease(world: World) {
    let granted = world.admit("p", "d", "t").await.lease;
    let pool = world
        .configure(pb::ConfigurePoolRequest {
            capacity: Some(2),
            lease_duration: Some(duration(SECOND)),
            ..configure("p")
        })
        .await;
    let config = pool.config.unwrap();
    assert_eq!(config.overrides, ["capacity", "lease_duration"]);
    assert_eq!((config.capacity, length(config.lease_duration)), (2, SECOND));
    assert_eq!(world.admit("p", "d", "t").await.lease, granted);
    let short = world.admit("p", "d2", "t").await.lease.unwrap();
    assert_eq!(micros(short.expire_time), START + 1_000_000);

    // Settings that are not given stay as they are. Equal settings change nothing.
    let again = world.configure(capacity("p", 2)).await;
    assert_eq!(again.config.unwrap().overrides, ["capacity", "lease_duration"]);
    let reset = pb::ConfigurePoolRequest { reset: Some(true), ..capacity("p", 7) };
    let config = world.configure(reset).await.config.unwrap();
    assert_eq!((config.overrides, config.capacity), (vec!["capacity".to_owned()], 7));
    assert_eq!(length(config.lease_duration), LEASE);
    let config = world
        .configure(pb::ConfigurePoolRequest { reset: Some(true), ..configure("p") })
        .await
        .config
        .unwrap();
    assert_eq!((config.overrides.len(), config.capacity), (0, 60));
}

async fn a_pool_shows_its_times(world: World) {
    let empty = world.pool("p").await;
    assert_eq!((empty.oldest_grant_time, empty.next_expire_time), (None, None));
    world.admit("p", "d", "t").await;
    world.advance(SECOND).await;
    let request =
        pb::AdmitTaskRequest { lease_duration: Some(duration(SECOND)), ..admit("p", "d2", "t") };
    world.client.clone().admit_task(request).await.unwrap();
    let pool = world.pool("p").await;
    assert_eq!(micros(pool.oldest_grant_time), START);
    assert_eq!(micros(pool.next_expire_time), START + 2_000_000);
}

async fn the_largest_result_is_accepted(world: World) {
    world.admit("p", "d", "t").await;
    let result = (0..=u8::MAX).cycle().take(64 * 1024).collect::<Vec<u8>>();
    let request = pb::CompleteTaskRequest { result: result.into(), ..complete("p", "d", "t") };
    let response = world.client.clone().complete_task(request).await.unwrap().into_inner();
    assert_eq!(response.verdict(), CompleteVerdict::Completed);
    assert_eq!(world.complete("p", "d", "t").await.verdict(), CompleteVerdict::AlreadyCompleted);
}
