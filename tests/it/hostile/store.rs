//! Failures of the store: Redis refuses writes, may evict keys, does not answer, or is unreachable
//! while the share of a server is 0; and calls that a server repeats.

mod failover;
mod held_up;
mod repeats;

use std::{fs, process::Stdio};

use pb::{AdmitDecision, CompleteVerdict, RateVerdict};
use tollgate_client::pb;
use tonic::{Code, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_types::StatusExt;

use crate::{
    server::service::await_health,
    support::{
        farm::eventually,
        process::{OwnRedis, Process, Server, TempFile, free_port, tollgate},
        rates::under,
        world::{Client, Rates, admit, complete},
    },
};

const SERVICE: &str = "tollgate.v1.AdmissionService";
const CONFIG: &str = r#"
[[pool]]
match = "allow*"
capacity = 2
denial_cache = "0s"
on_store_failure = "allow"
[[pool]]
match = "deny"
capacity = 2
on_store_failure = "deny"
[[policy]]
name = "allow"
limit = [{ max = 7, window = "1h" }]
on_store_failure = "allow"
[[policy]]
name = "deny"
limit = [{ max = 7, window = "1h" }]
on_store_failure = "deny"
"#;

/// A server and its own Redis.
struct Store {
    redis: OwnRedis,
    server: Server,
    client: Client,
    _config: TempFile,
}

impl Store {
    async fn start(config: &str) -> Store {
        let (mut redis, config) = (OwnRedis::prepare(), TempFile::new(config));
        redis.start().await;
        let server = Server::start(&["--engine", &redis.url(), "--config", config.path()]).await;
        let client = server.client().await;
        await_health(&server, SERVICE, ServingStatus::Serving).await;
        Store { redis, server, client, _config: config }
    }

    async fn admit(&self, pool: &str, device: &str) -> Result<pb::AdmitTaskResponse, Status> {
        let answer = self.client.clone().admit_task(admit(pool, device, "t")).await;
        answer.map(tonic::Response::into_inner)
    }

    async fn admitted(&self, pool: &str, device: &str) -> bool {
        self.admit(pool, device).await.unwrap().decision() == AdmitDecision::Admitted
    }

    async fn in_use(&self, pool: &str) -> u32 {
        let request = pb::GetPoolRequest { pool: pool.into() };
        let pool = self.client.clone().get_pool(request).await.unwrap().into_inner().pool;
        pool.unwrap().usage.unwrap().in_use
    }

    /// Sends a command to Redis.
    async fn send(&self, command: &[&str]) {
        self.redis.command(command).await.unwrap();
    }
}

/// Makes Redis refuse writes from the command `begin` until `end`. Meanwhile writes fail with
/// `code` and no share is granted, while reads and refusals are still answered.
async fn refuses_writes(begin: &[&str], end: &[&str], code: &str) {
    let store = Store::start(CONFIG).await;
    store.redis.fail_save().await;
    for (pool, device) in [("allow", "d0"), ("allow full", "d0"), ("allow full", "d1")] {
        assert!(store.admitted(pool, device).await);
    }
    let mut rates = Rates::connect(store.server.address()).await.unwrap();
    rates.check_rate(under("k", "allow")).await.unwrap();
    store.send(begin).await;
    // Round 0 runs before the server has noticed, round 1 after.
    for round in 0..2 {
        for device in ["d2", "d3"] {
            let failed = store.admit("allow", device).await.expect_err("a share was granted");
            assert_eq!(failed.code(), Code::Unavailable, "{failed:?}");
            assert!(failed.message().contains(code), "{failed:?}");
            let details = failed.get_error_details();
            assert_eq!(details.error_info().unwrap().reason, "STORE_REFUSES");
            assert!(details.retry_info().is_some());
        }
        let denied = store.admit("deny", "d").await.unwrap();
        assert_eq!((denied.decision(), denied.degraded), (AdmitDecision::Full, true));
        let failed = rates.check_rate(under("k", "allow")).await.unwrap_err();
        assert_eq!(failed.code(), Code::Unavailable);
        let denied = rates.check_rate(under("k", "deny")).await.unwrap().into_inner();
        assert_eq!((denied.verdict(), denied.degraded), (RateVerdict::Throttle, true));
        // Calls that only read are answered, and a refusal needs no write.
        assert_eq!(store.in_use("allow").await, 1);
        let full = store.admit("allow full", "d2").await.unwrap();
        assert_eq!((full.decision(), full.degraded), (AdmitDecision::Full, false));
        if round == 0 {
            await_health(&store.server, SERVICE, ServingStatus::NotServing).await;
        }
    }
    store.send(end).await;
    await_health(&store.server, SERVICE, ServingStatus::Serving).await;
    assert!(store.admitted("allow", "d1").await);
    let full = store.admit("allow", "d2").await.unwrap();
    assert_eq!((full.decision(), full.degraded), (AdmitDecision::Full, false));
    let done = store.client.clone().complete_task(complete("allow", "d0", "t")).await;
    assert_eq!(done.unwrap().into_inner().verdict(), CompleteVerdict::Completed);
    assert!(store.admitted("allow", "d2").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn h8_no_share_is_granted_while_redis_is_out_of_memory() {
    let set = |value| ["CONFIG", "SET", "maxmemory", value];
    refuses_writes(&set("1"), &set("0"), "OOM").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h8_no_share_is_granted_while_redis_cannot_save() {
    let set = |value| ["CONFIG", "SET", "stop-writes-on-bgsave-error", value];
    refuses_writes(&set("yes"), &set("no"), "MISCONF").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h8_no_share_is_granted_while_redis_has_too_few_replicas() {
    let set = |value| ["CONFIG", "SET", "min-replicas-to-write", value];
    refuses_writes(&set("1"), &set("0"), "NOREPLICAS").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h8_no_share_is_granted_while_acl_denies_writes() {
    let set = |rule| ["ACL", "SETUSER", "default", rule];
    refuses_writes(&set("-@write"), &set("+@all"), "can't run this command").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h8_a_share_is_granted_while_redis_is_unreachable_but_not_while_it_is_a_replica() {
    let mut store = Store::start(CONFIG).await;
    assert!(store.admitted("allow", "d0").await);
    // Redis is a replica now: its primary may grant slots elsewhere.
    store.send(&["REPLICAOF", "127.0.0.1", "1"]).await;
    await_health(&store.server, SERVICE, ServingStatus::NotServing).await;
    let failed = store.admit("allow", "d1").await.expect_err("a share was granted");
    assert_eq!(failed.get_error_details().error_info().unwrap().reason, "STORE_REFUSES");
    store.redis.kill();
    // Only after the server has noticed that Redis is unreachable.
    eventually("its share is granted", async || {
        store.admit("allow", "d1").await.is_ok_and(|answer| answer.degraded)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h9_a_share_of_zero_slots_answers_full() {
    let config = format!("replicas = 3\n{CONFIG}");
    let mut store = Store::start(&config).await;
    assert!(store.admitted("allow", "d0").await);
    store.redis.kill();
    await_health(&store.server, SERVICE, ServingStatus::NotServing).await;
    for device in ["d1", "d2"] {
        let full = store.admit("allow", device).await.unwrap();
        assert_eq!((full.decision(), full.degraded), (AdmitDecision::Full, true));
        assert_eq!(full.retry_after.unwrap().seconds, 1);
    }
    store.redis.start().await;
    await_health(&store.server, SERVICE, ServingStatus::Serving).await;
    assert!(store.admitted("allow", "d1").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn h10_a_redis_set_to_evict_at_run_time_is_not_used() {
    let store = Store::start(CONFIG).await;
    assert!(store.admitted("allow", "d0").await);
    store.send(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
    await_health(&store.server, SERVICE, ServingStatus::NotServing).await;
    let failed =
        store.admit("allow", "d1").await.expect_err("the call succeeds although Redis may evict");
    assert_eq!(failed.code(), Code::Unavailable);
    assert!(failed.message().contains("noeviction"), "{failed:?}");
    store.send(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await;
    await_health(&store.server, SERVICE, ServingStatus::Serving).await;
    assert!(store.admitted("allow", "d1").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn h10_with_eviction_warn_the_server_warns_and_continues() {
    let config = TempFile::new("[redis]\neviction = \"warn\"\n");
    let (mut redis, log) = (OwnRedis::prepare(), TempFile::new(""));
    redis.start().await;
    let (port, url) = (free_port(), redis.url());
    let listen = format!("127.0.0.1:{port}");
    let mut command =
        tollgate(&["serve", "--listen", &listen, "--engine", &url, "--config", config.path()]);
    command.stderr(fs::File::create(log.path()).unwrap()).stdout(Stdio::null());
    let server = Server { process: Process(command.spawn().unwrap()), port };
    let client = server.client().await;
    await_health(&server, SERVICE, ServingStatus::Serving).await;
    let said = || fs::read_to_string(log.path()).unwrap().matches("allkeys-lru").count();
    assert_eq!(said(), 0);
    redis.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await.unwrap();
    eventually("the log warns of the policy", async || said() == 1).await;
    client.clone().admit_task(admit("p", "d", "t")).await.unwrap();
    await_health(&server, SERVICE, ServingStatus::Serving).await;
    assert_eq!(said(), 1);
}
