//! `tollgate rate`: its output and its exit codes.

use std::process::Output;

use crate::support::process::{Server, TempFile, free_port, tollgate};

const POLICY: &str = r#"
[[policy]]
name = "login"
[[policy.limit]]
name = "minute"
max = 3
window = "1m"
[[policy.limit]]
name = "day"
max = 50
window = "1day"
"#;

/// Runs the command. Returns its exit code and all of its output.
async fn rate(server: &str, arguments: &str) -> (Option<i32>, String) {
    let mut command = tollgate(&["rate", "--server", server]);
    command.args(arguments.split_whitespace());
    let output: Output =
        tokio::task::spawn_blocking(move || command.output()).await.expect("ran").expect("started");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).expect("text"))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_call_is_a_line_and_the_last_one_is_the_exit_code() {
    let server = Server::start(&[]).await;
    let address = server.address();
    let levels = "user:17 --max 4 --window 1h --warn-above 2 --ban-above 5 --ban-for 5m";
    let (code, text) = rate(&address, &format!("{levels} --count 3")).await;
    assert_eq!(code, Some(0), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].starts_with("1  ALLOW     1/4 used, 3 left, reset in 1h"), "{text}");
    assert!(lines[2].starts_with("3  WARN      3/4 used, 1 left"), "{text}");
    assert!(lines[2].ends_with("crossed: send a notice"), "{text}");

    // The key keeps its usage.
    let (code, text) = rate(&address, &format!("{levels} --count 3")).await;
    assert_eq!(code, Some(1), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("1  WARN      4/4 used, 0 left"), "{text}");
    assert!(lines[1].starts_with("2  THROTTLE  5/4 used, 0 left"), "{text}");
    assert!(lines[1].contains("  retry in 1h"), "{text}");
    assert!(lines[2].starts_with("3  BAN  "), "{text}");
    assert!(
        lines[2].contains("  retry in 1h") && lines[2].contains(", strike 1, above 5"),
        "{text}"
    );

    // Cost 0 spends nothing; cost 10 counts as ten calls.
    assert_eq!(rate(&address, "other --cost 0").await.0, Some(0));
    let (code, text) = rate(&address, "other --cost 10 --algorithm token-bucket").await;
    assert!(code == Some(0) && text.contains("10/10 used, 0 left"), "{text}");
    assert_eq!(rate(&address, "other --algorithm token-bucket").await.0, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_shows_each_of_its_limits() {
    let file = TempFile::new(POLICY);
    let server = Server::start(&["--config", file.path()]).await;
    let (code, text) = rate(&server.address(), "user:17 --policy login").await;
    assert_eq!(code, Some(0), "{text}");
    for part in ["minute 1/3 used, 2 left", "day 1/50 used, 49 left"] {
        assert!(text.contains(part), "{text}");
    }
    let (code, text) = rate(&server.address(), "user:17 --policy logout").await;
    assert_eq!(code, Some(69), "{text}");
    for part in ["NOT_FOUND", "logout", "--max"] {
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_the_command_names_a_remedy() {
    let (code, text) = rate(&format!("127.0.0.1:{}", free_port()), "user:17").await;
    assert_eq!((code, text.lines().count()), (Some(69), 1), "{text}");
    for part in ["user:17", "UNAVAILABLE", "tollgate serve", "--server"] {
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test]
async fn a_wrong_command_line_exits_with_64() {
    for arguments in [
        "",
        "user:17 --max many",
        "user:17 --policy login --max 3",
        "user:17 --warn-above 10",
        "user:17 --burst 3",
        "user:17 --algorithm calendar-window --window 7s",
    ] {
        let (code, text) = rate("127.0.0.1:1", arguments).await;
        assert_eq!(code, Some(64), "{arguments}: {text}");
    }
}
