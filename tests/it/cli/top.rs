//! `tollgate top`: on a terminal, without one, and its exit codes.

pub mod terminal;

use std::process::Output;

use crate::support::{
    process::{Process, Server, free_port, tollgate},
    world::{Client, admit, complete},
};
use terminal::Terminal;

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

async fn take_slot(client: &mut Client, pool: &str) {
    client.admit_task(admit(pool, "camera-1", "t")).await.unwrap();
}

async fn once(server: &str, arguments: &[&str]) -> Output {
    let mut command = tollgate(&["top", "--server", server]);
    command.args(arguments);
    tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap()
}

/// Returns a server on a given port, which a later server may use again.
async fn server_on(port: u16) -> Server {
    let listen = format!("127.0.0.1:{port}");
    let mut command = tollgate(&["serve", "--listen", &listen]);
    let child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    let server = Server { process: Process(child), port };
    server.client().await;
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn pools_are_shown_until_q_is_pressed() {
    let server = Server::start(&[]).await;
    take_slot(&mut server.client().await, "ar:0571").await;
    let mut terminal = Terminal::start(&["top", "--server", &server.address()]);
    terminal.shows(ENTER).await;
    terminal.shows("ar:0571").await;
    terminal.shows("1/60").await;
    terminal.press("?");
    terminal.shows("Ctrl-C").await;
    terminal.press("?jpq");
    assert_eq!(terminal.end().await, Some(0));
    assert!(terminal.seen().contains(LEAVE) && terminal.is_restored(), "{:?}", terminal.seen());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_terminal_is_restored_after_every_end() {
    let server = Server::start(&[]).await;
    for end in ["\x03", "-TERM", "-INT", "-HUP"] {
        let mut terminal = Terminal::start(&["top", "--server", &server.address()]);
        terminal.shows("POOL").await;
        assert!(!terminal.is_restored());
        match end.strip_prefix('-') {
            Some(_) => terminal.process.signal(end),
            None => terminal.press(end),
        }
        assert_eq!(terminal.end().await, Some(0), "{end:?}");
        assert!(terminal.seen().contains(LEAVE) && terminal.is_restored(), "{end:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_display_reconnects_to_a_restarted_server() {
    let port = free_port();
    let server = server_on(port).await;
    let mut terminal = Terminal::start(&["top", "--server", &server.address()]);
    terminal.shows("pools").await;
    drop(server);
    terminal.shows("LOST:").await;
    let server = server_on(port).await;
    take_slot(&mut server.client().await, "found").await;
    terminal.shows("found").await;
    terminal.press("q");
    assert_eq!(terminal.end().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_it_prints_a_table() {
    let server = Server::start(&[]).await;
    let mut client = server.client().await;
    for device in 0..3 {
        client.admit_task(admit("ar:0571", &format!("camera-{device}"), "t")).await.unwrap();
    }
    take_slot(&mut client, "ar:010").await;
    client.complete_task(complete("ar:0571", "camera-0", "t")).await.unwrap();
    for arguments in [&[][..], &["--once"]] {
        let output = once(&server.address(), arguments).await;
        assert_eq!(output.status.code(), Some(0));
        let table = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<Vec<&str>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0].concat(), "POOLINUSEOLDESTQUEUEDWAITINGFULL", "{table}");
        assert_eq!(lines[1][..2], ["ar:0571", "2/60"], "{table}");
        assert_eq!(lines[2][..2], ["ar:010", "1/60"], "{table}");
        assert_eq!(lines.len(), 3, "{table}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_counted() {
    let server = Server::start(&[]).await;
    let mut client = server.client().await;
    let configure = tollgate_client::pb::ConfigurePoolRequest {
        pool: "small".to_owned(),
        capacity: Some(1),
        ..Default::default()
    };
    let pool = client.configure_pool(configure).await.unwrap().into_inner().pool.unwrap();
    assert_eq!(pool.refused, 0);
    for device in 0..5 {
        client.admit_task(admit("small", &format!("camera-{device}"), "t")).await.unwrap();
    }
    let table = String::from_utf8(once(&server.address(), &[]).await.stdout).unwrap();
    assert!(table.lines().nth(1).unwrap().ends_with("  4"), "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_server_is_named_with_a_remedy() {
    let nobody = format!("127.0.0.1:{}", free_port());
    let output = once(&nobody, &[]).await;
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{said}");
    for part in ["show the pools", "UNAVAILABLE", "tollgate serve", "--server"] {
        assert!(said.contains(part), "{part:?} is not in {said:?}");
    }
    let mut terminal = Terminal::start(&["top", "--server", &nobody]);
    assert_eq!(terminal.end().await, Some(69));
    assert!(!terminal.seen().contains(ENTER), "{:?}", terminal.seen());
}
