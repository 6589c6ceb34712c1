//! `tollgate stock`: its output and its exit codes.

use std::process::{Command, Output};

use crate::support::process::{Server, free_port, tollgate};

fn command(server: &str, arguments: &str) -> Command {
    let mut command = tollgate(&["stock", "--server", server]);
    command.args(arguments.split_whitespace());
    command
}

async fn output(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap()
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// Runs a command that is answered. Returns its line of output and its exit code.
async fn answered(server: &Server, arguments: &str) -> (String, i32) {
    let output = output(command(&server.address(), arguments)).await;
    assert_eq!(text(output.stderr), "", "{arguments}");
    let said = text(output.stdout);
    assert_eq!(said.lines().count(), 1, "{said}");
    (said.trim_end().to_owned(), output.status.code().unwrap())
}

/// Runs a command that fails. Returns standard error; standard output must be empty.
async fn failed(server: &str, arguments: &str, code: i32) -> String {
    let output = output(command(server, arguments)).await;
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert_eq!((output.status.code(), &*stdout), (Some(code), ""), "{arguments}: {stderr}");
    stderr
}

fn assert_says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in {said:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_from_the_shell() {
    let server = Server::start(&[]).await;
    let levels = |on_hand: u64, reserved: u64, sold: u64| {
        let available = on_hand - reserved;
        format!("tv: {on_hand} on hand, {available} available, {reserved} reserved, {sold} sold")
    };
    assert_eq!(answered(&server, "set tv 3").await, (levels(3, 0, 0), 0));
    let (said, code) = answered(&server, "reserve tv order-1 2").await;
    assert!(said.starts_with("RESERVED  2 until 20") && said.ends_with(&levels(3, 2, 0)), "{said}");
    assert_eq!(code, 0);
    let held = format!("{}, 1 hold", levels(3, 2, 0));
    assert_eq!(answered(&server, "get tv").await, (held, 0));
    let (json, code) = answered(&server, "get tv --output json").await;
    assert!(json.ends_with("},\"holds\":\"1\"}") && code == 0, "{json}");
    let (again, code) = answered(&server, "reserve tv order-1 2").await;
    assert_eq!((again, code), (said.replace("Z  ", "Z, replayed  "), 0));

    let (said, code) = answered(&server, "reserve tv order-2 2").await;
    assert_eq!(code, 1, "{said}");
    assert!(said.starts_with("SHORT  retry in ") && said.ends_with(&levels(3, 2, 0)), "{said}");
    let short = answered(&server, "reserve tv order-2 4").await;
    assert_eq!(short, (format!("SHORT  {}", levels(3, 2, 0)), 1));

    let sold = |word: &str| format!("{word}  {}", levels(1, 0, 2));
    assert_eq!(answered(&server, "confirm tv order-1").await, (sold("CONFIRMED"), 0));
    assert_eq!(answered(&server, "confirm tv order-1").await, (sold("ALREADY_CONFIRMED"), 0));
    assert_eq!(answered(&server, "cancel tv order-1").await, (sold("ALREADY_CONFIRMED"), 1));
    assert_eq!(answered(&server, "confirm tv order-9").await, (sold("UNKNOWN"), 1));
    assert_eq!(answered(&server, "cancel tv order-9").await, (sold("UNKNOWN"), 1));
    let settled = answered(&server, "reserve tv order-1").await;
    assert_eq!(settled, (sold("ALREADY_SETTLED  2 confirmed"), 1));

    let (said, code) = answered(&server, "reserve tv order-3 --buyer ann --buyer-limit 1").await;
    assert!(said.starts_with("RESERVED  1 until 20") && code == 0, "{said}");
    let limited = answered(&server, "reserve tv order-4 --buyer ann --buyer-limit 1").await;
    assert_eq!(limited, (format!("BUYER_LIMIT  has 1  {}", levels(1, 1, 2)), 1));
    assert_eq!(answered(&server, "cancel tv order-3").await, (sold("CANCELLED"), 0));
    assert_eq!(answered(&server, "cancel tv order-3").await, (sold("ALREADY_CANCELLED"), 0));
    assert_eq!(answered(&server, "confirm tv order-3").await, (sold("CANCELLED"), 1));

    let added = answered(&server, "add tv 5 --request-id truck").await;
    assert_eq!(added, (levels(6, 0, 2), 0));
    assert_eq!(answered(&server, "add tv -4").await, (levels(2, 0, 2), 0));
    let again = answered(&server, "add tv 5 --request-id truck").await;
    assert_eq!(
        again,
        (format!("replayed; the stock at the time of the first call  {}", levels(6, 0, 2)), 0)
    );
    let free = format!("{}, 0 holds", levels(2, 0, 2));
    assert_eq!(answered(&server, "get tv").await, (free, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_expires_and_is_paid_late() {
    let server = Server::start(&[]).await;
    answered(&server, "set tv 1").await;
    answered(&server, "reserve tv order-1 --hold 100ms").await;
    tokio::time::sleep(std::time::Duration::from_millis(150)).await;
    let (said, code) = answered(&server, "cancel tv order-1").await;
    assert_eq!((said.starts_with("EXPIRED  tv: 1 on hand, 1 available"), code), (true, 1));
    let (said, code) = answered(&server, "confirm tv order-1").await;
    assert_eq!((said.starts_with("CONFIRMED  late, retaken  tv: 0 on hand"), code), (true, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_a_remedy() {
    let server = Server::start(&[]).await;
    let address = server.address();
    for verb in ["get tv", "add tv 1", "reserve tv o", "confirm tv o", "cancel tv o"] {
        let said = failed(&address, verb, 69).await;
        assert_says(&said, &["`tv`", &address, "NOT_FOUND", "with `tollgate stock set`"]);
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    answered(&server, "set tv 5").await;
    answered(&server, "reserve tv o 5").await;
    let said = failed(&address, "add tv -1", 69).await;
    assert_says(&said, &["FAILED_PRECONDITION", "below the reserved quantity, 5", "holds lapse"]);
    let said = failed(&address, "add tv 9007199254740991", 69).await;
    assert_says(&said, &["OUT_OF_RANGE", "9007199254740991", "set or add less"]);

    let nobody = format!("127.0.0.1:{}", free_port());
    let said = failed(&nobody, "get tv", 69).await;
    assert_says(&said, &["`tv`", "UNAVAILABLE", "tollgate serve", "--server"]);

    server.process.signal("-STOP");
    let (reserved, set, added) = tokio::join!(
        failed(&address, "reserve tv order-1", 69),
        failed(&address, "set tv 9", 69),
        failed(&address, "add tv 9 --request-id truck", 69),
    );
    server.process.signal("-CONT");
    assert_says(&reserved, &["DEADLINE_EXCEEDED", "repeat the same command"]);
    assert_says(&set, &["DEADLINE_EXCEEDED", "check with `tollgate stock get`"]);
    assert_says(&added, &["DEADLINE_EXCEEDED", "repeat the same command"]);
}

#[tokio::test]
async fn a_wrong_command_line_exits_with_64() {
    for arguments in [
        "",
        "sell tv",
        "get",
        "set tv",
        "set tv -1",
        "set tv 9007199254740992",
        "add tv 0",
        "reserve tv",
        "reserve tv o 0",
        "reserve tv o --hold 0ms",
        "reserve tv o --buyer-limit 1",
        "confirm tv",
        "get tv radio",
    ] {
        failed("127.0.0.1:1", arguments, 64).await;
    }
}
