//! Pools that are on hold after a failover (`after_failover = "hold"`).

use std::time::Duration;

use pb::{AdmitDecision, PoolEventKind, RenewVerdict};
use tollgate_client::pb;

use crate::{
    events::watch::Events,
    support::{
        farm::eventually,
        pairs::Pair,
        queue::{batch, queued},
        rates::configured,
        world::{Client, World, admit, complete, configure, length, micros, renew},
    },
};

const HOLD: &str = "[[pool]]\nmatch = \"*\"\ncapacity = 3\nlease_duration = \"60s\"\n\
                    expiry_grace = \"5s\"\nafter_failover = \"hold\"\n";
/// The lease duration plus the grace.
const LENGTH: Duration = Duration::from_secs(65);
const ANOTHER: &str = "aaaa:bbbb";

async fn world() -> World {
    World::with_rules(true, configured(HOLD)).await
}

fn renewal(device: &str, token: u64) -> pb::RenewTaskRequest {
    pb::RenewTaskRequest { fencing_token: Some(token), ..renew("p", device, "t") }
}

impl World {
    /// Changes the state as if another primary had written it, with `last` as its last token.
    async fn succeed(&self, last: Option<u64>) {
        let key = "{}:{admission:p}:token";
        let Some(redis::Value::BulkString(text)) = self.tamper(&["GET", key]).await else {
            panic!("the pool is known");
        };
        let text = String::from_utf8(text).unwrap();
        let mut parts: Vec<String> = text.split(' ').map(str::to_owned).collect();
        assert_eq!(parts.len(), 6, "{text}");
        parts[2] = ANOTHER.to_owned();
        parts[0] = last.map_or(parts[0].clone(), |last| last.to_string());
        self.tamper(&["SET", key, &parts.join(" "), "KEEPTTL"]).await;
    }

    async fn decision(&self, device: &str) -> AdmitDecision {
        self.admit("p", device, "t").await.decision()
    }

    async fn renewed(&self, device: &str, token: u64) -> RenewVerdict {
        let renewed = self.client.clone().renew_task(renewal(device, token)).await.unwrap();
        renewed.into_inner().verdict()
    }

    /// Deletes the lease and the record of the device's task, as a failover may.
    async fn lose(&self, device: &str) {
        const LOSE: &str = "for _, lease in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
            if string.find(lease, ARGV[1], 1, true) == 1 then
                redis.call('ZREM', KEYS[1], lease)
            end
        end
        return redis.call('DEL', KEYS[2])";
        let key = |part: &str| format!("{{}}:{{admission:p}}:{part}");
        let (leases, task) = (key("leases"), key(&format!("task:{device}\x1ft")));
        self.tamper(&["EVAL", LOSE, "2", &leases, &task, &format!("{device}\x1f")]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_new_task_is_admitted_until_a_lease_length_has_passed() {
    let world = world().await;
    let first = world.admit("p", "d0", "t").await;
    world.succeed(None).await;
    let held = world.admit("p", "d1", "t").await;
    assert_eq!(held.decision(), AdmitDecision::Paused);
    // The hold is shorter by the real time for which the server has seen the new primary.
    let left = micros(world.pool("p").await.hold_end_time) - world.time().now();
    let left = Duration::from_micros(left);
    assert!(left <= LENGTH && left > LENGTH - Duration::from_secs(30), "{left:?}");
    assert!(length(held.retry_after) >= left, "{held:?}");
    // A holder keeps its lease, and can complete its task.
    let again = world.admit("p", "d0", "t").await;
    assert_eq!((again.lease, again.replayed), (first.lease, true));
    let done = world.complete("p", "d0", "t").await;
    assert_eq!(done.verdict(), pb::CompleteVerdict::Completed);
    assert_eq!(world.decision("d0").await, AdmitDecision::AlreadyCompleted);

    world.advance(left - Duration::from_micros(1)).await;
    assert_eq!(world.decision("d1").await, AdmitDecision::Paused);
    world.advance(Duration::from_micros(1)).await;
    assert_eq!(world.decision("d1").await, AdmitDecision::Admitted);
    assert_eq!(world.pool("p").await.hold_end_time, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lease_is_registered_again_by_its_renewal() {
    let world = world().await;
    let mut tokens = Vec::new();
    for device in ["d0", "d1", "d2"] {
        tokens.push(world.admit("p", device, "t").await.lease.unwrap().fencing_token);
    }
    for device in ["d1", "d2"] {
        world.lose(device).await;
    }
    world.succeed(Some(tokens[0])).await;
    let mut events = Events::watch(&world.client, "p", None).await;
    assert_eq!(world.in_use("p").await, 1);
    // Without its token, a lost lease is unknown.
    assert_eq!(world.renew("p", "d1", "t").await.verdict(), RenewVerdict::Unknown);
    assert_eq!(world.renewed("d1", tokens[1]).await, RenewVerdict::Renewed);
    assert_eq!(world.in_use("p").await, 2);
    let event = events.next().await;
    let told = (event.kind(), event.fencing_token, &*event.device_id);
    assert_eq!(told, (PoolEventKind::Admitted, tokens[1], "d1"));
    // The re-registered lease can be renewed and completed like any other.
    assert_eq!(world.renewed("d1", tokens[1]).await, RenewVerdict::Renewed);
    assert_eq!(world.in_use("p").await, 2);
    assert_eq!(world.renewed("d1", tokens[1] - 1).await, RenewVerdict::StaleToken);
    assert_eq!(world.complete("p", "d1", "t").await.verdict(), pb::CompleteVerdict::Completed);
    assert_eq!(world.renewed("d1", tokens[1]).await, RenewVerdict::Completed);
    // Tokens beyond every possible clock, and tokens that were not lost, are unknown.
    let wrong = world.time().now() + 2 * 86_400_000_000;
    for token in [1, tokens[0], wrong] {
        assert_eq!(world.renewed("d9", token).await, RenewVerdict::Unknown, "{token}");
    }

    world.advance(LENGTH).await;
    assert_eq!(
        world.renewed("d2", tokens[2]).await,
        RenewVerdict::Unknown,
        "a renewal after the end of the lease"
    );
    let next = world.admit("p", "d3", "t").await;
    assert!(next.lease.unwrap().fencing_token > tokens[2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn re_registered_leases_count_even_above_the_capacity() {
    let world = world().await;
    let mut tokens = Vec::new();
    for device in ["d0", "d1", "d2"] {
        tokens.push(world.admit("p", device, "t").await.lease.unwrap().fencing_token);
    }
    // The completion of d0 and the admission of d3 were lost.
    let token = tokens[2] + 5;
    world.succeed(None).await;
    assert_eq!(world.renewed("d3", token).await, RenewVerdict::Renewed);
    let usage = world.pool("p").await.usage.unwrap();
    assert_eq!((usage.in_use, usage.over_by), (4, 1));
    world.advance(LENGTH).await;
    assert_eq!(world.in_use("p").await, 0, "all leases have lapsed");
    assert_eq!(world.decision("d4").await, AdmitDecision::Admitted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_renewal_and_a_lost_second_attempt_are_registered_again() {
    let world = world().await;
    let first = world.admit("p", "d0", "t").await.lease.unwrap();
    let tasks = batch("p", vec![queued("d1", "t")]);
    world.client.clone().enqueue_tasks(tasks).await.unwrap();
    let attempt = world.admit("p", "d1", "").await;
    assert_eq!(attempt.task.unwrap().attempt, 1);
    // Renewals were lost: by the stored state, the leases end during the hold.
    world.advance(LENGTH - Duration::from_secs(2)).await;
    world.succeed(None).await;
    assert_eq!(world.decision("d2").await, AdmitDecision::Paused);
    world.advance(Duration::from_secs(3)).await;
    assert_eq!(world.in_use("p").await, 0);
    assert_eq!(world.renewed("d0", first.fencing_token).await, RenewVerdict::Renewed);
    // The second attempt was lost: only the device knows its token.
    let token = attempt.lease.unwrap().fencing_token + 7;
    assert_eq!(world.renewed("d1", token).await, RenewVerdict::Renewed);
    assert_eq!(world.in_use("p").await, 2);
    let failed = pb::CompleteTaskRequest {
        fencing_token: Some(token),
        outcome: pb::Outcome::Failed.into(),
        ..complete("p", "d1", "t")
    };
    world.client.clone().complete_task(failed).await.unwrap();
    world.advance(LENGTH).await;
    let third = world.admit("p", "d1", "").await;
    assert_eq!(third.task.unwrap().attempt, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_ended_before_the_failover_is_not_registered_again() {
    let world = world().await;
    let old = world.admit("p", "d0", "t").await.lease.unwrap().fencing_token;
    // The slot may have been granted to another task, whose lease was lost.
    world.advance(LENGTH + Duration::from_secs(1)).await;
    world.succeed(None).await;
    assert_eq!(world.decision("d2").await, AdmitDecision::Paused);
    assert_eq!(world.renewed("d0", old).await, RenewVerdict::Expired);
    // The same holds after the record was deleted.
    world.lose("d0").await;
    assert_eq!(world.renewed("d0", old).await, RenewVerdict::Unknown);
    assert_eq!(world.in_use("p").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_long_ago_puts_no_pool_on_hold() {
    let config = HOLD.replace("60s", "200ms").replace("5s", "0s");
    let world = World::with_rules(true, configured(&config)).await;
    world.admit("p", "d0", "t").await;
    world.succeed(None).await;
    // This server has seen the current primary for longer than a lease length.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.decision("d1").await, AdmitDecision::Admitted);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_for_an_unused_pool() {
    let world = world().await;
    assert_eq!(world.renewed("d0", 1).await, RenewVerdict::Unknown);
    assert_eq!(world.admit("p", "d0", "").await.decision(), AdmitDecision::NoTask);
    let keys = world.keys().await;
    assert!(!keys.iter().any(|key| key.ends_with(":token")), "{keys:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_ends_a_hold_with_reset() {
    let world = world().await;
    world.admit("p", "d0", "t").await;
    world.succeed(None).await;
    assert_eq!(world.decision("d1").await, AdmitDecision::Paused);
    let pool =
        world.configure(pb::ConfigurePoolRequest { reset: Some(true), ..configure("p") }).await;
    assert_eq!(pool.hold_end_time, None);
    assert_eq!(world.decision("d1").await, AdmitDecision::Admitted);
    assert_eq!(world.in_use("p").await, 2);
}

/// Returns the decision about the task `t` of a device.
async fn decision(client: &Client, pool: &str, device: &str) -> AdmitDecision {
    let answer = client.clone().admit_task(admit(pool, device, "t")).await.unwrap();
    answer.into_inner().decision()
}

#[tokio::test(flavor = "multi_thread")]
async fn a14_a_pool_on_hold_admits_no_task_in_place_of_lost_leases() {
    let mut pair = Pair::start(HOLD).await;
    let client = pair.client.clone();
    assert_eq!(decision(&client, "p", "d0").await, AdmitDecision::Admitted);
    pair.in_step().await;
    pair.part();
    let mut tokens = Vec::new();
    for device in ["d1", "d2"] {
        let answer = client.clone().admit_task(admit("p", device, "t")).await.unwrap();
        tokens.push(answer.into_inner().lease.unwrap().fencing_token);
    }
    pair.fail_over().await;
    for device in ["d3", "d4"] {
        assert_eq!(decision(&client, "p", device).await, AdmitDecision::Paused);
        // A pool without state on the new primary may have lost all of it.
        assert_eq!(decision(&client, "fresh", device).await, AdmitDecision::Paused);
    }
    for (device, token) in ["d1", "d2"].into_iter().zip(tokens) {
        let renewed = client.clone().renew_task(renewal(device, token)).await.unwrap();
        assert_eq!(renewed.into_inner().verdict(), RenewVerdict::Renewed, "{device}");
    }
    // Another server finds the same hold for a pool that is new to it.
    let another = pair.another().await;
    let client = another.client().await;
    eventually("the server has reached its store", async || {
        client.clone().admit_task(admit("p", "d5", "t")).await.is_ok()
    })
    .await;
    assert_eq!(decision(&client, "p", "d5").await, AdmitDecision::Paused);
    let request = pb::GetPoolRequest { pool: "p".into() };
    let pool = client.clone().get_pool(request).await.unwrap().into_inner().pool.unwrap();
    assert_eq!(pool.usage.unwrap().in_use, 3);
    assert!(pool.hold_end_time.is_some());
}
