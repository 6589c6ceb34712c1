//! `tollgate fleet --rate` against a server of this build.

use std::{
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{task::JoinHandle, time::sleep};
use tollgate_core::time::{Clock, monotonic};
use tollgate_fleet::{self as fleet, Report};

use crate::{
    cli::fleet::{number, options, serve},
    support::{
        process::{OwnRedis, Server, tollgate},
        world::{START, admit},
    },
};

const CALLERS: &str = "--rate --keys 8 --hits 60 --max 10 --duration 1500ms --seed 7";

async fn play(clock: Clock, flags: &str) -> Report {
    let flags = format!("{CALLERS} {flags}");
    fleet::run(&options(serve(clock).await, &flags)).await.expect("reachable")
}

/// Checks that the numbers of a report add up.
fn check(text: &str) {
    let answers = ["allow", "warn", "throttle", "ban"].map(|name| number(text, name));
    assert_eq!(answers.iter().sum::<u64>(), number(text, "Calls"), "{text}");
    assert_eq!(number(text, "failed"), 0, "{text}");
    assert_ne!(number(text, "allow"), 0, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_holds_for_every_algorithm() {
    for (flags, permitted) in [
        ("--window 250ms --algorithm sliding-window --volley 20 --volley-every 200ms", 10),
        ("--window 250ms --algorithm fixed-window --volley 20 --volley-every 200ms", 20),
        ("--window 1s --algorithm calendar-window", 20),
        ("--window 250ms --algorithm token-bucket --burst 15", 25),
    ] {
        let report = play(Clock::system(), flags).await;
        assert_eq!(report.exit_status(), 0, "{report}");
        let text = report.to_string();
        check(&text);
        assert_ne!(number(&text, "throttle"), 0, "{text}");
        assert!(text.contains(&format!("{permitted} permitted: the limit held")), "{text}");
        assert!(text.contains(" ┼") && text.contains('█'), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn patient_callers_are_rarely_refused() {
    let hammering = play(Clock::system(), "--window 1s").await.to_string();
    let patient = play(Clock::system(), "--window 1s --patient").await.to_string();
    check(&patient);
    let refused = [&hammering, &patient].map(|text| number(text, "throttle"));
    assert!(refused[1] > 0 && refused[1] * 3 < refused[0], "{hammering}{patient}");
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_warn_and_ban() {
    let flags = "--window 1s --warn-above 5 --ban-above 15 --ban-for 300ms";
    let text = play(Clock::system(), flags).await.to_string();
    check(&text);
    for name in ["warn", "throttle", "ban", "with a notice"] {
        assert_ne!(number(&text, name), 0, "{name}: {text}");
    }
}

/// Returns a clock that runs three times too fast.
fn hasty() -> (Clock, JoinHandle<()>) {
    let (now, start) = (Arc::new(AtomicU64::new(START)), monotonic());
    let clock = Clock::Stepped(now.clone());
    let running = tokio::spawn(async move {
        loop {
            sleep(Duration::from_millis(1)).await;
            now.store(START + 3 * start.elapsed().as_micros() as u64, Ordering::SeqCst);
        }
    });
    (clock, running)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exceeded_limit_is_reported() {
    for flags in ["--window 1s", "--window 1s --algorithm token-bucket"] {
        let (clock, running) = hasty();
        let report = play(clock, flags).await;
        running.abort();
        assert_eq!(report.exit_status(), 1, "{report}");
        assert!(report.to_string().contains("THE LIMIT WAS EXCEEDED"), "{report}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_keys_on_redis() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    let mut client = server.client().await;
    while client.admit_task(admit("warm", "d", "t")).await.is_err() {
        sleep(Duration::from_millis(20)).await;
    }
    let flags = "fleet --rate --keys 200 --hits 5 --volley 5 --volley-every 1s --max 5 \
        --duration 4s --seed 1";
    let mut command = tollgate(&flags.split_whitespace().collect::<Vec<_>>());
    command.args(["--server", &server.address()]).stderr(Stdio::null()).stdout(Stdio::piped());
    let output =
        tokio::task::spawn_blocking(move || command.output()).await.expect("ran").expect("started");
    let report = String::from_utf8(output.stdout).expect("text");
    println!("{report}");
    assert_eq!(output.status.code(), Some(0), "{report}");
    check(&report);
    assert_ne!(number(&report, "throttle"), 0);
}
