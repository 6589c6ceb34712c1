//! The denial cache: a storm of refused calls costs Redis almost nothing. A change through the same
//! server is visible immediately, a change through another server within the bound.

use std::time::Duration;

use pb::{AdmitDecision, Algorithm, RateVerdict, TierAction};
use tollgate_client::pb;

use crate::support::{
    rates::{check, configured, cost, limit, rule, tier, under},
    world::{Undated, World, admit, capacity, complete, duration, length, renew},
};

/// Cache times so long that no test passes merely because the machine is slow.
pub const LONG: &str = "[[pool]]\nmatch = \"*\"\ncapacity = 1\ndenial_cache = \"10s\"\n\
                    [[policy]]\nname = \"long\"\nlimit = [{ max = 1, window = \"1h\" }]\n\
                    denial_cache = \"10s\"\n";
const MINUTE: Duration = Duration::from_secs(60);

async fn world() -> World {
    World::with_rules(true, configured(LONG)).await
}

/// Whether a call was admitted; `None` if the denial cache refused it.
fn admitted(response: &pb::AdmitTaskResponse) -> Option<bool> {
    let is_cached = response.usage.unwrap().cached;
    assert!(!is_cached || response.decision() == AdmitDecision::Full, "{response:?}");
    if response.decision() == AdmitDecision::Full {
        assert!(length(response.retry_after) > Duration::ZERO);
    }
    (!is_cached).then_some(response.decision() == AdmitDecision::Admitted)
}

/// Puts the refusal of a full pool into the denial cache.
async fn remember(world: &World, pool: &str) {
    world.admit(pool, "asks", "t").await;
    assert_eq!(admitted(&world.admit(pool, "asks", "t").await), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_freed_by_this_server_is_granted_immediately() {
    let world = world().await;
    world.admit("p", "holder", "t").await;
    remember(&world, "p").await;
    world.complete("p", "holder", "t").await;
    assert_eq!(admitted(&world.admit("p", "next", "t").await), Some(true));
    remember(&world, "p").await;
    world.evict("p", "next", "t").await;
    assert_eq!(admitted(&world.admit("p", "third", "t").await), Some(true));
    remember(&world, "p").await;
    world.configure(capacity("p", 2)).await;
    assert_eq!(admitted(&world.admit("p", "fourth", "t").await), Some(true));
    remember(&world, "p").await;
    // So does a failed task, and a lease that is shortened.
    let failed = pb::CompleteTaskRequest { outcome: 2, ..complete("p", "fourth", "t") };
    world.client.clone().complete_task(failed).await.unwrap();
    assert_eq!(admitted(&world.admit("p", "fifth", "t").await), Some(true));
    remember(&world, "p").await;
    let sooner = Some(duration(Duration::from_millis(100)));
    let sooner = pb::RenewTaskRequest { lease_duration: sooner, ..renew("p", "fifth", "t") };
    world.client.clone().renew_task(sooner).await.unwrap();
    remember(&world, "p").await;
    world.advance(Duration::from_millis(100)).await;
    assert_eq!(admitted(&world.admit("p", "sixth", "t").await), Some(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_pool_is_asked_again_when_the_first_lease_can_end() {
    let world = world().await;
    let lease = Some(duration(Duration::from_secs(2)));
    let short = pb::AdmitTaskRequest { lease_duration: lease, ..admit("p", "holder", "t") };
    world.client.clone().admit_task(short).await.unwrap();
    let refused = world.admit("p", "a", "t").await;
    assert_eq!(admitted(&refused), Some(false));
    let mut waits = vec![length(refused.retry_after)];
    world.advance(Duration::from_millis(999)).await;
    let cached = world.admit("p", "a", "t").await;
    assert_eq!(admitted(&cached), None);
    let usage = cached.usage.unwrap();
    assert_eq!((usage.capacity, usage.in_use, usage.available), (1, 1, 0));
    waits.push(length(cached.retry_after));
    // The time left of the lease, and a spread of at most an eighth of it.
    assert!((1001..1130).contains(&waits[1].as_millis()), "{waits:?}");
    world.advance(Duration::from_millis(1000)).await;
    assert_eq!(admitted(&world.admit("p", "b", "t").await), None);
    world.advance(Duration::from_millis(1)).await;
    assert_eq!(admitted(&world.admit("p", "b", "t").await), Some(true));
    // If no lease ends earlier, the server asks the store again after the cache time.
    remember(&world, "p").await;
    world.advance(Duration::from_secs(10)).await;
    assert_eq!(admitted(&world.admit("p", "c", "t").await), Some(false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_gets_its_lease_in_spite_of_the_denial_cache() {
    let world = world().await;
    let lease = world.admit("p", "holder", "t").await.lease.unwrap();
    remember(&world, "p").await;
    for _ in 0..3 {
        let repeat = world.admit("p", "holder", "t").await;
        assert!(repeat.replayed, "{repeat:?}");
        assert_eq!(repeat.lease.undated(), Some(lease.undated()));
        assert_eq!(admitted(&world.admit("p", "other", "t").await), None);
    }
    // The lease is renewed beyond its first end.
    world.advance(Duration::from_secs(299)).await;
    let renewed = world.renew("p", "holder", "t").await.lease.unwrap();
    world.advance(Duration::from_secs(200)).await;
    remember(&world, "p").await;
    let repeat = world.admit("p", "holder", "t").await;
    assert_eq!(repeat.lease.undated(), Some(renewed.undated()));
    // The denial cache hides neither a result nor NO_TASK.
    world.complete("p", "holder", "t").await;
    world.admit("p", "next", "t").await;
    remember(&world, "p").await;
    let done = world.admit("p", "holder", "t").await.decision();
    assert_eq!(done, AdmitDecision::AlreadyCompleted);
    assert_eq!(world.admit("p", "holder", "").await.decision(), AdmitDecision::NoTask);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_is_admitted_in_spite_of_the_denial_cache() {
    let world = world().await;
    world.admit("p", "holder", "t").await;
    remember(&world, "p").await;
    let wait = Some(duration(Duration::from_secs(30)));
    let waits = pb::AdmitTaskRequest { max_wait: wait, ..admit("p", "patient", "t") };
    let mut client = world.client.clone();
    let waiting = tokio::spawn(async move { client.admit_task(waits).await });
    while world.pool("p").await.waiters == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    remember(&world, "p").await;
    world.complete("p", "holder", "t").await;
    let response = waiting.await.unwrap().unwrap().into_inner();
    assert_eq!(admitted(&response), Some(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_refusal_is_cached_when_disabled_or_on_the_embedded_engine() {
    let off = "[[pool]]\nmatch = \"*\"\ncapacity = 1\ndenial_cache = \"0s\"\n\
               [[policy]]\nname = \"off\"\nlimit = [{ max = 0, window = \"1h\" }]\n\
               denial_cache = \"0s\"\n";
    for (redis, text) in [(true, off), (false, LONG)] {
        let world = World::with_rules(redis, configured(text)).await;
        world.admit("p", "holder", "t").await;
        let policy = if redis { "off" } else { "long" };
        for _ in 0..5 {
            assert_eq!(admitted(&world.admit("p", "asks", "t").await), Some(false));
            assert!(!world.ask(under("k", policy)).await.cached);
        }
        let pool = world.pool("p").await;
        assert_eq!((pool.refused, pool.refused_cached), (5, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_throttled_key_is_refused_from_the_cache_until_its_retry_time_or_a_reset() {
    let world = world().await;
    let ask = async || world.ask(under("k", "long")).await;
    assert!(ask().await.allowed);
    let first = ask().await;
    assert_eq!((first.verdict(), first.cached), (RateVerdict::Throttle, false));
    world.advance(Duration::from_secs(9)).await;
    let second = ask().await;
    assert!(second.cached && !second.allowed && !second.crossed);
    let passed = |length: Duration| length + Duration::from_secs(9);
    assert_eq!(passed(length(second.retry_after)), length(first.retry_after));
    assert_eq!(passed(length(second.limits[0].reset_after)), length(first.limits[0].reset_after));
    // Cost 0 is refused from the cache. A request id or another key is decided by the store.
    assert!(world.ask(cost(0, under("k", "long"))).await.cached);
    let named = pb::CheckRateRequest { request_id: "r".into(), ..under("k", "long") };
    assert!(!world.ask(named).await.cached);
    assert!(world.ask(under("other", "long")).await.allowed);
    assert!(world.reset("k", "long").await);
    let after = ask().await;
    assert!(after.allowed && !after.cached);
    // Rules within calls have the default bound of 50 ms.
    let two = rule([limit(2, MINUTE, Algorithm::FixedWindow)]);
    world.ask(cost(2, check("k", &two))).await;
    assert!(!world.ask(cost(2, check("k", &two))).await.cached);
    assert!(world.ask(cost(2, check("k", &two))).await.cached);
    assert!(!world.ask(check("k", &two)).await.cached, "a smaller cost");
    assert!(world.ask(cost(2, check("k", &two))).await.cached);
    let three = rule([limit(3, MINUTE, Algorithm::FixedWindow)]);
    assert!(world.check("k", &three).await.allowed, "another rule");
    world.check("k", &two).await;
    world.advance(Duration::from_millis(49)).await;
    assert!(world.check("k", &two).await.cached);
    world.advance(Duration::from_millis(1)).await;
    assert!(!world.check("k", &two).await.cached);
    world.check("k", &two).await;
    world.advance(MINUTE).await;
    assert!(world.check("k", &two).await.allowed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_banned_key_is_refused_until_the_bans_end_or_unban() {
    let world = world().await;
    let plain = rule([limit(5, MINUTE, Algorithm::FixedWindow)]);
    let ban = world.ban("k", Duration::from_millis(40)).await;
    assert!(!world.check("k", &plain).await.cached);
    world.advance(Duration::from_millis(38)).await;
    let banned = world.check("k", &plain).await;
    assert!(banned.cached && banned.verdict() == RateVerdict::Ban);
    assert_eq!((banned.ban, length(banned.retry_after).as_millis()), (Some(ban), 2));
    world.advance(Duration::from_millis(2)).await;
    assert!(world.check("k", &plain).await.allowed, "the ban's end");
    world.ban("k", MINUTE).await;
    world.check("k", &plain).await;
    assert!(world.check("k", &plain).await.cached);
    let longer = world.ban("k", 2 * MINUTE).await;
    let banned = world.check("k", &plain).await;
    assert_eq!((banned.cached, banned.ban), (false, Some(longer)), "another ban");
    assert!(world.check("k", &plain).await.cached);
    assert!(world.unban("k").await);
    assert!(world.check("k", &plain).await.allowed);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_calls_that_count_towards_a_ban_reach_the_store() {
    let world = world().await;
    let mut climbs = rule([limit(2, MINUTE, Algorithm::SlidingWindow)]);
    climbs.tiers = vec![tier(4, TierAction::Throttle, &[]), tier(8, TierAction::Ban, &[MINUTE])];
    let mut answers = Vec::new();
    for _ in 0..12 {
        world.advance(Duration::from_millis(1)).await;
        let answer = world.check("k", &climbs).await;
        answers.push((answer.verdict(), answer.crossed, answer.cached));
    }
    use RateVerdict::{Allow, Ban, Throttle};
    let expected = [
        vec![(Allow, false, false); 2],
        vec![(Throttle, false, false); 2],
        vec![(Throttle, true, false)],
        vec![(Throttle, false, false); 3],
        // The call that sets the ban reports `crossed`, so that a notice can be sent.
        vec![(Ban, true, false), (Ban, false, false)],
        vec![(Ban, false, true); 2],
    ];
    assert_eq!(answers, expected.concat());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_uncached_checks_of_a_batch_are_sent_to_the_store() {
    let world = world().await;
    for key in ["a", "b"] {
        world.ask(under(key, "long")).await;
        world.ask(under(key, "long")).await;
    }
    let keys = ["a", "new", "b", "new", "a"];
    let checks = keys.map(|key| under(key, "long")).to_vec();
    let request = pb::CheckRatesRequest { checks };
    let response = world.rates.clone().check_rates(request.clone()).await.unwrap().into_inner();
    let answers = |response: pb::CheckRatesResponse| -> Vec<(bool, bool)> {
        response.results.into_iter().map(|result| (result.allowed, result.cached)).collect()
    };
    let known = (false, true);
    assert_eq!(answers(response), [known, (true, false), known, (false, false), known]);
    // A refusal beside an allowed call of the same key is not cached.
    world.rates.clone().check_rates(request.clone()).await.unwrap();
    let response = world.rates.clone().check_rates(request).await.unwrap().into_inner();
    assert_eq!(answers(response), [known; 5]);
}
