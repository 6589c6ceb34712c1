//! `tollgate fleet --sale` against a server of this build.

use std::{process::Stdio, time::Duration};

use tokio::time::sleep;
use tollgate_core::time::Clock;
use tollgate_fleet as fleet;

use crate::{
    cli::fleet::{number, options, serve},
    support::{
        process::{OwnRedis, Server, tollgate},
        world::admit,
    },
};

/// Checks that the numbers of a report add up.
fn check(text: &str, buyers: u64) {
    assert_eq!(number(text, "Buyers"), buyers, "{text}");
    let kinds = ["paying  ", "paying late", "never paying", "cancelling"];
    assert_eq!(kinds.map(|kind| number(text, kind)).iter().sum::<u64>(), buyers, "{text}");
    assert_eq!(number(text, "failed"), 0, "{text}");
    let sold = number(text, "confirmed") + number(text, "retaken");
    assert!(text.contains(&format!("Sold {sold} of ")), "{text}");
    // Other repeated answers go to buyers that call twice.
    assert!(number(text, "already confirmed") <= sold, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_items_are_sold_for_all_kinds_of_buyers() {
    let flags = "--sale --items 20 --buyers 400 --rush 200ms --hold 400ms --seed 7 \
        --never-pay 30% --pay-late 20% --cancel 20% --repeat 50%";
    let report =
        fleet::run(&options(serve(Clock::system()).await, flags)).await.expect("reachable");
    let text = report.to_string();
    println!("{text}");
    assert_eq!(report.exit_status(), 0, "{text}");
    check(&text, 400);
    for name in ["reserved", "replayed", "short", "cancelled"] {
        assert_ne!(number(&text, name), 0, "{name}: {text}");
    }
    assert!(text.contains("Sold out after "), "{text}");
    assert!(text.ends_with("Sold 20 of 20: none twice, never oversold\n"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_with_few_buyers_ends_with_items_left() {
    let flags = "--sale --items 50 --buyers 20 --rush 50ms --hold 100ms --seed 7 \
        --never-pay 50% --pay-late 0 --cancel 0 --repeat 0";
    let report =
        fleet::run(&options(serve(Clock::system()).await, flags)).await.expect("reachable");
    let text = report.to_string();
    assert_eq!(report.exit_status(), 0, "{text}");
    check(&text, 20);
    assert!(text.contains("\nNot sold out\n"), "{text}");
    assert!(text.ends_with("Sold 10 of 50: none twice, never oversold\n"), "{text}");
}

async fn redis_server() -> (OwnRedis, Server) {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    let mut client = server.client().await;
    while client.admit_task(admit("warm", "d", "t")).await.is_err() {
        sleep(Duration::from_millis(20)).await;
    }
    (redis, server)
}

/// Runs the fleet. Returns its report and exit code.
async fn play(server: &Server, flags: &str) -> (String, i32) {
    let mut command = tollgate(&["fleet", "--sale", "--server", &server.address()]);
    command.args(flags.split_whitespace()).stderr(Stdio::null()).stdout(Stdio::piped());
    let output =
        tokio::task::spawn_blocking(move || command.output()).await.expect("ran").expect("started");
    let report = String::from_utf8(output.stdout).expect("text");
    println!("{report}");
    (report, output.status.code().expect("not killed"))
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_buyers_on_redis() {
    let (_redis, server) = redis_server().await;
    let flags = "--items 50 --buyers 2000 --rush 500ms --hold 2s --duration 5m --seed 1";
    let (report, code) = play(&server, flags).await;
    assert_eq!(code, 0, "{report}");
    check(&report, 2000);
    assert_ne!(number(&report, "short"), 0);
    assert!(report.contains("Sold 50 of 50: none twice, never oversold\n"), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_added_behind_the_server_is_reported() {
    let (redis, server) = redis_server().await;
    // Adds stock without the fleet's knowledge.
    let adds = async {
        loop {
            let keys = redis.command(&["KEYS", "tollgate:{stock:sale/*}:stock"]).await.unwrap();
            let keys: Vec<String> = redis::from_redis_value(keys).unwrap();
            if let Some(key) = keys.first() {
                redis.command(&["HINCRBY", key, "on_hand", "5"]).await.unwrap();
                std::future::pending::<()>().await;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    let flags = "--items 50 --buyers 300 --rush 3s --hold 200ms --seed 1";
    let (report, code) = tokio::select! {
        played = play(&server, flags) => played,
        () = adds => unreachable!("it has no end"),
    };
    assert_eq!(code, 1, "{report}");
    assert!(report.contains("OVERSOLD") || report.contains("DOES NOT ADD UP"), "{report}");
}
