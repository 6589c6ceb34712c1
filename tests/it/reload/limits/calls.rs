//! Limits on waiting calls and watchers, files with errors, and dry runs.

use std::time::Duration;

use tokio::{task::JoinHandle, time::timeout};
use tollgate_client::pb::{self, AdmitDecision};
use tonic::{Request, Status};

use super::{
    super::{PATIENCE, Reloads, errors, pool, printed},
    Limited, section,
};
use crate::{
    events::watch::Events,
    support::{
        farm::eventually,
        requests::{admit, assert_at_limit, duration},
    },
};

type Call = JoinHandle<Result<pb::AdmitTaskResponse, Status>>;

/// Asks for the only slot, and waits.
fn ask(reloads: &Reloads, task: &str) -> Call {
    let mut client = reloads.world.client.clone();
    let max_wait = Some(duration(Duration::from_secs(50)));
    let mut request = Request::new(pb::AdmitTaskRequest { max_wait, ..admit("p", "d", task) });
    request.set_timeout(PATIENCE);
    tokio::spawn(async move { client.admit_task(request).await.map(tonic::Response::into_inner) })
}

async fn is_refused(call: Call) {
    let refused = timeout(PATIENCE, call).await.unwrap().unwrap().unwrap_err();
    assert_at_limit(&refused, "OVERLOADED");
}

async fn wait(reloads: &Reloads, task: &str, waiters: u32) -> Call {
    let call = ask(reloads, task);
    eventually("the call waits", async || reloads.world.pool("p").await.waiters == waiters).await;
    call
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_calls_follow_a_reloaded_limit() {
    let limited = Limited::start("waiters = 2").await;
    let reloads = &limited.reloads;
    reloads.world.admit("p", "d", "holder").await;
    let mut calls = vec![wait(reloads, "a", 1).await, wait(reloads, "b", 2).await];
    is_refused(ask(reloads, "c")).await;
    limited.set("waiters = 3").await;
    calls.push(wait(reloads, "c", 3).await);
    is_refused(ask(reloads, "d")).await;

    // Three calls wait, and keep their places.
    limited.set("waiters = 1").await;
    is_refused(ask(reloads, "d")).await;
    let mut holder = "holder".to_owned();
    for (call, task) in calls.into_iter().zip(["a", "b", "c"]) {
        reloads.world.complete("p", "d", &holder).await;
        let answer = timeout(PATIENCE, call).await.unwrap().unwrap().unwrap();
        assert_eq!(answer.decision(), AdmitDecision::Admitted);
        holder = task.to_owned();
    }
    let last = wait(reloads, "d", 1).await;
    is_refused(ask(reloads, "e")).await;
    reloads.world.complete("p", "d", &holder).await;
    timeout(PATIENCE, last).await.unwrap().unwrap().unwrap();
    limited.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_follow_a_reloaded_limit() {
    let limited = Limited::start("watchers = 1").await;
    let client = &limited.reloads.world.client;
    let refused = async || {
        let request = pb::WatchPoolRequest { pool: "p".into(), after: None };
        let refused = client.clone().watch_pool(request).await.map(drop);
        assert_at_limit(&refused.unwrap_err(), "TOO_MANY_WATCHERS");
    };
    let mut watchers = vec![Events::watch(client, "p", None).await];
    refused().await;
    limited.set("watchers = 2").await;
    watchers.push(Events::watch(client, "p", None).await);
    refused().await;

    // Both watchers stay.
    limited.set("watchers = 1").await;
    refused().await;
    limited.reloads.world.admit("p", "d", "told").await;
    for watcher in &mut watchers {
        assert_eq!(watcher.next().await.task_id, "told");
    }
    watchers.pop();
    refused().await;
    watchers.pop();
    eventually("a watcher is accepted", async || {
        let request = pb::WatchPoolRequest { pool: "p".into(), after: None };
        let first = client.clone().watch_pool(request.clone()).await;
        first.is_ok() && client.clone().watch_pool(request).await.is_err()
    })
    .await;
    limited.finish().await;
}

/// The old limits stay in force after each file with an error, and after a file that needs a
/// restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_with_an_error_changes_no_limit() {
    let limited = Limited::start("waiters = 1").await;
    let reloads = &limited.reloads;
    reloads.world.admit("p", "d", "holder").await;
    let _waiting = wait(reloads, "a", 1).await;
    for (sections, code, expected) in [
        ("[limits]\nwaiters = 9\nwatchers = 0\n", 78, "limits.watchers = 0: expected 1 to 1000000"),
        (
            "[limits]\nwaiters = 9\nrequest_bytes = \"8MiB\"\nconnection_request_bytes = \"9MiB\"\n",
            78,
            "limits.connection_request_bytes",
        ),
        ("[limits]\nwaiters = 9\nspeed = 1\n", 78, "unknown field `speed`"),
        ("[limits]\nwaiters = 9\n[[pool]]\nmatch = \"[\"\n", 78, "not a glob"),
        ("[limits]\nwaiters = 9\n[metrics]\nenabled = false\n", 1, "metrics.enabled"),
    ] {
        reloads.write(&(pool("p", 1) + sections));
        let output = reloads.command(&["reload"]).await;
        assert_eq!(output.status.code(), Some(code), "{}", errors(&output));
        assert!(errors(&output).contains(expected), "{}", errors(&output));
        is_refused(ask(reloads, "b")).await;
    }
    limited.set("waiters = 2").await;
    let _further = wait(reloads, "b", 2).await;
    limited.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_names_the_old_and_the_new_limit() {
    let limits = "waiters = 5\nrequest_bytes = \"16MiB\"\nanswer_timeout = \"3s\"\n";
    let limited = Limited::start(limits).await;
    let changed = limits.replace("16MiB", "32MiB").replace("3s", "5s").replace('5', "6");
    limited.reloads.write(&(pool("p", 1) + &section(&(changed + "unsynced_changes = 2000"))));
    let shown = limited.reloads.command(&["reload", "--dry-run"]).await;
    // Unless the check of the contents came first.
    if !printed(&shown).starts_with("no difference") {
        let expected = "limits.answer_timeout: \"3s\" -> \"6s\"\n\
                        limits.request_bytes: \"16MiB\" -> \"32MiB\"\n\
                        limits.unsynced_changes: not set -> 2000\n\
                        limits.waiters: 5 -> 6\n\
                        4 differences; nothing was changed (--dry-run)\n";
        assert_eq!(printed(&shown), expected, "{}", errors(&shown));
    }
    limited.finish().await;
}
