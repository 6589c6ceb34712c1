//! Calls that wait for a slot, and the changes that free one for them.

use std::time::Duration;

use pb::AdmitDecision;
use tokio::{task::JoinHandle, time::timeout};
use tollgate_client::pb;
use tollgate_core::{
    admission::{AdmitTask, Pool, Settings},
    names::Name,
    time::Millis,
    waiting::WaitingCall,
};

use crate::support::{
    rates::configured,
    twins::{States, Twins},
    world::{World, admit, capacity, complete, evict, seconds},
};

const PATIENCE: Duration = Duration::from_secs(30);

on_both_engines! {
    a_freed_slot_goes_to_the_first_waiter,
    an_eviction_and_a_larger_capacity_admit_waiters,
    an_ended_lease_admits_the_first_waiter,
    a_paused_pool_answers_its_waiters_paused,
    an_expired_wait_is_answered_full,
    waiters_go_before_a_call_that_does_not_wait,
    a_decided_task_does_not_wait,
    the_cap_holds_while_many_wait,
}

type Call = JoinHandle<pb::AdmitTaskResponse>;

fn wait(world: &World, device: &str) -> Call {
    let (mut client, max_wait) = (world.client.clone(), Some(seconds(60.0)));
    let request = pb::AdmitTaskRequest { max_wait, ..admit("p", device, "t") };
    tokio::spawn(async move { client.admit_task(request).await.unwrap().into_inner() })
}

async fn decision(call: Call) -> AdmitDecision {
    timeout(PATIENCE, call).await.expect("the call got no answer in time").unwrap().decision()
}

async fn pool(world: &World) -> pb::Pool {
    let request = pb::GetPoolRequest { pool: "p".into() };
    world.client.clone().get_pool(request).await.unwrap().into_inner().pool.unwrap()
}

/// Waits until the pool has exactly `count` waiters.
async fn waiting(world: &World, count: u32) {
    let come = async {
        while pool(world).await.waiters != count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, come).await.expect("the pool never had this number of waiters");
}

fn lease(pool: &str, duration: prost_types::Duration) -> pb::ConfigurePoolRequest {
    let lease_duration = Some(duration);
    pb::ConfigurePoolRequest { pool: pool.into(), lease_duration, ..Default::default() }
}

/// Fills a pool of `slots` slots, and adds `calls` waiters in order. Returns the waiting calls.
async fn crowd(world: &World, slots: u32, calls: u32) -> Vec<Call> {
    world.client.clone().configure_pool(capacity("p", slots)).await.unwrap();
    for slot in 0..slots {
        let admitted = world.admit("p", &format!("holder{slot}"), "t").await;
        assert_eq!(admitted.decision(), AdmitDecision::Admitted);
    }
    let mut waits = Vec::new();
    for call in 0..calls {
        waits.push(wait(world, &format!("d{call}")));
        waiting(world, call + 1).await;
    }
    waits
}

async fn a_freed_slot_goes_to_the_first_waiter(world: World) {
    let calls = crowd(&world, 2, 6).await;
    let mut holders: Vec<String> = vec!["holder0".into(), "holder1".into()];
    for (turn, call) in calls.into_iter().enumerate() {
        let done = complete("p", &holders.remove(0), "t");
        world.client.clone().complete_task(done).await.unwrap();
        assert_eq!(decision(call).await, AdmitDecision::Admitted);
        holders.push(format!("d{turn}"));
        let usage = pool(&world).await.usage.unwrap();
        assert_eq!(usage.in_use, 2);
    }
}

async fn an_eviction_and_a_larger_capacity_admit_waiters(world: World) {
    let mut calls = crowd(&world, 1, 4).await;
    world.client.clone().evict_task(evict("p", "holder0", "t")).await.unwrap();
    assert_eq!(decision(calls.remove(0)).await, AdmitDecision::Admitted);
    world.client.clone().configure_pool(capacity("p", 4)).await.unwrap();
    for call in calls {
        assert_eq!(decision(call).await, AdmitDecision::Admitted);
    }
}

async fn an_ended_lease_admits_the_first_waiter(world: World) {
    world.client.clone().configure_pool(lease("p", seconds(5.0))).await.unwrap();
    let mut calls = crowd(&world, 1, 2).await;
    // No call arrives before that, so the engine itself notices the end of the lease.
    world.advance(Duration::from_secs(5)).await;
    assert_eq!(decision(calls.remove(0)).await, AdmitDecision::Admitted);
    waiting(&world, 1).await;
    assert!(!calls[0].is_finished());
    calls[0].abort();
    waiting(&world, 0).await;
}

async fn a_paused_pool_answers_its_waiters_paused(world: World) {
    let calls = crowd(&world, 1, 3).await;
    let paused = pb::ConfigurePoolRequest { paused: Some(true), ..capacity("p", 1) };
    world.client.clone().configure_pool(paused).await.unwrap();
    for call in calls {
        assert_eq!(decision(call).await, AdmitDecision::Paused);
    }
    assert_eq!(decision(wait(&world, "later")).await, AdmitDecision::Paused);
    waiting(&world, 0).await;
}

async fn an_expired_wait_is_answered_full(world: World) {
    crowd(&world, 1, 0).await;
    let max_wait = Some(seconds(0.2));
    let request = pb::AdmitTaskRequest { max_wait, ..admit("p", "d", "t") };
    let answer = world.client.clone().admit_task(request).await.unwrap().into_inner();
    assert_eq!(answer.decision(), AdmitDecision::Full);
    assert!(answer.retry_after.is_some());
    assert_eq!(pool(&world).await.waiters, 0);
}

async fn waiters_go_before_a_call_that_does_not_wait(world: World) {
    let calls = crowd(&world, 3, 10).await;
    // At any moment between the two, the free slot is reserved for a waiter.
    let mut devices: Vec<String> = (0..3).map(|slot| format!("holder{slot}")).collect();
    devices.extend((0..10).map(|call| format!("d{call}")));
    for (turn, call) in calls.into_iter().enumerate() {
        let done = complete("p", &devices[turn], "t");
        world.client.clone().complete_task(done).await.unwrap();
        let hasty = world.admit("p", &format!("hasty{turn}"), "t").await;
        assert_eq!(hasty.decision(), AdmitDecision::Full);
        assert!(hasty.retry_after.is_some());
        assert_eq!(decision(call).await, AdmitDecision::Admitted);
    }
}

async fn a_decided_task_does_not_wait(world: World) {
    crowd(&world, 1, 0).await;
    assert_eq!(decision(wait(&world, "holder0")).await, AdmitDecision::Admitted, "its own lease");
    let none = pb::AdmitTaskRequest { max_wait: Some(seconds(60.0)), ..admit("p", "d", "") };
    let answer = world.client.clone().admit_task(none).await.unwrap().into_inner();
    assert_eq!(answer.decision(), AdmitDecision::NoTask);
    world.client.clone().complete_task(complete("p", "holder0", "t")).await.unwrap();
    assert_eq!(decision(wait(&world, "holder0")).await, AdmitDecision::AlreadyCompleted);
    waiting(&world, 0).await;
}

async fn the_cap_holds_while_many_wait(world: World) {
    world.client.clone().configure_pool(capacity("p", 5)).await.unwrap();
    let running = std::sync::Arc::new(std::sync::atomic::AtomicI64::new(0));
    let mut devices = Vec::new();
    for device in 0..100 {
        let (mut client, running) = (world.client.clone(), running.clone());
        devices.push(tokio::spawn(async move {
            use std::sync::atomic::Ordering::SeqCst;
            for task in 0..5 {
                let (device, task) = (format!("d{device}"), format!("t{task}"));
                let max_wait = Some(seconds(60.0));
                let request = pb::AdmitTaskRequest { max_wait, ..admit("p", &device, &task) };
                let answer = client.admit_task(request).await.unwrap().into_inner();
                assert_eq!(answer.decision(), AdmitDecision::Admitted);
                assert!(running.fetch_add(1, SeqCst) < 5);
                tokio::task::yield_now().await;
                running.fetch_sub(1, SeqCst);
                client.complete_task(complete("p", &device, &task)).await.unwrap();
            }
        }));
    }
    for device in devices {
        timeout(PATIENCE, device).await.expect("a device was not served in time").unwrap();
    }
}

/// AdmitTask for the pool `p`, which has one slot. With `waits` the call waits up to 60 s.
pub fn ask(device: &str, barging: bool, waits: bool) -> AdmitTask {
    let name = |text: &str| Name::parse(bytes::Bytes::copy_from_slice(text.as_bytes())).unwrap();
    let waiting = waits.then(|| WaitingCall {
        number: 1,
        ticket: 0,
        wait: Millis(60_000),
        ticket_kept: Millis(0),
        keep: Millis(60_000),
        channel: "s".into(),
    });
    AdmitTask {
        pool: name("p"),
        device: name(device),
        task: Some(name("t")),
        lease_duration: Some(Millis(1000)),
        settings: Settings { capacity: 1, barging, ..Settings::default() },
        waiting,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_barging_a_free_slot_goes_to_the_next_call() {
    for barging in [false, true] {
        let (twins, mut pools) = (Twins::new().await, States::<Pool>::new());
        let mut decide =
            async |decision: AdmitTask| twins.agree(&mut pools, &decision, "").await.is_granted();
        assert!(decide(ask("holder", barging, false)).await);
        assert!(!decide(ask("waits", barging, true)).await);
        twins.time.advance(1_000_000).await;
        assert_eq!(decide(ask("hasty", barging, false)).await, barging);
        if barging {
            twins.time.advance(1_000_000).await;
        }
        assert!(decide(ask("waits", barging, true)).await, "the waiter was not admitted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn barging_is_set_by_the_configuration() {
    for redis in [false, true] {
        let rules = configured("[[pool]]\nmatch = \"p\"\nbarging = true");
        let world = World::with_rules(redis, rules).await;
        assert!(pool(&world).await.config.unwrap().barging);
        let other = pb::GetPoolRequest { pool: "other".into() };
        let other = world.client.clone().get_pool(other).await.unwrap().into_inner();
        assert!(!other.pool.unwrap().config.unwrap().barging);
    }
}
