//! `tollgate fleet --queued` against a server of this build.

use std::{process::Stdio, time::Duration};

use tokio::time::sleep;
use tollgate_client::pb::{CancelTaskRequest, CancelVerdict, TaskState};
use tollgate_core::time::Clock;
use tollgate_fleet as fleet;

use crate::{
    cli::fleet::{number, options, serve},
    support::{
        history::{Demands, Recorder, Verdict},
        process::{OwnRedis, Server, tollgate},
        queue::listing,
        world::{Client, admit},
    },
};

const HELD: &str = "Each task ran as often as its attempts say, and is done or dead\n";

/// Checks that the numbers of a report add up.
fn check(text: &str, tasks: u64) {
    assert_eq!(number(text, "Tasks"), tasks, "{text}");
    let ended = ["done ", "dead ", "neither"].map(|name| number(text, name));
    assert_eq!(ended.iter().sum::<u64>(), tasks, "{text}");
    assert_eq!(number(text, "unknown"), 0, "{text}");
    assert!(text.contains(" seen, none is missing\n") && text.contains(HELD), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_tasks_end_for_all_kinds_of_devices() {
    let flags = "--queued --tasks 400 --devices 40 --capacity 8 --report-interval 50ms --seed 7 \
        --task-duration 10ms..40ms --lease 200ms --max-attempts 2 --payload 300 \
        --silent 10% --late 20% --crashes 10% --duplicates 20% --fail 20%";
    let report =
        fleet::run(&options(serve(Clock::system()).await, flags)).await.expect("reachable");
    let text = report.to_string();
    println!("{text}");
    assert_eq!(report.exit_status(), 0, "{text}");
    check(&text, 400);
    let names = ["dead", "among them late", "that failed", "replayed", "full", "no task"];
    for name in names.into_iter().chain(["late ", "already completed", "stale token"]) {
        assert_ne!(number(&text, name), 0, "{name}: {text}");
    }
    assert!(text.contains("In flight at most 8, cap 8: the cap held\n"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_task_is_reported() {
    let server = Server::start(&[]).await;
    let mut client = server.client().await;
    let cancels = async {
        loop {
            let list = client.list_tasks(listing("fleet", TaskState::Queued)).await.unwrap();
            // The last queued task of its device is not dispatched soon.
            if let Some(task) = list.into_inner().tasks.pop() {
                let (pool, device_id) = ("fleet".to_owned(), task.device_id);
                let cancel = CancelTaskRequest { pool, device_id, task_id: task.task_id };
                let cancelled = client.cancel_task(cancel).await.unwrap().into_inner();
                if cancelled.verdict() == CancelVerdict::Cancelled {
                    std::future::pending::<()>().await;
                }
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    let flags = "--tasks 100 --devices 5 --report-interval 50ms --task-duration 1ms --silent 0";
    let (report, code) = tokio::select! {
        played = play(&server, flags) => played,
        () = cancels => unreachable!("it has no end"),
    };
    assert_eq!(code, 1, "{report}");
    assert!(report.contains("TASKS ARE NEITHER DONE NOR DEAD"), "{report}");
}

/// Runs the fleet. Returns its report and exit code.
async fn play(server: &Server, flags: &str) -> (String, i32) {
    let mut command = tollgate(&["fleet", "--queued", "--server", &server.address()]);
    command.args(flags.split_whitespace()).stderr(Stdio::null()).stdout(Stdio::piped());
    let output =
        tokio::task::spawn_blocking(move || command.output()).await.expect("ran").expect("started");
    let report = String::from_utf8(output.stdout).expect("text");
    println!("{report}");
    (report, output.status.code().expect("not killed"))
}

/// Runs 5,000 tasks. A checker that is independent of the fleet checks the events of the pool.
async fn five_thousand_tasks(server: &Server, client: &Client) {
    let demands = Demands { from_start: true, complete: true, max_attempts: Some(2) };
    let record = Recorder::start(client, "fleet", demands).await;
    let flags = "--tasks 5000 --devices 500 --capacity 100 --report-interval 500ms --lease 500ms \
        --max-attempts 2 --seed 1";
    let (report, code) = play(server, flags).await;
    assert_eq!(code, 0, "{report}");
    check(&report, 5000);
    let Verdict { gaps, violated, .. } = &record.end().await;
    assert_eq!((*gaps, *violated), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_tasks_on_the_embedded_engine() {
    let server = Server::start(&[]).await;
    five_thousand_tasks(&server, &server.client().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_tasks_on_redis() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    let mut client = server.client().await;
    while client.admit_task(admit("warm", "d", "t")).await.is_err() {
        sleep(Duration::from_millis(20)).await;
    }
    five_thousand_tasks(&server, &client).await;
}
