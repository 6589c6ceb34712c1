//! v13: the store is unreachable. Envoy's filter waits for 20 ms, then lets the request pass, so the
//! answer must come before.

use std::{fs, time::Duration};

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

    /// Asks until an answer is as wanted.
    async fn until(&self, wanted: impl Fn(&Result<RateLimitResponse, Status>) -> bool) {
        let asked = async {
            while !wanted(&self.ask().await) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), asked).await.expect("the wanted answer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn v13_an_unreachable_store_is_an_error_at_once() {
    let mut outage = Outage::prepare("").await;
    outage.redis.kill();
    let is_unavailable = |answer: &Result<RateLimitResponse, Status>| {
        answer.as_ref().is_err_and(|status| status.code() == Code::Unavailable)
    };
    outage.until(is_unavailable).await;
    // Each further call says so; none waits for its deadline.
    for _ in 0..100 {
        let mut request = Request::new(request("d", &[descriptor("a=1"), descriptor("a=2")]));
        request.set_timeout(Duration::from_secs(30));
        let answer = should_rate_limit(&outage.channel, request).await;
        assert!(is_unavailable(&answer), "{answer:?}");
    }
    // A request without a rule needs no store.
    let without = should_rate_limit(&outage.channel, request("d", &[descriptor("b=1")])).await;
    assert_eq!(codes(&without.unwrap()), ". .");
    outage.redis.start().await;
    outage.until(|answer| answer.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v13_the_configured_answer_replaces_the_error() {
    let mut outage = Outage::prepare("on_store_failure = \"deny\"").await;
    outage.redis.kill();
    outage.until(|answer| answer.as_ref().is_ok_and(|answer| answer.overall_code != OK)).await;
    let refused = outage.ask().await.unwrap();
    assert_eq!((codes(&refused), remaining(&refused)), ("x x".to_owned(), vec![0]));

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
}
