//! Refused calls: their namespace in metrics and log, their status in the chart.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use tollgate_client::pb;
use tonic::Code;

use super::{ALL, ConsoleServer, PATIENCE, caller};
use crate::support::{access::Token, world::admit};

/// Makes calls of a tenant until its limit refuses one.
async fn refused(server: &ConsoleServer, token: &Token) {
    let mut client = server.client().await;
    let refused = async {
        loop {
            let mut call = tonic::Request::new(admit("p", "d", "t"));
            call.metadata_mut().insert("authorization", token.bearer().parse().unwrap());
            match client.admit_task(call).await {
                Err(status) if status.code() == Code::ResourceExhausted => return,
                answer => drop(answer.unwrap()),
            }
        }
    };
    timeout(PATIENCE, refused).await.expect("no call was refused");
}

/// Returns the value of a series.
fn value(metrics: &str, series: &str) -> Option<f64> {
    let line = metrics.lines().find_map(|line| line.strip_prefix(series));
    line.map(|value| value.trim().parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn j29_a_tenant_at_its_limit_is_named_in_metrics_log_and_console() {
    let (admin, acme, globex) = (Token::new(), Token::new(), Token::new());
    let config = [
        caller("admin", &admin, ALL, "namespace = \"*\""),
        caller("acme", &acme, ALL, "namespace = \"acme\""),
        caller("globex", &globex, ALL, "namespace = \"globex\""),
        "[[namespace]]\nmatch = \"acme\"\ncalls_per_second = 2\n".to_owned(),
        "[[namespace]]\nmatch = \"globex\"\ncalls_per_second = 1000000\n".to_owned(),
    ]
    .concat();
    let server = ConsoleServer::start(&config).await;
    // The history of calls begins before the refusals.
    let cookie = server.sign_in(&admin).await;
    assert_eq!(server.get("/", &cookie).await.status, 200);
    let mut client = server.client().await;
    let mut call = tonic::Request::new(admit("p", "d", "t"));
    call.metadata_mut().insert("authorization", globex.bearer().parse().unwrap());
    client.admit_task(call).await.unwrap();
    for _ in 0..20 {
        refused(&server, &acme).await;
    }

    let token = format!("Authorization: {}\r\n", admin.bearer());
    let metrics = server.get("/metrics", &token).await.body;
    let series = |namespace: &str| {
        let name = "tollgate_namespace_refused_total";
        format!("{name}{{namespace=\"{namespace}\",limit=\"calls_per_second\"}} ")
    };
    let counted = value(&metrics, &series("acme")).unwrap_or_else(|| panic!("{metrics}"));
    assert!(counted >= 20.0, "{counted}");
    assert_eq!(value(&metrics, &series("globex")), None);
    let reached = value(&metrics, "tollgate_limits_reached_total{limit=\"namespace\"} ");
    assert_eq!(reached, Some(counted));

    // The chart of the overview shows the errors by their code, and not as refusals.
    let in_chart = |body: &str| body.contains("ResourceExhausted <b>");
    server.until("the chart has the errors", "/", &cookie, |page| in_chart(&page.body)).await;
    let system = server.get("/system", &cookie).await.body;
    assert!(system.contains("Refused calls") && system.contains("<th scope=\"row\">acme</th>"));

    let line = async {
        loop {
            let log = server.inner.files.log();
            if let Some(line) = log.lines().find(|line| line.contains("limits were reached")) {
                return line.to_owned();
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    let line = timeout(PATIENCE, line).await.expect("the log has the limit");
    assert!(line.contains("acme=") && !line.contains("globex"), "{line}");
}

/// Log lines of refusals have fields with plain values.
async fn j34_refusals_are_logged_as_fields(server: ConsoleServer) {
    let mut client = server.client().await;
    for device in ["one", "two"] {
        client.admit_task(admit("p", device, "t")).await.unwrap();
    }
    let renew = pb::RenewTaskRequest {
        pool: "p".into(),
        device_id: "two".into(),
        task_id: "t".into(),
        ..Default::default()
    };
    client.renew_task(renew).await.unwrap();
    let log = async {
        loop {
            let log = server.inner.files.log();
            if log.lines().filter(|line| line.contains("\"refused\"")).count() >= 2 {
                return log;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    let log = timeout(PATIENCE, log).await.expect("the refusals are logged");
    let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let refused: Vec<_> = lines.filter(|line| line["message"] == "refused").collect();
    let fields = |line: &serde_json::Value| {
        ["namespace", "pool", "device", "task", "outcome"]
            .map(|name| line[name].as_str().unwrap_or_else(|| panic!("{name}: {line}")).to_owned())
    };
    assert_eq!(fields(&refused[0]), ["", "p", "two", "t", "full"]);
    assert_eq!(fields(&refused[1]), ["", "p", "two", "t", "unknown"]);
    assert!(!log.contains("Some(") && !log.contains(" { "), "{log}");
}

mod embedded {
    #[tokio::test(flavor = "multi_thread")]
    async fn j34_refusals_are_logged_as_fields() {
        super::j34_refusals_are_logged_as_fields(super::ConsoleServer::start(super::DEBUG).await)
            .await;
    }
}
mod redis {
    #[tokio::test(flavor = "multi_thread")]
    async fn j34_refusals_are_logged_as_fields() {
        super::j34_refusals_are_logged_as_fields(
            super::ConsoleServer::on_redis(super::DEBUG).await,
        )
        .await;
    }
}

/// One slot, and the refusals in the log.
const DEBUG: &str =
    "log_level = \"info,tollgate::grpc=debug\"\n[[pool]]\nmatch = \"*\"\ncapacity = 1\n";
