//! Scenarios A: failures of the usual counter recipe.

use std::{collections::HashSet, time::Duration};

use pb::{AdmitDecision, CompleteVerdict, RenewVerdict};
use tollgate_client::pb;

use crate::support::wire::Wire;
use crate::support::world::{
    Client, Undated, World, admit, capacity, configure, duration, length, micros, patient,
};

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(300);

on_both_engines! {
    a0_concurrent_callers_are_admitted_up_to_the_cap,
    a1_the_sixtieth_device_is_admitted,
    a2_completions_keep_the_pool_at_its_cap,
    a3_each_silent_device_gives_its_slot_back_after_its_own_lease,
    a4_a_renewed_lease_keeps_its_slot,
    a4_with_grace_an_ended_lease_keeps_its_slot,
    a5_a_late_result_frees_no_slot_of_another_task,
    a6_a_result_sent_twice_counts_once,
    a7_a_poll_sent_twice_counts_once,
    a8_completing_an_unknown_task_answers_unknown,
    a11_the_capacity_is_stored_with_the_pool,
    a12_a_pool_of_capacity_zero_answers_paused,
    a18_retry_after_of_refused_devices_is_spread_after_the_first_lease_end,
    a20_ten_thousand_leases_lapse_together,
    a21_a_lowered_capacity_admits_no_task_until_drained,
    a22_a_repeat_after_a_lost_reply_gets_the_same_lease,
    forty_eight_callers_fill_sixty_slots_exactly,
}

fn decision(response: &pb::AdmitTaskResponse) -> AdmitDecision {
    response.decision()
}

/// Admits the task `t` of each device. Fails unless all are admitted.
pub async fn fill(world: &World, pool: &str, devices: std::ops::Range<u32>) {
    for device in devices {
        let response = world.admit(pool, &format!("d{device}"), "t").await;
        assert_eq!(decision(&response), AdmitDecision::Admitted, "device {device}");
    }
}

/// Runs `callers` concurrent callers, each of which has `each` devices. Returns the number of
/// admitted devices.
async fn race(world: &World, pool: &str, callers: u32, each: u32) -> usize {
    let mut tasks = Vec::new();
    for caller in 0..callers {
        let (mut client, pool) = (world.connect().await, pool.to_owned());
        tasks.push(tokio::spawn(async move {
            let mut admitted = 0;
            for device in 0..each {
                let request = patient(admit(&pool, &format!("d{caller}-{device}"), "t"));
                let response = client.admit_task(request).await.unwrap().into_inner();
                admitted += usize::from(response.decision() == AdmitDecision::Admitted);
            }
            admitted
        }));
    }
    let mut admitted = 0;
    for task in tasks {
        admitted += task.await.unwrap();
    }
    admitted
}

async fn a0_concurrent_callers_are_admitted_up_to_the_cap(world: World) {
    assert_eq!(race(&world, "ar:0571", 40, 5).await, 60);
    assert_eq!(world.in_use("ar:0571").await, 60);
}

async fn forty_eight_callers_fill_sixty_slots_exactly(world: World) {
    assert_eq!(race(&world, "p", 48, 50).await, 60);
    assert_eq!(world.in_use("p").await, 60);
}

async fn a1_the_sixtieth_device_is_admitted(world: World) {
    let mut decisions = Vec::new();
    for device in 0..62 {
        decisions.push(decision(&world.admit("p", &format!("d{device}"), "t").await));
    }
    assert_eq!(decisions[..60], [AdmitDecision::Admitted; 60]);
    assert_eq!(decisions[60..], [AdmitDecision::Full; 2]);
}

async fn a2_completions_keep_the_pool_at_its_cap(world: World) {
    fill(&world, "p", 0..60).await;
    for round in 0..59 {
        let done = world.complete("p", &format!("d{round}"), "t").await;
        assert_eq!(done.verdict(), CompleteVerdict::Completed);
        assert_eq!(done.usage.unwrap().in_use, 59);
        fill(&world, "p", 60 + round..61 + round).await;
        assert_eq!(world.in_use("p").await, 60);
    }
}

async fn a3_each_silent_device_gives_its_slot_back_after_its_own_lease(world: World) {
    // 30 silent devices arrive, one each second. Then five busy devices come and go each second.
    for second in 0..30 {
        fill(&world, "p", second..second + 1).await;
        world.advance(SECOND).await;
    }
    for second in 0..300 {
        for busy in 0..5 {
            let (device, task) = (format!("busy{busy}"), format!("t{second}"));
            let response = world.admit("p", &device, &task).await;
            assert_eq!(decision(&response), AdmitDecision::Admitted);
            world.complete("p", &device, &task).await;
        }
        let silent = 30 - (second + 30u32).saturating_sub(299).min(30);
        assert_eq!(world.in_use("p").await, silent, "after {second} s");
        world.advance(SECOND).await;
    }
    assert_eq!(world.in_use("p").await, 0);
}

async fn a4_a_renewed_lease_keeps_its_slot(world: World) {
    fill(&world, "p", 0..60).await;
    for _ in 0..3 {
        world.advance(LEASE - SECOND).await;
        for device in 0..60 {
            let renewed = world.renew("p", &format!("d{device}"), "t").await;
            assert_eq!(renewed.verdict(), RenewVerdict::Renewed);
        }
        assert_eq!(decision(&world.admit("p", "other", "t").await), AdmitDecision::Full);
    }
}

async fn a4_with_grace_an_ended_lease_keeps_its_slot(world: World) {
    let grace = Some(duration(30 * SECOND));
    world.configure(pb::ConfigurePoolRequest { expiry_grace: grace, ..configure("p") }).await;
    fill(&world, "p", 0..60).await;
    world.advance(LEASE + 29 * SECOND).await;
    assert_eq!(decision(&world.admit("p", "other", "t").await), AdmitDecision::Full);
    // A late result frees its own slot immediately; a renewal revives the lease.
    let late = world.complete("p", "d0", "t").await;
    assert_eq!((late.verdict(), late.usage.unwrap().in_use), (CompleteVerdict::Late, 59));
    assert_eq!(world.renew("p", "d1", "t").await.verdict(), RenewVerdict::Renewed);
    world.advance(SECOND).await;
    assert_eq!(world.in_use("p").await, 1);
    assert_eq!(world.renew("p", "d2", "t").await.verdict(), RenewVerdict::Expired);
}

async fn a5_a_late_result_frees_no_slot_of_another_task(world: World) {
    fill(&world, "p", 0..60).await;
    world.advance(LEASE).await;
    fill(&world, "p", 60..120).await;
    for device in 0..60 {
        let late = world.complete("p", &format!("d{device}"), "t").await;
        assert_eq!((late.verdict(), late.usage.unwrap().in_use), (CompleteVerdict::Late, 60));
    }
    assert_eq!(decision(&world.admit("p", "other", "t").await), AdmitDecision::Full);
}

async fn a6_a_result_sent_twice_counts_once(world: World) {
    fill(&world, "p", 0..60).await;
    let first = world.complete("p", "d0", "t").await;
    let second = world.complete("p", "d0", "t").await;
    assert_eq!(first.verdict(), CompleteVerdict::Completed);
    assert_eq!(second.verdict(), CompleteVerdict::AlreadyCompleted);
    assert_eq!((first.usage.unwrap().in_use, second.usage.unwrap().in_use), (59, 59));
    assert_eq!(decision(&world.admit("p", "d0", "t").await), AdmitDecision::AlreadyCompleted);
}

async fn a7_a_poll_sent_twice_counts_once(world: World) {
    let first = world.admit("p", "d", "t").await;
    world.advance(SECOND).await;
    let second = world.admit("p", "d", "t").await;
    assert_eq!((first.replayed, second.replayed), (false, true));
    assert_eq!(first.lease.undated(), second.lease.undated());
    assert_eq!(second.usage.unwrap().in_use, 1);
}

async fn a8_completing_an_unknown_task_answers_unknown(world: World) {
    fill(&world, "p", 0..1).await;
    for (device, task) in [("d0", "other"), ("other", "t")] {
        let response = world.complete("p", device, task).await;
        assert_eq!(response.verdict(), CompleteVerdict::Unknown);
        assert_eq!(response.usage.unwrap().in_use, 1);
    }
}

async fn a11_the_capacity_is_stored_with_the_pool(world: World) {
    world.configure(capacity("p", 3)).await;
    assert_eq!(race(&world, "p", 8, 2).await, 3);
    world.configure(capacity("p", 5)).await;
    assert_eq!(world.pool("p").await.config.unwrap().capacity, 5);
    fill(&world, "p", 100..102).await;
    assert_eq!(decision(&world.admit("p", "other", "t").await), AdmitDecision::Full);
}

async fn a12_a_pool_of_capacity_zero_answers_paused(world: World) {
    world.configure(capacity("p", 0)).await;
    let response = world.admit("p", "d", "t").await;
    assert_eq!(decision(&response), AdmitDecision::Paused);
    assert!(length(response.retry_after) > Duration::ZERO);
    assert_eq!(response.usage.unwrap().in_use, 0);
}

async fn a18_retry_after_of_refused_devices_is_spread_after_the_first_lease_end(world: World) {
    world.configure(capacity("p", 10)).await;
    fill(&world, "p", 0..10).await;
    world.advance(SECOND).await;
    let earliest = LEASE - SECOND;
    let mut waits = HashSet::new();
    for device in 100..200 {
        let response = world.admit("p", &format!("d{device}"), "t").await;
        assert_eq!(decision(&response), AdmitDecision::Full);
        let wait = length(response.retry_after);
        assert!(wait >= earliest && wait <= earliest + 5 * SECOND, "{wait:?}");
        waits.insert(wait);
    }
    assert!(waits.len() > 80, "only {} different waits for 100 devices", waits.len());
    // No wait is too short: after the shortest one a slot is free.
    world.advance(*waits.iter().min().unwrap()).await;
    fill(&world, "p", 200..201).await;
}

async fn a20_ten_thousand_leases_lapse_together(world: World) {
    const LEASES: u32 = 10_000;
    world.configure(capacity("p", LEASES)).await;
    // Another server appears to be the sweeper, so only the calls below remove expired leases.
    world.tamper(&["SET", "{}:{index:admission}:sweeper", "another server"]).await;
    let admitted = race(&world, "p", 20, LEASES / 20).await;
    assert_eq!(admitted, LEASES as usize);
    assert_eq!(decision(&world.admit("p", "other", "t").await), AdmitDecision::Full);
    world.advance(LEASE).await;
    let response = world.admit("p", "other", "t").await;
    assert_eq!(decision(&response), AdmitDecision::Admitted);
    assert_eq!(response.usage.unwrap().in_use, 1);
    // Expired leases are removed in chunks of at most 100 with each grant.
    let left = world.tamper(&["ZCARD", "{}:{admission:p}:leases"]).await;
    assert!(matches!(left, None | Some(::redis::Value::Int(9_901))), "{left:?}");
}

async fn a21_a_lowered_capacity_admits_no_task_until_drained(world: World) {
    fill(&world, "p", 0..55).await;
    let usage = world.configure(capacity("p", 40)).await.usage.unwrap();
    assert_eq!((usage.in_use, usage.over_by, usage.available), (55, 15, 0));
    for device in 0..16 {
        let refused = world.admit("p", "other", "t").await;
        assert_eq!(decision(&refused), AdmitDecision::Full, "with {} running", 55 - device);
        world.complete("p", &format!("d{device}"), "t").await;
    }
    let response = world.admit("p", "other", "t").await;
    assert_eq!(decision(&response), AdmitDecision::Admitted);
    assert_eq!(response.usage.unwrap().in_use, 40);
}

async fn a22_a_repeat_after_a_lost_reply_gets_the_same_lease(world: World) {
    let port = world.address.rsplit_once(':').unwrap().1.parse().unwrap();
    let wire = Wire::to(port).await;
    let mut far = Client::connect(format!("http://127.0.0.1:{}", wire.port)).await.unwrap();
    far.get_pool(pb::GetPoolRequest { pool: "p".into() }).await.unwrap();
    // The slot is granted, but the reply is lost.
    wire.cut();
    far.admit_task(admit("p", "d", "t")).await.unwrap_err();
    let granted = world.pool("p").await;
    assert_eq!(granted.usage.unwrap().in_use, 1);
    let repeat = world.admit("p", "d", "t").await;
    assert!(repeat.replayed);
    assert_eq!(micros(repeat.lease.unwrap().grant_time), micros(granted.oldest_grant_time));
    assert_eq!(world.in_use("p").await, 1);
}
