//! A real Prometheus scrapes a server, evaluates the alerts and answers queries.

use std::{
    fs,
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::Value;

use super::scrape::{Scraped, answer, get, has_admin};
use crate::{
    deploy::{path, skipped, tool},
    support::{
        collector::CallerSpan,
        process::{Process, TempFolder, free_port, is_free},
        world::{capacity, patient},
    },
};

/// A Prometheus that scrapes one server with the rules of `deploy/`.
struct Prometheus {
    port: u16,
    _process: Process,
    _folder: TempFolder,
}

impl Prometheus {
    async fn start(program: &std::path::Path, target: u16) -> Prometheus {
        let (folder, port) = (TempFolder::new(), free_port());
        fs::create_dir_all(folder.path()).unwrap();
        fs::copy(path("deploy/prometheus/alerts.yaml"), folder.path().join("alerts.yaml")).unwrap();
        // The file of this repository, with the port of the test and without its waiting times.
        let configuration = crate::deploy::text("deploy/prometheus/prometheus.yml");
        let configuration = configuration
            .replace("127.0.0.1:50052", &format!("127.0.0.1:{target}"))
            .replace("15s", "1s");
        let file = folder.path().join("prometheus.yml");
        fs::write(&file, configuration).unwrap();
        let child = Command::new(program)
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--enable-feature=exemplar-storage")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let process = Process(child);
        until("Prometheus listens", || (!is_free(port)).then_some(())).await;
        // It answers 503 until it has read its data.
        let is_ready = || answer(port, "/-/ready").0.contains(" 200 ");
        until("Prometheus is ready", || is_ready().then_some(())).await;
        Prometheus { port, _process: process, _folder: folder }
    }

    fn ask(&self, target: &str) -> Value {
        let answer: Value = serde_json::from_str(&get(self.port, target)).unwrap();
        assert_eq!(answer["status"], "success", "{answer}");
        answer["data"].clone()
    }

    /// Returns the value of a query with one series.
    fn value(&self, query: &str) -> Option<f64> {
        let query: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let data = self.ask(&format!("/api/v1/query?query={query}"));
        data["result"][0]["value"][1].as_str()?.parse().ok()
    }
}

/// Waits for a condition.
async fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let met = async {
        loop {
            if let Some(value) = condition() {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), met).await.expect(what)
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_scrapes_a_server_and_evaluates_the_alerts() {
    let Some(program) = tool("prometheus") else { return };
    if !has_admin() {
        return skipped("the admin listener of this build");
    }
    let otlp = "[otlp]\nendpoint = \"http://127.0.0.1:9\"\nsampling = 0.0";
    let scraped = Scraped::start(otlp).await;
    scraped.make_calls().await;
    let caller = CallerSpan::new();
    let request = caller.sampled(patient(capacity("traced", 1)));
    scraped.server.client().await.configure_pool(request).await.unwrap();
    let prometheus = Prometheus::start(&program, scraped.admin).await;

    let calls = "sum(grpc_server_handled_total{grpc_method=\"AdmitTask\"})";
    until("the calls are counted", || prometheus.value(calls).filter(|it| *it == 2.0)).await;
    assert_eq!(prometheus.value("up{job=\"tollgate\"}"), Some(1.0));

    // The only sampled call is the exemplar of its histogram.
    let exemplars = "/api/v1/query_exemplars?query=grpc_server_handling_seconds_bucket\
        &start=1970-01-01T00:00:00Z&end=2100-01-01T00:00:00Z";
    let exemplar = until("Prometheus has the exemplar", || {
        prometheus.ask(exemplars).as_array()?.first().cloned()
    })
    .await;
    assert_eq!(exemplar["seriesLabels"]["grpc_method"], "ConfigurePool", "{exemplar}");
    assert_eq!(exemplar["exemplars"][0]["labels"]["trace_id"], caller.trace_id(), "{exemplar}");

    // Every alert was evaluated without an error.
    let is_evaluated = |rule: &Value| rule["health"] == "ok";
    until("the alerts are evaluated", || {
        let groups = prometheus.ask("/api/v1/rules")["groups"].as_array().cloned().unwrap();
        let rules: Vec<Value> =
            groups.iter().flat_map(|group| group["rules"].as_array().cloned().unwrap()).collect();
        for rule in &rules {
            assert!(rule["lastError"].as_str().is_none_or(str::is_empty), "{rule}");
        }
        (rules.len() >= 10 && rules.iter().all(is_evaluated)).then_some(())
    })
    .await;
}
