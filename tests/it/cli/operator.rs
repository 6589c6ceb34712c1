//! The commands of operators: `tollgate pool`, `task`, `ban`, `unban`, `bans`, `key` and
//! `sequence`.

mod bans;
mod pool;
mod task;

use std::process::Output;

use serde_json::Value;

use crate::support::process::{Server, run};

/// Runs a command against a server. Returns its exit code, standard output and standard error.
async fn ends(server: &Server, words: &[&str]) -> (Option<i32>, String, String) {
    let address = server.address();
    let Output { status, stdout, stderr } = run(&[words, &["--server", &address]].concat()).await;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// Runs a command that must succeed and print nothing on standard error. Returns its output.
async fn prints(server: &Server, words: &[&str]) -> String {
    let (code, stdout, stderr) = ends(server, words).await;
    assert_eq!((code, &*stderr), (Some(0), ""), "{words:?}: {stdout}");
    stdout
}

/// Runs a command with `--output json` that succeeds. Returns its objects, one per line.
async fn objects(server: &Server, words: &[&str]) -> Vec<Value> {
    let printed = prints(server, &[words, &["--output", "json"]].concat()).await;
    printed.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn assert_says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
}

/// Without a server, each command says what failed and what to do.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_each_command_names_a_remedy() {
    for words in [
        "pool list",
        "pool pause ar:1",
        "pool evict ar:1 --all",
        "task list ar:1",
        "task queue ar:1 d t",
        "task requeue ar:1 d t",
        "ban k --for 1h",
        "key k --policy login",
        "unban k",
        "bans",
        "sequence get order",
        "sequence list",
        "lock list",
        "stock list",
        "store status",
        "store accept-loss",
    ] {
        let mut words: Vec<&str> = words.split(' ').collect();
        words.extend(["--server", "127.0.0.1:1"]);
        let output = run(&words).await;
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(69), 1), "{said}");
        assert_says(&said, &["cannot ", "http://127.0.0.1:1", "UNAVAILABLE", "--server"]);
        assert!(output.stdout.is_empty());
    }
}
