//! v13: the store is unreachable. Envoy's filter waits for 20 ms, then lets the request pass, so
//! the answer must arrive before that.

use std::{fs, process::Command, time::Duration};

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use tonic::{Code, Request, Status, transport::Channel};

use crate::{
    api::{OK, RateLimitResponse, descriptor, request, should_rate_limit},
    service::{codes, remaining},
    support::process::{OwnRedis, Server, TempFile, TempFolder},
};

const RULES: &str = "
domain: d
descriptors:
  - key: a
    rate_limit: {unit: year, requests_per_unit: 4}
";
/// Returns the same rules for a domain that counts all descriptors or none.
fn together() -> String {
    RULES.replace("domain: d", "domain: t\ncounting: all_or_nothing")
}

/// A server on a Redis of its own.
struct Outage {
    redis: OwnRedis,
    channel: Channel,
    _server: Server,
    _files: (TempFolder, TempFile),
}

impl Outage {
    async fn prepare(on_store_failure: &str) -> Outage {
        let (mut redis, folder) = (OwnRedis::prepare(), TempFolder::new());
        fs::create_dir_all(folder.path()).unwrap();
        fs::write(folder.path().join("rules.yaml"), RULES).unwrap();
        fs::write(folder.path().join("together.yaml"), together()).unwrap();
        let config =
            format!("replicas = 2\n[envoy]\nconfig = \"{}\"\n{on_store_failure}\n", folder.text());
        let config = TempFile::new(&config);
        redis.start().await;
        let server = Server::start(&["--engine", &redis.url(), "--config", config.path()]).await;
        let channel = Channel::from_shared(server.address()).unwrap().connect().await.unwrap();
        let outage = Outage { redis, channel, _server: server, _files: (folder, config) };
        outage.until(|answer| answer.is_ok()).await;
        outage
    }

    async fn ask(&self) -> Result<RateLimitResponse, Status> {
        should_rate_limit(&self.channel, request("d", &[descriptor("a=1")])).await
    }

    /// Makes requests until an answer is as wanted.
    async fn until(&self, wanted: impl Fn(&Result<RateLimitResponse, Status>) -> bool) {
        let asked = async {
            while !wanted(&self.ask().await) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), asked).await.expect("the wanted answer");
    }
}

/// UNAVAILABLE means that the call was never sent. A call that was sent and gets no reply waits
/// until its deadline; it may have been executed.
fn is_unavailable(answer: &Result<RateLimitResponse, Status>) -> bool {
    answer.as_ref().is_err_and(|status| status.code() == Code::Unavailable)
}

/// Makes 100 calls, of which none may be sent.
async fn nothing_is_sent(channel: &Channel) {
    for call in 0..100 {
        let domain = if call % 2 == 0 { "d" } else { "t" };
        let mut request = Request::new(request(domain, &[descriptor("a=1"), descriptor("a=2")]));
        request.set_timeout(Duration::from_secs(30));
        let answer = should_rate_limit(channel, request).await;
        assert!(is_unavailable(&answer), "{domain}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn v13_an_unreachable_store_is_an_error_immediately() {
    let mut outage = Outage::prepare("").await;
    outage.redis.kill();
    outage.until(is_unavailable).await;
    nothing_is_sent(&outage.channel).await;
    // A request without a rule needs no store.
    let without = should_rate_limit(&outage.channel, request("d", &[descriptor("b=1")])).await;
    assert_eq!(codes(&without.unwrap()), ". .");
    outage.redis.start().await;
    outage.until(|answer| answer.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v13_a_hanging_store_is_an_error_immediately() {
    let outage = Outage::prepare("").await;
    outage.redis.signal("-STOP");
    outage.until(is_unavailable).await;
    nothing_is_sent(&outage.channel).await;
    outage.redis.signal("-CONT");
    outage.until(|answer| answer.is_ok()).await;
}

/// The store of the embedded engine is its data directory. A limit on the file size of the process
/// simulates a full disk.
#[tokio::test(flavor = "multi_thread")]
async fn v13_a_full_disk_is_an_error_immediately() {
    let (rules, data, log) = (TempFolder::new(), TempFolder::new(), TempFile::new(""));
    fs::create_dir_all(rules.path()).unwrap();
    fs::write(rules.path().join("rules.yaml"), RULES.replace(": 4", ": 4000000000")).unwrap();
    fs::write(rules.path().join("together.yaml"), together()).unwrap();
    let serve = format!(
        "trap '' XFSZ; exec {} serve --listen 127.0.0.1:0 --durability always --data-dir {} \
         --envoy-config {} 2>{}",
        env!("CARGO_BIN_EXE_tollgate"),
        data.text(),
        rules.text(),
        log.path()
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &serve]);
    let server = Server::spawn(shell).await;
    let channel = Channel::from_shared(server.address()).unwrap().connect().await.unwrap();
    let limit = |most| {
        let pid = Pid::from_raw(server.process.0.id() as i32);
        prlimit(pid, Resource::Fsize, Rlimit { current: most, maximum: None }).unwrap();
    };
    let ask = || should_rate_limit(&channel, request("d", &[descriptor("a=1")]));
    assert_eq!(codes(&ask().await.unwrap()), ". .");
    limit(Some(0));
    while !is_unavailable(&ask().await) {}
    nothing_is_sent(&channel).await;
    limit(None);
    while ask().await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn v13_the_configured_answer_replaces_the_error() {
    let mut outage = Outage::prepare("on_store_failure = \"deny\"").await;
    outage.redis.kill();
    outage.until(|answer| answer.as_ref().is_ok_and(|answer| answer.overall_code != OK)).await;
    let refused = outage.ask().await.unwrap();
    assert_eq!((codes(&refused), remaining(&refused)), ("x x".to_owned(), vec![0]));
    let both = request("t", &[descriptor("a=1"), descriptor("a=2")]);
    let refused = should_rate_limit(&outage.channel, both).await.unwrap();
    assert_eq!(codes(&refused), "xx x");

    // The share of each of two servers is 2 of 4.
    let mut outage = Outage::prepare("on_store_failure = \"allow\"").await;
    outage.redis.kill();
    outage.until(|answer| answer.as_ref().is_ok_and(|answer| answer.overall_code != OK)).await;
    let other = || should_rate_limit(&outage.channel, request("d", &[descriptor("a=2")]));
    let mut answers = String::new();
    for _ in 0..4 {
        answers += &codes(&other().await.unwrap())[..1];
    }
    assert_eq!(answers, "..xx");
    // A share also counts all descriptors or none.
    let together = async |texts: &[&str]| {
        let asked: Vec<_> = texts.iter().map(|text| descriptor(text)).collect();
        codes(&should_rate_limit(&outage.channel, request("t", &asked)).await.unwrap())
    };
    assert_eq!(together(&["a=1"]).await, ". .");
    assert_eq!(together(&["a=1", "a=2"]).await, ".. .");
    assert_eq!(together(&["a=1", "a=2"]).await, "x. x");
    assert_eq!(together(&["a=2"]).await, ". .");
    assert_eq!(together(&["a=2"]).await, "x x");
}
