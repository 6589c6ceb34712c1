//! `--output json`: the keys of every command, which programs rely on.

use serde_json::Value;

use crate::support::{
    process::{Server, TempFile, TempFolder, run},
    world::admit,
};

/// Runs a command. Returns its exit code, and the objects on the lines of standard output.
async fn objects(words: &[&str]) -> (Option<i32>, Vec<Value>) {
    let output = run(words).await;
    let text = String::from_utf8(output.stdout).unwrap();
    let parsed: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), parsed.unwrap_or_else(|why| panic!("{words:?}: {why}: {text}{errors}")))
}

/// Runs a command that prints one object. Returns it.
async fn object(words: &[&str], code: i32) -> Value {
    let (ended, mut objects) = objects(words).await;
    assert_eq!((ended, objects.len()), (Some(code), 1), "{words:?}: {objects:?}");
    objects.remove(0)
}

fn keys(value: &Value) -> String {
    let object = value.as_object().unwrap_or_else(|| panic!("no object: {value}"));
    object.keys().map(String::as_str).collect::<Vec<_>>().join(" ")
}

const OF_STOCK: &str = "sku onHand available reserved sold";

#[tokio::test(flavor = "multi_thread")]
async fn calls_print_responses_of_the_contract() {
    let server = Server::start(&[]).await;
    let address = server.address();
    let holder = ["lock", "nightly", "--owner", "a", "--server", &address, "--", "sh", "-c"];
    for (command, code, expected) in [
        ("health", 0, "status"),
        (
            "status",
            0,
            "version engine topology store readiness uptimeSeconds configuration servers storeId \
             storeLosses",
        ),
        ("rate user:1", 0, "verdict allowed limits crossed replayed error cached degraded"),
        ("next order --count 2", 0, "first last step serials floorApplied replayed"),
        ("stock set tv 5", 0, "stock"),
        ("stock add tv 1", 0, "stock replayed"),
        ("stock reserve tv o-1 2", 0, "outcome reservation replayed stock buyerQuantity"),
        ("stock reserve tv o-2 9", 1, "outcome replayed stock buyerQuantity"),
        ("stock confirm tv o-1", 0, "outcome retaken stock"),
        ("stock cancel tv o-1", 1, "outcome stock"),
        ("stock get tv", 0, "stock holds"),
    ] {
        let mut words: Vec<&str> = command.split(' ').collect();
        words.extend(["--output", "json", "--server", &address]);
        let object = object(&words, code).await;
        assert_eq!(keys(&object), expected, "{command}");
        if let Some(stock) = object.get("stock") {
            assert_eq!(keys(stock), OF_STOCK, "{command}");
        }
    }
    let words = ["next", "order", "--output", "json", "--server", &address];
    assert_eq!(object(&words, 0).await["first"], "3", "an integer of 64 bits");
    let words = ["rate", "user:1", "--count", "3", "--output", "json", "--server", &address];
    assert_eq!(objects(&words).await.1.len(), 3);

    // The lock is held while its command tries to take it again for another owner.
    let again = format!(
        "{} lock nightly --owner b --output json -E 7 --server {address} -- true",
        env!("CARGO_BIN_EXE_tollgate")
    );
    let held = object(&[&holder[..], &[&again]].concat(), 7).await;
    assert_eq!(keys(&held), "outcome replayed holder retryAfter");
    assert_eq!(held["outcome"], "ACQUIRE_LOCK_OUTCOME_HELD");
    assert_eq!(held["holder"], "a");
    // The output of a command that runs is its own.
    let words = [&holder[..6], &["--output", "json", "--", "echo", "{}"]].concat();
    assert_eq!(object(&words, 0).await.to_string(), "{}");
}

#[tokio::test(flavor = "multi_thread")]
async fn top_and_watch_print_json_lines() {
    let server = Server::start(&[]).await;
    let address = server.address();
    let mut client = server.client().await;
    for pool in ["a", "b"] {
        client.admit_task(admit(pool, "d", "t")).await.unwrap();
    }
    let (code, pools) = objects(&["top", "--output", "json", "--server", &address]).await;
    let names: Vec<&str> = pools.iter().filter_map(|pool| pool["pool"].as_str()).collect();
    assert_eq!((code, names), (Some(0), vec!["a", "b"]));
    let watch = ["watch", "a", "--from-start", "--count", "1", "--server", &address];
    let [new, old] = [&["--output", "json"][..], &["--json"]];
    let new = object(&[&watch[..], new].concat(), 0).await;
    assert_eq!(new, object(&[&watch[..], old].concat(), 0).await);
    let of_event = "cursor kind deviceId taskId fencingToken eventTime capacity";
    assert_eq!(keys(&new["event"]), of_event);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_without_a_server_print_their_results() {
    let token = object(&["token", "--output", "json"], 0).await;
    assert_eq!(keys(&token), "token tokenSha256");
    let (good, bad) = (TempFile::new(""), TempFile::new("colour = 1\n"));
    let checked = object(&["check-config", good.path(), "--output", "json"], 0).await;
    assert_eq!(keys(&checked), "file valid error");
    assert_eq!((&checked["valid"], &checked["error"]), (&true.into(), &Value::Null));
    let checked = object(&["check-config", bad.path(), "--output", "json"], 78).await;
    assert_eq!(checked["valid"], false);
    assert!(checked["error"].as_str().unwrap().contains("colour"), "{checked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn exports_and_imports_print_what_they_counted() {
    let (from, to, file) = (TempFolder::new(), TempFolder::new(), TempFile::new(""));
    let mut server = Server::start(&["--data-dir", from.text()]).await;
    server.client().await.admit_task(admit("a", "d", "t")).await.unwrap();
    server.process.signal("-TERM");
    server.process.end(std::time::Duration::from_secs(60)).await;
    let words = ["export", "--data-dir", from.text(), "--output", file.path(), "--summary", "json"];
    let exported = object(&words, 0).await;
    assert_eq!(keys(&exported), "lines counts");
    let words = ["import", "--data-dir", to.text(), file.path(), "--output", "json"];
    let imported = object(&words, 0).await;
    assert_eq!(keys(&imported), "lines counts lapsed behindMicros");
    assert_eq!(imported["counts"], exported["counts"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_prints_one_report() {
    let server = Server::start(&[]).await;
    let address = server.address();
    let devices = "--devices 4 --duration 300ms --report-interval 20ms --task-duration 1ms..2ms";
    let devices = format!("fleet {devices} --capacity 2 --seed 1");
    let ending = "server seed workingSeconds finishingSeconds notes measured held violations";
    for (command, expected) in [
        (
            &*devices,
            "devices leasesAdmitted answersToAdmitTask answersToCompleteTask calls callLatency \
             waitForASlot utilisation completedPerSecond",
        ),
        ("fleet --rate --keys 2 --duration 300ms", "keys answersToCheckRate calls callLatency"),
        (
            "fleet --sale --items 2 --buyers 4 --rush 50ms --hold 200ms",
            "buyers answersToReserveStock answersToConfirmReservation answersToCancelReservation \
             calls callLatency",
        ),
    ] {
        let mut words: Vec<&str> = command.split(' ').collect();
        words.extend(["--output", "json", "--server", &address]);
        let report = object(&words, 0).await;
        assert_eq!(keys(&report), format!("{expected} {ending}"), "{command}");
        assert_eq!((&report["held"], &report["violations"]), (&true.into(), &Value::Array(vec![])));
        assert!(report["calls"]["count"].is_u64(), "{report}");
        assert!(report["callLatency"]["p99Micros"].is_u64(), "{report}");
    }
}

/// Six devices of 50 ms per task share one slot, then six.
#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_compares_capacities() {
    let server = Server::start(&[]).await;
    let address = server.address();
    let devices =
        "--devices 6 --duration 1s --report-interval 10ms --task-duration 50ms --lease 5s";
    let command = format!("fleet {devices} --sweep 1..6/2 --server {address}");
    let words: Vec<&str> = command.split(' ').collect();
    let (code, runs) = objects(&[&words[..], &["--output", "json"]].concat()).await;
    assert_eq!((code, runs.len()), (Some(0), 2), "{runs:?}");
    let expected = "capacity utilisation completedPerSecond waitP50Micros waitP99Micros full held";
    for (run, capacity) in runs.iter().zip([1, 6]) {
        assert_eq!((keys(run), &run["capacity"]), (expected.to_owned(), &capacity.into()));
        let utilisation = run["utilisation"].as_f64().unwrap();
        assert!((0.0..=1.001).contains(&utilisation) && utilisation > 0.0, "{run}");
        assert_eq!(run["held"], true);
    }
    let full = |run: usize| runs[run]["full"].as_u64().unwrap();
    assert!(full(0) > full(1), "{runs:?}");

    // The pool has its earlier capacity again.
    let pool = ["pool", "get", "fleet", "--output", "json", "--server", &address];
    assert_eq!(object(&pool, 0).await["config"]["capacity"], 60);
    let output = run(&words).await;
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(table.lines().count(), 3, "{table}");
    assert!(table.starts_with("CAPACITY  UTILISATION  COMPLETED/S"), "{table}");
    let wrong = run(&["fleet", "--sweep", "5..1"]).await;
    assert_eq!(wrong.status.code(), Some(64));
}
