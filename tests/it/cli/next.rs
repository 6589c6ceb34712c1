//! `tollgate next`: its output and its exit codes.

use std::{
    fs::OpenOptions,
    io::{BufRead, BufReader},
    process::{Command, Output, Stdio},
};

use crate::support::process::{Server, TempFile, free_port, tollgate};

const LAYOUTS: &str = r#"
[[sequence]]
match = "ticket"
layout = "T-{n:03}"
[[sequence]]
match = "order"
layout = "ORD-{yyyyMMdd}-{n:06}"
"#;

fn command(server: &str, arguments: &str) -> Command {
    let mut command = tollgate(&["next", "--server", server]);
    command.args(arguments.split_whitespace());
    command
}

async fn output(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap()
}

/// Allocates numbers. Returns standard output; standard error must be empty.
async fn next(server: &Server, arguments: &str) -> String {
    let output = output(command(&server.address(), arguments)).await;
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert_eq!((output.status.code(), &*stderr), (Some(0), ""), "{arguments}: {stdout}");
    stdout
}

/// Allocates no numbers. Returns standard error; standard output must be empty.
async fn refused(server: &str, arguments: &str, code: i32) -> String {
    let output = output(command(server, arguments)).await;
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert_eq!((output.status.code(), &*stdout), (Some(code), ""), "{arguments}: {stderr}");
    stderr
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

fn assert_says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in {said:?}");
    }
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_printed_one_per_line() {
    let server = Server::start(&[]).await;
    assert_eq!(next(&server, "order").await, "1\n");
    assert_eq!(next(&server, "order --count 3").await, "2\n3\n4\n");
    assert_eq!(next(&server, "order --count 3 --step 10").await, "14\n24\n34\n");
    assert_eq!(next(&server, "order --floor 1000 --count 2").await, "1000\n1001\n");
    assert_eq!(next(&server, "order --floor 7").await, "1002\n");
    assert_eq!(next(&server, "other").await, "1\n");

    let many: String = (1..=10_000).map(|value| format!("{value}\n")).collect();
    assert_eq!(next(&server, "many --count 10000").await, many);
    let last = "9223372036854775807";
    assert_eq!(next(&server, &format!("many --floor {last}")).await, format!("{last}\n"));

    let mut from_environment = tollgate(&["next", "order"]);
    from_environment.env("TOLLGATE_SERVER", server.address());
    assert_eq!(text(output(from_environment).await.stdout), "1003\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_printed_in_their_layout() {
    let file = TempFile::new(LAYOUTS);
    let server = Server::start(&["--config", file.path()]).await;
    assert_eq!(next(&server, "ticket --count 2 --step 4").await, "T-004\nT-008\n");
    assert_eq!(next(&server, "ticket --floor 12345").await, "T-12345\n");
    assert_eq!(next(&server, "plain").await, "1\n");

    let orders = next(&server, "order --count 10000").await;
    let orders: Vec<&str> = orders.lines().collect();
    let (day, _) = orders[0].rsplit_once('-').unwrap();
    assert!(day.len() == 12 && day.starts_with("ORD-20"), "{day}");
    let expected: Vec<String> = (1..=10_000).map(|number| format!("{day}-{number:06}")).collect();
    assert_eq!(orders, expected);

    let server = server.address();
    let said = refused(&server, "order --step 1000001", 69).await;
    assert_says(&said, &["`order`", &server, "INVALID_ARGUMENT: step must be", "correct this"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_prints_the_same_numbers() {
    let server = Server::start(&[]).await;
    let taken = next(&server, "order --count 2 --request-id checkout-1").await;
    assert_eq!(taken, "1\n2\n");
    assert_eq!(next(&server, "order").await, "3\n");
    assert_eq!(next(&server, "order --count 2 --request-id checkout-1").await, taken);
    assert_eq!(next(&server, "order --step 5 --request-id checkout-1").await, taken);
    assert_eq!(next(&server, "order --request-id checkout-2").await, "4\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_answer_a_repeat_gets_the_same_numbers() {
    let server = Server::start(&[]).await;
    let address = server.address();
    server.process.signal("-STOP");
    let (named, unnamed) = tokio::join!(
        refused(&address, "order --request-id checkout-1", 69),
        refused(&address, "other", 69),
    );
    server.process.signal("-CONT");
    let may_have = "DEADLINE_EXCEEDED: no answer by the call's deadline; numbers may have been";
    assert_says(&named, &["`order`", &address, may_have, "the same --request-id"]);
    assert_says(&unnamed, &["`other`", &address, may_have, "with a --request-id"]);
    assert_eq!(next(&server, "order --request-id checkout-1").await, "1\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exhausted_sequence_names_a_remedy() {
    let server = Server::start(&[]).await;
    next(&server, "order --floor 9223372036854775807").await;
    let address = server.address();
    for arguments in ["order", "other --count 2 --step 9223372036854775807"] {
        let said = refused(&address, arguments, 69).await;
        assert_says(&said, &[&address, "OUT_OF_RANGE", "another name or layout"]);
    }
    assert_eq!(next(&server, "other").await, "1\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_the_command_names_a_remedy() {
    let said = refused(&format!("127.0.0.1:{}", free_port()), "order", 69).await;
    assert_says(&said, &["`order`", "UNAVAILABLE", "tollgate serve", "--server"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn unprinted_numbers_are_a_failure() {
    let server = Server::start(&[]).await;
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut unprinted = command(&server.address(), "order --request-id checkout-1");
    unprinted.stdout(full).stderr(Stdio::piped());
    let unprinted =
        tokio::task::spawn_blocking(move || unprinted.spawn().unwrap().wait_with_output().unwrap());
    let unprinted = unprinted.await.unwrap();
    assert_eq!(unprinted.status.code(), Some(69));
    assert_says(&text(unprinted.stderr), &["`order`", "No space left", "the same --request-id"]);
    assert_eq!(next(&server, "order --request-id checkout-1").await, "1\n");

    // A reader that stops early, such as `head`; the pipe cannot hold all numbers.
    let mut piped = command(&server.address(), "many --count 10000 --floor 1000000000000000000");
    let mut child = piped.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::with_capacity(20, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ended =
        tokio::task::spawn_blocking(move || child.wait_with_output().unwrap()).await.unwrap();
    assert_eq!((&*line, ended.status.code()), ("1000000000000000000\n", Some(0)));
    assert_eq!(text(ended.stderr), "");
}

#[tokio::test]
async fn a_wrong_command_line_exits_with_64() {
    for arguments in [
        "",
        "order --count 0",
        "order --count 10001",
        "order --step 0",
        "order --floor 9223372036854775808",
        "order --request-id=",
        "order other",
    ] {
        refused("127.0.0.1:1", arguments, 64).await;
    }
}
