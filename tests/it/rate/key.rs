//! GetKey: usage, ban and strikes of a key.

use std::time::Duration;

use pb::RateVerdict;
use tollgate_client::pb;
use tonic::Code;
use tonic_types::StatusExt;

use crate::support::{
    rates::{configured, cost, under},
    world::{World, duration, length},
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// A policy with a limit of each algorithm, a tier that bans, and an override.
const POLICY: &str = r#"
[[policy]]
name = "login"
ban_memory = "10m"
limit = [
  { name = "fixed", max = 4, window = "1m", algorithm = "FIXED_WINDOW" },
  { name = "calendar", max = 50, window = "1h", algorithm = "CALENDAR_WINDOW" },
  { name = "sliding", max = 40, window = "1m" },
  { name = "bucket", max = 30, window = "1m", algorithm = "TOKEN_BUCKET", burst = 5 },
]
tier = [{ above = 4, action = "BAN", ban_durations = ["1m", "5m"] }]
[[policy.override]]
match = "vip:*"
limit = [{ max = 9, window = "1s" }]
[[policy]]
name = "other"
limit = [{ max = 3, window = "1m" }]
"#;

async fn worlds() -> [World; 2] {
    let rules = || configured(POLICY);
    [World::with_rules(false, rules()).await, World::with_rules(true, rules()).await]
}

async fn key(world: &World, key: &str, policy: &str) -> pb::GetKeyResponse {
    let request = pb::GetKeyRequest { key: key.into(), policy: policy.into() };
    world.rates.clone().get_key(request).await.unwrap().into_inner()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_usage_of_a_key_is_read_without_a_call() {
    for world in worlds().await {
        let unused = key(&world, "k", "login").await;
        let names: Vec<&str> = unused.limits.iter().map(|limit| &*limit.name).collect();
        assert_eq!(names, ["fixed", "calendar", "sliding", "bucket"]);
        assert!(unused.limits.iter().all(|limit| limit.count == 0));
        assert_eq!((unused.ban, unused.strikes), (None, 0));
        assert!(world.keys().await.is_empty(), "a read creates no entry");

        world.ask(cost(3, under("k", "login"))).await;
        world.advance(SECOND).await;
        let looked = world.ask(cost(0, under("k", "login"))).await;
        let keys = world.keys().await;
        for _ in 0..9 {
            let read = key(&world, "k", "login").await;
            let unrefused =
                |limit: &pb::LimitUsage| pb::LimitUsage { refused: false, ..limit.clone() };
            assert_eq!(read.limits, looked.limits.iter().map(unrefused).collect::<Vec<_>>());
        }
        assert_eq!(world.keys().await, keys);
        let fixed = &key(&world, "k", "login").await.limits[0];
        assert_eq!((fixed.max, fixed.count, fixed.remaining), (4, 3, 1));
        assert_eq!(length(fixed.reset_after), 59 * SECOND);
        assert_eq!(length(fixed.window), MINUTE);
        // Another policy and an override have usage and rules of their own.
        assert_eq!(key(&world, "k", "other").await.limits[0].count, 0);
        let vip = key(&world, "vip:1", "login").await.limits;
        assert_eq!((vip.len(), vip[0].max), (1, 9));
        world.advance(MINUTE).await;
        assert_eq!(key(&world, "k", "login").await.limits[0].count, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ban_and_the_strikes_of_a_key_are_read() {
    for world in worlds().await {
        for strike in 1..=2 {
            world.ask(cost(4, under("k", "login"))).await;
            let banned = world.ask(under("k", "login")).await;
            assert_eq!(banned.verdict(), RateVerdict::Ban);
            let read = key(&world, "k", "login").await;
            assert_eq!((&read.ban, read.strikes), (&banned.ban, strike));
            // After the ban the strike counts for ban_memory.
            world.advance(5 * MINUTE).await;
            let read = key(&world, "k", "login").await;
            assert_eq!((read.ban, read.strikes), (None, strike));
        }
        world.advance(10 * MINUTE).await;
        assert_eq!(key(&world, "k", "login").await.strikes, 0);
        // A ban by hand, which GetKey does not end.
        let ban = pb::BanRequest {
            key: "k".into(),
            policy: "login".into(),
            duration: Some(duration(MINUTE)),
            reason: "abuse".into(),
        };
        let ban = world.rates.clone().ban(ban).await.unwrap().into_inner().ban;
        assert_eq!(key(&world, "k", "login").await.ban, ban);
        assert_eq!(world.ask(under("k", "login")).await.ban, ban);
        assert_eq!(key(&world, "k", "other").await.ban, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_an_unknown_policy_or_without_a_name_is_refused() {
    for world in worlds().await {
        let ask = async |key: &str, policy: &str| {
            let request = pb::GetKeyRequest { key: key.into(), policy: policy.into() };
            world.rates.clone().get_key(request).await.unwrap_err()
        };
        assert_eq!(ask("k", "none").await.code(), Code::NotFound);
        let refused = ask("", "").await;
        assert_eq!(refused.code(), Code::InvalidArgument);
        let bad = refused.get_details_bad_request().unwrap().field_violations;
        let bad: Vec<String> = bad.into_iter().map(|violation| violation.field).collect();
        assert_eq!(bad, ["key", "policy"]);
        assert_eq!(ask(&"k".repeat(257), "login").await.code(), Code::InvalidArgument);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_usage_or_an_unreadable_ban_is_an_error() {
    let [_, world] = worlds().await;
    world.ask(under("k", "login")).await;
    let usage = world.keys().await.into_iter().find(|key| key.contains("usage")).unwrap();
    let ban = usage.replace("usage", "ban");
    for stored in [usage, ban] {
        world.tamper(&["SET", &format!("{{}}:{stored}"), "text"]).await;
        let request = pb::GetKeyRequest { key: "k".into(), policy: "login".into() };
        let refused = world.rates.clone().get_key(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::Internal, "{stored}");
        world.tamper(&["DEL", &format!("{{}}:{stored}")]).await;
    }
    assert_eq!(key(&world, "k", "login").await.limits.len(), 4);
}
