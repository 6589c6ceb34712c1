//! `tollgate watch`: its output, how it resumes, and its exit codes.

use std::{
    io::{BufRead, BufReader, Read},
    process::{ChildStdout, Command, Output, Stdio},
    time::Duration,
};

use tokio::task::spawn_blocking;

use crate::support::{
    history::{self, Demands},
    process::{OwnRedis, Process, Server, TempFile, free_port, tollgate},
    queue::{batch, queued},
    world::{Client, admit, complete},
};

/// Longer than a busy machine needs.
const LONG: Duration = Duration::from_secs(60);
const WHOLE: Demands = Demands { from_start: true, complete: false, max_attempts: None };

fn watch(server: &str, arguments: &str) -> Command {
    let mut command = tollgate(&["watch", "--server", server]);
    command.args(arguments.split_whitespace());
    command
}

/// Returns the output of a watch that ends without a signal.
async fn printed(server: &Server, arguments: &str) -> String {
    let mut command = watch(&server.address(), arguments);
    let Output { status, stdout, stderr } =
        spawn_blocking(move || command.output()).await.unwrap().unwrap();
    assert_eq!((status.code(), &*String::from_utf8(stderr).unwrap()), (Some(0), ""));
    String::from_utf8(stdout).unwrap()
}

/// A watch that runs until it is ended.
struct Watch {
    process: Process,
    lines: BufReader<ChildStdout>,
}

impl Watch {
    fn start(server: &str, arguments: &str) -> Watch {
        let mut command = watch(server, arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Watch { process: Process(child), lines }
    }

    async fn line(mut self) -> (Watch, String) {
        let reading = spawn_blocking(move || {
            let mut line = String::new();
            self.lines.read_line(&mut line).unwrap();
            (self, line)
        });
        tokio::time::timeout(LONG, reading).await.expect("a line comes").unwrap()
    }

    /// Waits for the end. Returns the exit code and standard error.
    async fn end(&mut self) -> (Option<i32>, String) {
        let code = self.process.end(LONG).await;
        let mut said = String::new();
        self.process.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (code, said)
    }
}

/// Runs three tasks in a pool `p` of capacity 3. One of them was queued and is completed.
async fn three_tasks(client: &mut Client) {
    let mut configure = crate::support::world::capacity("p", 3);
    configure.max_attempts = Some(1);
    client.configure_pool(configure).await.unwrap();
    client.enqueue_tasks(batch("p", vec![queued("camera-1", "t1")])).await.unwrap();
    client.admit_task(admit("p", "camera-1", "")).await.unwrap();
    client.admit_task(admit("p", "camera-2", "t2")).await.unwrap();
    client.complete_task(complete("p", "camera-1", "t1")).await.unwrap();
    client.admit_task(admit("p", "camera-3", "t3")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_event_is_a_line() {
    let server = Server::start(&[]).await;
    three_tasks(&mut server.client().await).await;
    let text = printed(&server, "p --from-start --count 6").await;
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|it| !it.is_empty()).collect())
        .collect();
    for line in &lines {
        assert!(line[0].ends_with('Z') && line[0].len() == 24, "{text}");
    }
    let token = |line: usize| lines[line].iter().find(|it| it.starts_with("token ")).unwrap();
    let expected = [
        vec!["CONFIGURED", ">=0/3"],
        vec!["ENQUEUED", "camera-1", "t1"],
        vec!["ADMITTED", "camera-1", "t1", "attempt 1", token(2), ">=1/3"],
        vec!["ADMITTED", "camera-2", "t2", token(3), ">=2/3"],
        vec!["COMPLETED", "camera-1", "t1", "attempt 1", token(2), "SUCCEEDED", ">=1/3"],
        vec!["ADMITTED", "camera-3", "t3", token(5), ">=2/3"],
    ];
    for (line, expected) in lines.iter().zip(expected) {
        assert_eq!(line[1..], expected, "{text}");
    }
    assert_eq!(lines.len(), 6, "{text}");

    // A watch that starts now knows all running tasks.
    let watch = Watch::start(&server.address(), "p");
    tokio::time::sleep(Duration::from_millis(500)).await;
    server.client().await.complete_task(complete("p", "camera-2", "t2")).await.unwrap();
    let (mut watch, line) = watch.line().await;
    assert!(line.ends_with("SUCCEEDED  1/3\n") && line.contains("  COMPLETED "), "{line}");
    watch.process.signal("-INT");
    assert_eq!(watch.end().await, (Some(0), String::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn json_output_can_be_checked_and_resumed() {
    let server = Server::start(&[]).await;
    three_tasks(&mut server.client().await).await;
    let first = printed(&server, "p --from-start --json --count 2").await;
    let cursor = first.lines().last().unwrap().split('"').nth(5).unwrap();
    let rest = printed(&server, &format!("p --after {cursor} --json --count 4")).await;
    let record = first + &rest;
    assert_eq!(record.lines().count(), 6);
    let verdict = history::check(record.as_bytes(), WHOLE).unwrap();
    assert!(verdict.holds() && verdict.events == 6, "{verdict}");
    let verdict = history::check(rest.as_bytes(), WHOLE).unwrap();
    assert!(verdict.to_string().contains("attempt 1, token") && !verdict.holds(), "{verdict}");
    let twice = record.replace("camera-3", "camera-2").replace("t3", "t2");
    let verdict = history::check(twice.as_bytes(), WHOLE).unwrap();
    assert!(verdict.to_string().contains("it runs already, under token"), "{verdict}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watch_resumes_after_a_restart_of_the_server() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let port = free_port();
    let serve = async || {
        let (listen, engine) = (format!("127.0.0.1:{port}"), redis.url());
        let mut command = tollgate(&["serve", "--listen", &listen, "--engine", &engine]);
        let process = Process(command.stdout(Stdio::null()).spawn().unwrap());
        let server = Server { process, port };
        let mut client = server.client().await;
        while client.admit_task(admit("warm", "d", "t")).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        (server, client)
    };
    let (server, mut client) = serve().await;
    client.admit_task(admit("p", "camera-1", "t")).await.unwrap();
    let watch = Watch::start(&server.address(), "p --from-start --json");
    let (watch, first) = watch.line().await;
    drop(server);
    let (_server, mut client) = serve().await;
    client.complete_task(complete("p", "camera-1", "t")).await.unwrap();
    client.admit_task(admit("p", "camera-2", "t")).await.unwrap();
    let (watch, second) = watch.line().await;
    let (mut watch, third) = watch.line().await;
    let verdict = history::check([first, second, third].concat().as_bytes(), WHOLE).unwrap();
    assert!(verdict.holds() && verdict.events == 3, "{verdict}");
    watch.process.signal("-TERM");
    let (code, said) = watch.end().await;
    assert_eq!(code, Some(0), "{said}");
    let said: Vec<&str> = said.lines().collect();
    assert!(said[0].starts_with("tollgate: the events of `p` stopped: "), "{said:?}");
    assert!(said[0].ends_with("; trying again"), "{said:?}");
    assert_eq!(said.last(), Some(&"tollgate: the events continue where they stopped"));
}

#[tokio::test(flavor = "multi_thread")]
async fn notices_and_bans_of_a_policy_are_lines_too() {
    let config = TempFile::new(
        "[[policy]]\nname = \"login\"\nlimit = [{ window = \"1m\" }]\ntier = [\
         { above = 1, action = \"WARN\" }, \
         { above = 2, action = \"BAN\", ban_durations = [\"5m\"] }]\n",
    );
    let server = Server::start(&["--config", config.path()]).await;
    let arguments = ["rate", "ann", "--policy", "login", "--count", "3", "--server"];
    let mut calls = tollgate(&arguments);
    let output = calls.arg(server.address()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = printed(&server, "--policy login --from-start --count 2").await;
    let lines: Vec<&str> = text.lines().map(|line| line.split_once("Z  ").unwrap().1).collect();
    assert_eq!(lines[0], "WARNED     ann  2 is above 1", "{text}");
    assert!(lines[1].starts_with("BANNED     ann  3 is above 2  until 2"), "{text}");
    assert!(lines[1].ends_with("Z, strike 1"), "{text}");
    let json = printed(&server, "--policy login --from-start --json --count 2").await;
    for part in ["\"kind\":\"RATE_EVENT_KIND_WARNED\"", "\"above\":\"1\",\"count\":\"2\""] {
        assert!(json.lines().next().unwrap().contains(part), "{json}");
    }

    let output = watch(&server.address(), "--policy nobody").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{said}");
    assert!(said.contains("NOT_FOUND") && said.contains("configuration"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watch_ends_on_a_closed_pipe_and_on_a_signal() {
    let server = Server::start(&[]).await;
    let mut idle = Watch::start(&server.address(), "p");
    tokio::time::sleep(Duration::from_millis(300)).await;
    idle.lines = BufReader::new({
        // Replaces the read end of the watch's pipe, which closes it.
        let mut other = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
        let stdout = other.stdout.take().unwrap();
        other.wait().unwrap();
        stdout
    });
    assert_eq!(idle.end().await, (Some(0), String::new()));
    // A watch that blocks on a full pipe still reacts to a signal.
    let mut client = server.client().await;
    client.configure_pool(crate::support::world::capacity("p", 100_000)).await.unwrap();
    let mut stuck = Watch::start(&server.address(), "p --json");
    tokio::time::sleep(Duration::from_millis(300)).await;
    for task in 0..3000 {
        client.admit_task(admit("p", "camera", &format!("task-{task}"))).await.unwrap();
    }
    stuck.process.signal("-INT");
    assert_eq!(stuck.end().await.0, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_a_remedy() {
    let nobody = format!("127.0.0.1:{}", free_port());
    let output = watch(&nobody, "p").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{said}");
    for part in ["watch `p`", "UNAVAILABLE", "tollgate serve", "--server"] {
        assert!(said.contains(part), "{part:?} is not in {said:?}");
    }
    let server = Server::start(&[]).await;
    let output = watch(&server.address(), "p --after nowhere").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{said}");
    assert!(said.contains("INVALID_ARGUMENT") && said.contains("correct this"), "{said}");
    for arguments in ["", "p --policy q", "p --count 0", "p --after 1 --from-start"] {
        let output = watch(&nobody, arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(64), "{arguments}");
    }
}
