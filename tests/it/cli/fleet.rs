//! `tollgate fleet` against a server of this build.

use std::{net::SocketAddr, process::Stdio, sync::Arc, time::Duration};

use clap::Parser;
use tokio::{net::TcpListener, task::JoinHandle, time::sleep};
use tollgate::server::{self, Limits, Rules};
use tollgate_client::pb::{
    AdmitDecision, EvictTaskRequest, ListLeasesRequest,
    admission_service_client::AdmissionServiceClient,
};
use tollgate_core::time::Clock;
use tollgate_engine::{Engine, embedded::Embedded};
use tollgate_fleet::{self as fleet, FleetOptions};

use crate::support::{
    process::{OwnRedis, Server, tollgate},
    world::admit,
};

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    fleet: FleetOptions,
}

pub fn options(server: SocketAddr, flags: &str) -> FleetOptions {
    let server = format!("--server=http://{server}");
    let arguments = ["fleet", &server].into_iter().chain(flags.split_whitespace());
    Cli::try_parse_from(arguments).expect("good flags").fleet
}

/// Starts a server on an embedded engine with this clock. Returns its address.
pub async fn serve(clock: Clock) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let engine = Arc::new(Engine::Embedded(Embedded::new(clock)));
    let limits = Limits { connections_max: 64, drain_timeout: Duration::from_secs(1), workers: 1 };
    tokio::spawn(server::run(
        listener,
        None,
        engine,
        Rules::default(),
        limits,
        std::future::pending(),
    ));
    address
}

/// Returns the number on the last line of the report that starts with `name`.
pub fn number(report: &str, name: &str) -> u64 {
    let named = |line: &&str| line.trim_start().starts_with(name);
    let line = report.lines().rfind(named).expect(name);
    let digits: String = line.chars().filter(char::is_ascii_digit).collect();
    digits.parse().expect(name)
}

const MIXED: &str = "--devices 100 --capacity 10 --report-interval 100ms --seed 7 \
    --task-duration 20ms..80ms --lease 200ms --duration 1500ms \
    --silent 10% --late 10% --crashes 10% --duplicates 20%";

#[tokio::test(flavor = "multi_thread")]
async fn the_capacity_holds_for_all_kinds_of_devices() {
    let report =
        fleet::run(&options(serve(Clock::system()).await, MIXED)).await.expect("reachable");
    assert_eq!(report.exit_status(), 0, "{report}");
    let text = report.to_string();
    for (name, count) in [("regular", 70), ("silent", 10), ("crashing", 10), ("sending twice", 20)]
    {
        assert_eq!(number(&text, name), count, "{text}");
    }
    let admitted = number(&text, "Leases admitted");
    let ended = ["reported", "expired", "left running"].map(|name| number(&text, name));
    assert_eq!(admitted, ended.iter().sum::<u64>(), "{text}");
    for name in ["reported", "expired", "full", "replayed", "completed", "late"] {
        assert_ne!(number(&text, name), 0, "{name}: {text}");
    }
    assert_eq!(number(&text, "stale token") + number(&text, "unknown"), 0, "{text}");
    assert_eq!(number(&text, "failed"), 0, "{text}");
}

/// Evicts running tasks again and again, as a server that counts wrongly would.
fn evict_all_the_time(server: SocketAddr) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut stub =
            AdmissionServiceClient::connect(format!("http://{server}")).await.expect("reachable");
        loop {
            let list = ListLeasesRequest { pool: "fleet".to_owned(), ..Default::default() };
            let page = stub.list_leases(list).await.expect("listed").into_inner();
            for lease in page.leases {
                let evict = EvictTaskRequest {
                    pool: lease.pool,
                    device_id: lease.device_id,
                    task_id: lease.task_id,
                    reason: "test".to_owned(),
                };
                stub.evict_task(evict).await.expect("evicted");
            }
            sleep(Duration::from_millis(20)).await;
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exceeded_capacity_is_reported() {
    let server = serve(Clock::system()).await;
    let evicting = evict_all_the_time(server);
    let flags = "--devices 50 --capacity 5 --report-interval 100ms --task-duration 400ms \
        --lease 2s --duration 1s";
    let report = fleet::run(&options(server, flags)).await.expect("reachable");
    evicting.abort();
    assert_eq!(report.exit_status(), 1, "{report}");
    assert!(report.to_string().contains("THE CAP WAS EXCEEDED"), "{report}");
}

#[tokio::test]
async fn an_unreachable_server_is_named_with_a_remedy() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    drop(listener);
    let error = fleet::run(&options(address, ""))
        .await
        .expect_err("the fleet reached a server")
        .to_string();
    for part in [address.to_string().as_str(), "UNAVAILABLE", "tollgate serve", "--server"] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(error.lines().count(), 1, "{error}");
}

const LARGE: &str = "--devices 2000 --capacity 60 --report-interval 1s --lease 2s \
    --task-duration 300ms..1s --silent 10% --late 10% --duplicates 5% --crashes 5% \
    --duration 8s --seed 1";

/// Runs the fleet against a server, then acquires all slots once.
async fn two_thousand_devices(server: Server) {
    let mut command = tollgate(&["fleet", "--server", &server.address()]);
    command.args(LARGE.split_whitespace()).stderr(Stdio::null()).stdout(Stdio::piped());
    let output =
        tokio::task::spawn_blocking(move || command.output()).await.expect("ran").expect("started");
    let report = String::from_utf8(output.stdout).expect("text");
    println!("{report}");
    assert_eq!(output.status.code(), Some(0), "{report}");
    for name in ["Leases admitted", "completed", "late", "expired", "full"] {
        assert_ne!(number(&report, name), 0, "{name}");
    }

    // The leases of the silent devices end, and all 60 slots can be granted.
    let lease = Duration::from_secs(2);
    sleep(lease).await;
    let mut client = server.client().await;
    for device in 0..=60 {
        let request = admit("fleet", &format!("after-{device}"), "t");
        let admitted = client.admit_task(request).await.expect("answered").into_inner();
        let expected = if device < 60 { AdmitDecision::Admitted } else { AdmitDecision::Full };
        assert_eq!(admitted.decision(), expected, "device {device}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_devices_on_the_embedded_engine() {
    two_thousand_devices(Server::start(&[]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_devices_on_redis() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    let mut client = server.client().await;
    while client.admit_task(admit("warm", "d", "t")).await.is_err() {
        sleep(Duration::from_millis(20)).await;
    }
    two_thousand_devices(server).await;
}
