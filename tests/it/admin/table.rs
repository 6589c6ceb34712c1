//! The table of metrics, the pages of a used server, and the documentation name the same metrics.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_status::metrics::METRICS;

use super::{AdminServer, Scrape, exchange};
use crate::support::{
    certificates::{Authority, Files},
    process::OwnRedis,
    world::{World, admit},
};

/// A rule of Envoy's service.
const ENVOY: &str =
    "domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 9}}]\n";

/// Returns the metrics of a page: name, type, labels and help.
fn families(text: &str) -> BTreeMap<String, (String, BTreeSet<String>, String)> {
    let mut found: BTreeMap<String, (String, BTreeSet<String>, String)> = BTreeMap::new();
    let mut help = BTreeMap::new();
    let mut current = (String::new(), String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, text) = rest.split_once(' ').unwrap();
            help.insert(name.to_owned(), text.to_owned());
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            current = (name.to_owned(), kind.to_owned());
        } else if !line.starts_with('#') {
            let series = line.rsplit_once(' ').unwrap().0;
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let labels = labels.trim_end_matches('}').split("\",");
            let labels = labels
                .filter_map(|label| Some(label.split_once('=')?.0.to_owned()))
                .filter(|label| label != "le");
            let name = match &*current.1 {
                "histogram" => current.0.clone(),
                _ => name.to_owned(),
            };
            let entry = found.entry(name).or_default();
            entry.0 = current.1.clone();
            entry.1.extend(labels);
            entry.2 = help[&current.0].clone();
        }
    }
    found
}

/// Uses a server, so that its metrics have series.
async fn use_all(server: &AdminServer) {
    server.up().await;
    let world = World::at(server.server.address()).await;
    world.admit("ar:1", "camera", "task").await;
    world.complete("ar:1", "camera", "task").await;
    // A limit of the namespace refuses a call.
    while world.client.clone().admit_task(admit("ar:1", "camera", "task")).await.is_ok() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_has_exactly_the_metrics_of_used_servers() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let url = format!("redis://127.0.0.1:{}", redis.port);
    let files = Files::new(&Authority::new("ours").server());
    let data = files.text("data");
    std::fs::create_dir_all(files.text("envoy")).unwrap();
    files.write("envoy/rules.yaml", ENVOY);
    let envoy = format!("[envoy]\nconfig = {:?}\n", files.text("envoy"));
    let limit = "[[namespace]]\nmatch = \"*\"\ncalls_per_second = 50\n";
    files.write("pools.toml", &format!("[metrics]\npools = [\"ar:*\"]\n{envoy}{limit}"));
    let pools = files.text("pools.toml");
    let mut found = BTreeMap::new();
    let (remote, local) = (["--engine", &*url], ["--data-dir", &*data, "--memory-max", "1GiB"]);
    for engine in [&remote[..], &local] {
        let server = AdminServer::start(&[&["--config", &pools], engine].concat()).await;
        use_all(&server).await;
        let body = r#"{"domain":"d","descriptors":[{"entries":[{"key":"a","value":"1"}]}]}"#;
        let head =
            format!("POST /json HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n", body.len());
        assert_eq!(exchange(server.port, (head + body).as_bytes()).await.0, 200);
        let has_pools = |scrape: &Scrape| scrape.text.contains("tollgate_pool_in_use{");
        let scrape = server.scrape_until("pools have series", has_pools).await;
        found.extend(families(&scrape.text));
    }
    let with_tls = files.configure("");
    let server = AdminServer::start(&["--config", &with_tls]).await;
    found.extend(families(&server.scrape().await.text));
    for metric in METRICS {
        let Some((kind, labels, help)) = found.remove(metric.name) else {
            panic!("no server has {}", metric.name);
        };
        assert_eq!(kind, metric.kind.name(), "{}", metric.name);
        assert_eq!(help, metric.help, "{}", metric.name);
        let expected: BTreeSet<String> = metric.labels.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(labels, expected, "{}", metric.name);
    }
    assert!(found.is_empty(), "not in the table: {found:?}");
}

#[test]
fn the_documentation_has_the_table_of_metrics() {
    let rows = METRICS.iter().map(|metric| {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, labels) = (metric.name, metric.kind.name(), labels.join(", "));
        format!("| `{name}` | {kind} | {labels} | {} |\n", metric.help)
    });
    let table: String = rows.collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");
    let page = std::fs::read_to_string(path).unwrap();
    assert!(page.contains(&table), "docs/metrics.md must contain:\n{table}");
}
