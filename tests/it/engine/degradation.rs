//! The fallback: configured answers while Redis is unreachable.

use std::{collections::HashSet, fs, process::Stdio, time::Duration};

use pb::{AdmitDecision, CompleteVerdict, RateVerdict, RenewVerdict};
use tollgate_client::pb;
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;

use crate::{
    server::service::await_health,
    support::{
        process::{OwnRedis, Process, Server, TempFile, free_port, tollgate},
        rates::{check, cost, limit, rule, under},
        world::{
            Client, Locks, Rates, Sequences, Undated, admit, complete, duration, length, renew,
        },
    },
};

const SERVICE: &str = "tollgate.v1.AdmissionService";
const PATIENCE: Duration = Duration::from_secs(60);
/// The share of each of three servers is 7 / 3, rounded down to 2.
const CONFIG: &str = r#"
replicas = 3
[[pool]]
match = "allow*"
capacity = 7
on_store_failure = "allow"
[[pool]]
match = "none"
capacity = 0
on_store_failure = "allow"
[[pool]]
match = "deny"
capacity = 7
on_store_failure = "deny"
[[policy]]
name = "allow"
limit = [{ max = 7, window = "1h" }]
on_store_failure = "allow"
[[policy]]
name = "deny"
limit = [{ max = 7, window = "1h" }]
on_store_failure = "deny"
[[policy]]
name = "fail"
limit = [{ max = 7, window = "1h" }]
"#;

pub(super) struct Outage {
    redis: OwnRedis,
    server: Server,
    pub(super) client: Client,
    rates: Rates,
    _config: TempFile,
}

impl Outage {
    /// Returns a server whose Redis answers.
    pub(super) async fn prepare() -> Outage {
        let (mut redis, config) = (OwnRedis::prepare(), TempFile::new(CONFIG));
        redis.start().await;
        let server = Server::start(&["--engine", &redis.url(), "--config", config.path()]).await;
        let client = server.client().await;
        let rates = Rates::connect(server.address()).await.unwrap();
        await_health(&server, SERVICE, ServingStatus::Serving).await;
        Outage { redis, server, client, rates, _config: config }
    }

    /// Kills Redis, and waits until the server has noticed.
    pub(super) async fn begin(&mut self) {
        self.redis.kill();
        await_health(&self.server, SERVICE, ServingStatus::NotServing).await;
    }

    /// Starts Redis again, and waits until the server has noticed.
    async fn end(&mut self) {
        self.redis.start().await;
        await_health(&self.server, SERVICE, ServingStatus::Serving).await;
    }

    async fn admit(&self, pool: &str, device: &str) -> pb::AdmitTaskResponse {
        self.client.clone().admit_task(admit(pool, device, "t")).await.unwrap().into_inner()
    }

    async fn complete(&self, pool: &str, device: &str) -> pb::CompleteTaskResponse {
        self.client.clone().complete_task(complete(pool, device, "t")).await.unwrap().into_inner()
    }

    async fn renew(&self, pool: &str, device: &str) -> pb::RenewTaskResponse {
        self.client.clone().renew_task(renew(pool, device, "t")).await.unwrap().into_inner()
    }

    async fn ask(&self, request: pb::CheckRateRequest) -> pb::CheckRateResponse {
        self.rates.clone().check_rate(request).await.unwrap().into_inner()
    }

    async fn in_use(&self, pool: &str) -> u32 {
        let request = pb::GetPoolRequest { pool: pool.into() };
        let pool = self.client.clone().get_pool(request).await.unwrap().into_inner().pool;
        pool.unwrap().usage.unwrap().in_use
    }
}

/// Whether an answer of the fallback admits the task.
fn is_granted(response: &pb::AdmitTaskResponse) -> bool {
    assert!(response.degraded, "{response:?}");
    if response.decision() == AdmitDecision::Full {
        assert!(length(response.retry_after) > Duration::ZERO);
    }
    response.decision() == AdmitDecision::Admitted
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_admits_exactly_its_share_while_redis_is_unreachable() {
    let mut outage = Outage::prepare().await;
    let stored = outage.admit("allow", "stored").await;
    assert!(!stored.degraded);
    outage.begin().await;
    let calls = (0..50).map(|device| {
        let client = outage.client.clone();
        tokio::spawn(async move {
            let request = admit("allow", &format!("d{device}"), "t");
            client.clone().admit_task(request).await.unwrap().into_inner()
        })
    });
    let mut granted = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        let response = call.await.unwrap();
        if is_granted(&response) {
            granted.push(response.lease.unwrap());
        }
        assert_eq!(response.usage.unwrap().capacity, 2);
    }
    assert_eq!(granted.len(), 2);
    let tokens: HashSet<u64> = granted.iter().map(|lease| lease.fencing_token).collect();
    let before = stored.lease.unwrap().fencing_token;
    assert!(tokens.len() == 2 && tokens.iter().all(|token| *token > before), "{tokens:?}");
    // A repeat gets its lease again. A result frees the slot for one more task.
    let device = granted[0].device_id.clone();
    let repeat = outage.admit("allow", &device).await;
    assert!(is_granted(&repeat) && repeat.replayed);
    assert_eq!(repeat.lease.undated(), Some(granted[0].undated()));
    let renewed = outage.renew("allow", &device).await;
    assert_eq!((renewed.verdict(), renewed.degraded), (RenewVerdict::Renewed, true));
    let completed = outage.complete("allow", &device).await;
    assert_eq!((completed.verdict(), completed.degraded), (CompleteVerdict::Completed, true));
    let again = outage.complete("allow", &device).await;
    assert_eq!(again.verdict(), CompleteVerdict::AlreadyCompleted);
    assert!(is_granted(&outage.admit("allow", "next").await));
    assert!(!is_granted(&outage.admit("allow", "one more").await));
    // No call waits for a slot of the share, and a pool of capacity 0 has no share.
    let wait = Some(duration(Duration::from_secs(30)));
    let waits = pb::AdmitTaskRequest { max_wait: wait, ..admit("allow", "patient", "t") };
    let answered = tokio::time::timeout(PATIENCE / 4, outage.client.admit_task(waits)).await;
    assert!(!is_granted(&answered.expect("the call waited").unwrap().into_inner()));
    assert_eq!(outage.admit("none", "d").await.decision(), AdmitDecision::Paused);
}

#[tokio::test(flavor = "multi_thread")]
async fn configured_refusals_are_answered_and_other_calls_fail() {
    let mut outage = Outage::prepare().await;
    outage.admit("allow", "stored").await;
    outage.begin().await;
    let full = outage.admit("deny", "d").await;
    assert_eq!((full.decision(), full.degraded), (AdmitDecision::Full, true));
    assert_eq!(length(full.retry_after), Duration::from_secs(1));
    let client = &mut outage.client.clone();
    let unavailable = |code: Code| assert_eq!(code, Code::Unavailable);
    // A pool without a fallback; a decision that needs the store; leases that the store granted.
    unavailable(client.admit_task(admit("plain", "d", "t")).await.unwrap_err().code());
    unavailable(client.admit_task(admit("allow", "d", "")).await.unwrap_err().code());
    unavailable(client.complete_task(complete("allow", "stored", "t")).await.unwrap_err().code());
    unavailable(client.renew_task(renew("allow", "stored", "t")).await.unwrap_err().code());
    unavailable(client.complete_task(complete("deny", "d", "t")).await.unwrap_err().code());
    let get = pb::GetPoolRequest { pool: "allow".into() };
    unavailable(client.get_pool(get).await.unwrap_err().code());
    let next = pb::NextSequenceRequest { name: "s".into(), ..Default::default() };
    let mut sequences = Sequences::connect(outage.server.address()).await.unwrap();
    unavailable(sequences.next_sequence(next).await.unwrap_err().code());
    let lock = pb::AcquireLockRequest { name: "l".into(), owner: "o".into(), ..Default::default() };
    let mut locks = Locks::connect(outage.server.address()).await.unwrap();
    unavailable(locks.acquire_lock(lock).await.unwrap_err().code());
    // Rates.
    let denied = outage.ask(under("k", "deny")).await;
    assert_eq!((denied.verdict(), denied.degraded), (RateVerdict::Throttle, true));
    assert_eq!((length(denied.retry_after), denied.allowed), (Duration::from_secs(1), false));
    let mut allowed = Vec::new();
    for _ in 0..4 {
        let answer = outage.ask(under("k", "allow")).await;
        assert!(answer.degraded);
        allowed.push(answer.allowed);
    }
    assert_eq!(allowed, [true, true, false, false]);
    let rates = &mut outage.rates.clone();
    unavailable(rates.check_rate(under("k", "fail")).await.unwrap_err().code());
    let own = rule([limit(7, PATIENCE, pb::Algorithm::FixedWindow)]);
    unavailable(rates.check_rate(check("k", &own)).await.unwrap_err().code());
    let checks = ["allow", "deny", "fail"].map(|policy| under("other", policy)).to_vec();
    let several = rates.check_rates(pb::CheckRatesRequest { checks }).await.unwrap().into_inner();
    let told = several.results.iter().map(|one| (one.allowed, one.degraded, one.error.is_empty()));
    let expected = [(true, true, true), (false, true, true), (false, false, false)];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    let none = rates.check_rates(pb::CheckRatesRequest { checks: vec![under("k", "fail")] }).await;
    unavailable(none.unwrap_err().code());
}

#[tokio::test(flavor = "multi_thread")]
async fn fallback_leases_end_on_their_server_after_redis_is_back() {
    let mut outage = Outage::prepare().await;
    outage.admit("allow", "stored").await;
    outage.ask(cost(7, under("k", "allow"))).await;
    outage.begin().await;
    let lease = outage.admit("allow", "local").await.lease.unwrap();
    // A task with a lease in the store gets another one: the fallback does not know the first.
    let again = outage.admit("allow", "stored").await;
    assert!(is_granted(&again));
    assert!(outage.ask(under("k", "allow")).await.allowed);
    outage.end().await;
    // The count in the store is in force; calls that the fallback counted are not added.
    let throttled = outage.ask(under("k", "allow")).await;
    assert_eq!((throttled.verdict(), throttled.degraded), (RateVerdict::Throttle, false));
    assert_eq!(throttled.limits[0].count, 7);
    assert_eq!(outage.in_use("allow").await, 1);
    let fresh = outage.admit("allow", "fresh").await;
    assert_eq!((fresh.decision(), fresh.degraded), (AdmitDecision::Admitted, false));
    assert_eq!(outage.in_use("allow").await, 2);
    // The store is asked first, and does not know the lease.
    let renewed = outage.renew("allow", "local").await;
    assert_eq!((renewed.verdict(), renewed.degraded), (RenewVerdict::Renewed, true));
    assert_eq!(renewed.lease.unwrap().fencing_token, lease.fencing_token);
    let completed = outage.complete("allow", "local").await;
    assert_eq!((completed.verdict(), completed.degraded), (CompleteVerdict::Completed, true));
    let known = outage.complete("allow", "fresh").await;
    assert_eq!((known.verdict(), known.degraded), (CompleteVerdict::Completed, false));
    let unknown = outage.complete("allow", "nobody").await;
    assert_eq!((unknown.verdict(), unknown.degraded), (CompleteVerdict::Unknown, false));
    // For a task with a lease in both places, the fencing token selects one.
    let token = Some(again.lease.unwrap().fencing_token);
    let local =
        pb::CompleteTaskRequest { fencing_token: token, ..complete("allow", "stored", "t") };
    let local = outage.client.complete_task(local).await.unwrap().into_inner();
    assert_eq!((local.verdict(), local.degraded), (CompleteVerdict::Completed, true));
    let stored = outage.complete("allow", "stored").await;
    assert_eq!((stored.verdict(), stored.degraded), (CompleteVerdict::Completed, false));
    assert_eq!(outage.in_use("allow").await, 0);
    // In the next outage the share is whole again, and no larger.
    outage.begin().await;
    let mut granted = 0;
    for device in 0..5 {
        granted += usize::from(is_granted(&outage.admit("allow", &format!("e{device}")).await));
    }
    assert_eq!(granted, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn short_deadlines_do_not_exceed_the_capacity() {
    let outage = Outage::prepare().await;
    for device in 0..200u64 {
        let mut request = tonic::Request::new(admit("allow", &format!("d{device}"), "t"));
        request.set_timeout(Duration::from_micros(50 + 25 * device));
        if let Ok(response) = outage.client.clone().admit_task(request).await {
            assert!(!response.into_inner().degraded);
        }
    }
    assert!(outage.in_use("allow").await <= 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_has_one_line_for_the_start_and_one_for_the_end_of_the_fallback() {
    let (mut redis, config, log) = (OwnRedis::prepare(), TempFile::new(CONFIG), TempFile::new(""));
    redis.start().await;
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let arguments =
        ["serve", "--listen", &listen, "--engine", &redis.url(), "--config", config.path()];
    let mut command = tollgate(&arguments);
    command.stderr(fs::File::create(log.path()).unwrap()).stdout(Stdio::null());
    let server = Server { process: Process(command.spawn().unwrap()), port };
    let mut client = server.client().await;
    let said = |text: &str| fs::read_to_string(log.path()).unwrap().matches(text).count();
    let (begins, ends) = ("the fallback answers", "Redis answers calls again");
    for outage in 1..=2 {
        await_health(&server, SERVICE, ServingStatus::Serving).await;
        redis.kill();
        await_health(&server, SERVICE, ServingStatus::NotServing).await;
        for _ in 0..20 {
            client.admit_task(admit("deny", "d", "t")).await.unwrap();
        }
        assert_eq!((said(begins), said(ends)), (outage, outage - 1));
        redis.start().await;
        let back = async {
            while said(ends) < outage {
                // Calls before Redis is reachable again are answered by the fallback, too.
                client.admit_task(admit("deny", "d", "t")).await.unwrap();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, back).await.expect("the end of the fallback was not logged");
        assert_eq!((said(begins), said(ends)), (outage, outage));
    }
}
