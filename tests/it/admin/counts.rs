//! A scrape agrees exactly with what a fleet has counted.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::{sleep, timeout};
use tollgate_fleet as fleet;

use super::AdminServer;
use crate::{
    cli::fleet::{number, options},
    support::process::OwnRedis,
};

const FLEET: &str = "--devices 40 --capacity 8 --report-interval 100ms --seed 11 \
    --task-duration 20ms..80ms --lease 300ms --duration 3s \
    --silent 10% --late 10% --crashes 10%";

/// Returns the sum of each series over all servers.
async fn sum(servers: &[AdminServer]) -> BTreeMap<String, u64> {
    let mut sum = BTreeMap::<String, u64>::new();
    for server in servers {
        for (series, value) in server.scrape().await.series {
            *sum.entry(series).or_default() += value as u64;
        }
    }
    sum
}

/// Runs a fleet against each server at the same time, and compares their counts with the sum of all
/// servers.
async fn compare(servers: &[AdminServer]) {
    for server in servers {
        server.up().await;
    }
    let fleets = servers.iter().enumerate().map(|(number, server)| {
        let address = format!("127.0.0.1:{}", server.server.port).parse().unwrap();
        let options = options(address, &format!("{FLEET} --pool fleet-{number}"));
        tokio::spawn(async move { fleet::run(&options).await.expect("reachable").to_string() })
    });
    let mut reports = Vec::new();
    for fleet in fleets.collect::<Vec<_>>() {
        reports.push(fleet.await.unwrap());
    }
    let fleet = |name: &str| reports.iter().map(|report| number(report, name)).sum::<u64>();
    let report = reports.join("\n");
    assert_eq!(fleet("failed"), 0, "{report}");
    // A late result follows an expiry. Leases that the devices have left running end after the run.
    let expired = fleet("expired, no result") + fleet("late") + fleet("left running");
    let summed = async {
        loop {
            let sum = sum(servers).await;
            if sum["tollgate_leases_expired_total"] >= expired {
                return sum;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    let sum = timeout(Duration::from_secs(60), summed).await.expect("all leases end");
    let decided = |verb: &str, outcome: &str| {
        let labels = format!("capability=\"admission\",verb=\"{verb}\",outcome=\"{outcome}\"");
        sum[&format!("tollgate_decisions_total{{{labels}}}")]
    };
    let admitted = fleet("Leases admitted") + fleet("replayed");
    assert_eq!(decided("admit", "admitted"), admitted, "{report}");
    assert_eq!(decided("admit", "full"), fleet("full"), "{report}");
    assert_eq!(decided("complete", "completed"), fleet("completed"), "{report}");
    assert_eq!(decided("complete", "late"), fleet("late"), "{report}");
    assert_eq!(sum["tollgate_late_results_total"], fleet("late"), "{report}");
    assert_eq!(sum["tollgate_leases_expired_total"], expired, "{report}");
    assert!(fleet("late") > 0 && fleet("full") > 0 && expired > 0, "{report}");
    let calls = |method: &str, name: &str, more: &str| {
        let service = "tollgate.v1.AdmissionService";
        let labels = format!("grpc_service=\"{service}\",grpc_method=\"{method}\"{more}");
        sum[&format!("{name}{{grpc_type=\"unary\",{labels}}}")]
    };
    let handled = calls("AdmitTask", "grpc_server_handled_total", ",grpc_code=\"OK\"");
    assert_eq!(handled, calls("AdmitTask", "grpc_server_started_total", ""));
    assert_eq!(handled, calls("AdmitTask", "grpc_server_handling_seconds_count", ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scrape_agrees_with_a_fleet_on_the_embedded_engine() {
    compare(&[AdminServer::start(&[]).await]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sum_of_two_servers_agrees_with_a_fleet_on_redis() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let url = format!("redis://127.0.0.1:{}", redis.port);
    let engine = ["--engine", &*url];
    // Each may process the expiry of any lease.
    compare(&[AdminServer::start(&engine).await, AdminServer::start(&engine).await]).await;
}
