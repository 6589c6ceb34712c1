//! `tollgate lock`: how it runs its command, and its exit codes.

mod running;

use std::{
    fs,
    process::{Output, Stdio, id},
    time::Duration,
};

use tokio::net::TcpListener;
use tollgate_client::pb;

use running::{Folder, LONG, WORK};

use crate::support::{
    farm::eventually,
    locks::{Keeper, release},
    process::{Process, Server, free_port, is_free, tollgate},
    world::{micros, redis_url},
};

fn output(server: &str, arguments: &[&str]) -> Output {
    tollgate(&["lock", "--server", server]).args(arguments).output().unwrap()
}

/// Runs a command to its end. Returns the exit code and standard error.
fn ends(server: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = output(server, arguments);
    (status.code(), String::from_utf8(stderr).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_exit_code_of_the_command_is_returned() {
    let server = Server::start(&[]).await;
    let (address, nothing) = (server.address(), String::new());
    for (script, code) in [("true", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143)]
    {
        let ended = ends(&address, &["l", "--", "sh", "-c", script]);
        assert_eq!(ended, (Some(code), nothing.clone()), "{script}");
    }
    let (code, said) = ends(&address, &["l", "--", "no-such-command"]);
    assert!(code == Some(127) && said.contains("cannot run `no-such-command`"), "{said}");
    let (code, said) = ends(&address, &["l", "--", "/"]);
    assert!(code == Some(126) && said.contains("cannot run `/`"), "{said}");
    // None of the commands left a lease.
    assert!(!Keeper::to(&server).await.get("l").await.held);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_gets_its_lease_in_variables_and_tokens_grow() {
    let server = Server::start(&[]).await;
    let script = "echo $TOLLGATE_LOCK_NAME $TOLLGATE_LOCK_OWNER $TOLLGATE_FENCING_TOKEN";
    let mut tokens = Vec::new();
    for owner in ["a", "b", "a"] {
        let run = ["nightly", "--owner", owner, "--", "sh", "-c", script];
        let printed = String::from_utf8(output(&server.address(), &run).stdout).unwrap();
        let token = printed.trim_end().strip_prefix(&format!("nightly {owner} "));
        tokens.push(token.expect(&printed).parse::<u64>().unwrap());
    }
    assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{tokens:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_one_lock_run_one_at_a_time() {
    let (server, folder) = (Server::start(&[]).await, Folder::new());
    let script = "mkdir inside || echo overlap
        echo $TOLLGATE_FENCING_TOKEN >> tokens; sleep 0.1; rmdir inside";
    let start = |_| folder.start(&server.address(), "l --wait 10m", script);
    for running in (0..6).map(start).collect::<Vec<_>>() {
        assert_eq!(running.end().await, (Some(0), String::new(), String::new()));
    }
    let tokens = fs::read_to_string(folder.0.join("tokens")).unwrap();
    let tokens: Vec<u64> = tokens.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(tokens.len(), 6);
    assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{tokens:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_command_names_the_holder() {
    let (server, folder) = (Server::start(&[]).await, Folder::new());
    let first = folder.start(&server.address(), "l --owner first", WORK).started();
    for wait in ["0s", "100ms"] {
        let (code, said) = ends(&server.address(), &["l", "--wait", wait, "--", "echo"]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.starts_with("tollgate: `l` is held by `first`: expires in "), "{said}");
    }
    let waits = folder.start(&server.address(), "l --wait forever", "echo started");
    Keeper::to(&server).await.waiters("l", 1).await;
    folder.end();
    assert_eq!(first.end().await.0, Some(0));
    assert_eq!(waits.started().end().await.0, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_of_a_long_command_is_renewed() {
    let (server, folder) = (Server::start(&[]).await, Folder::new());
    let running = folder.start(&server.address(), "l --lease 2s", WORK).started();
    let locks = Keeper::to(&server).await;
    let token = locks.get("l").await.lease.expect("a lease").fencing_token;
    renewed(&locks, "l", token, Duration::from_secs(5)).await;
    folder.end();
    assert_eq!(running.end().await, (Some(0), String::new(), String::new()));
    assert!(!locks.get("l").await.held);
}

/// Waits until the lease spans at least `length` from its grant to its end.
async fn renewed(locks: &Keeper, name: &str, token: u64, length: Duration) {
    let lasts = async {
        loop {
            let request = pb::GetLockRequest { name: name.into() };
            // A server that has just started answers after it has reached its store.
            if let Ok(answer) = locks.0.clone().get_lock(request).await {
                let lease = answer.into_inner().lease.expect("the lock was not held");
                assert_eq!(lease.fencing_token, token);
                let lasts = micros(lease.expire_time) - micros(lease.grant_time);
                if lasts >= length.as_micros() as u64 {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LONG, lasts).await.expect("the lease is renewed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_the_server_loses_no_lock() {
    let (folder, port, name) = (Folder::new(), free_port(), format!("restart-{}", id()));
    let (listen, engine) = (format!("127.0.0.1:{port}"), redis_url());
    let serve = || {
        let mut command = tollgate(&["serve", "--listen", &listen, "--engine", &engine]);
        let process = Process(command.stdout(Stdio::null()).spawn().unwrap());
        Server { process, port }
    };
    let first = serve();
    first.client().await;
    let arguments = format!("{name} --lease 9s --wait 1m");
    let running = folder.start(&first.address(), &arguments, WORK).started();
    let token = Keeper::to(&first).await.get(&name).await.lease.expect("a lease").fencing_token;
    drop(first);
    // A renewal arrives while no server is running.
    let gone = TcpListener::bind(&listen).await.unwrap();
    let renewal =
        tokio::time::timeout(LONG, gone.accept()).await.expect("no renewal arrived").unwrap();
    drop((renewal, gone));
    eventually("the port is free", async || is_free(port)).await;
    let second = serve();
    second.client().await;
    renewed(&Keeper::to(&second).await, &name, token, Duration::from_millis(9500)).await;
    folder.end();
    assert_eq!(running.end().await, (Some(0), String::new(), String::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_is_passed_to_the_command_and_the_lock_is_released() {
    let (server, folder) = (Server::start(&[]).await, Folder::new());
    let script = format!("trap 'echo tidied; exit 3' TERM; {WORK}");
    let running = folder.start(&server.address(), "l", &script).started();
    running.process.signal("-TERM");
    assert_eq!(running.end().await, (Some(3), "tidied\n".to_owned(), String::new()));
    let locks = Keeper::to(&server).await;
    assert!(!locks.get("l").await.held);

    // A command that still waits leaves the queue, and delays no other waiter.
    locks.acquired("l", "other").await;
    let waits = folder.start(&server.address(), "l --wait forever", "echo started");
    locks.waiters("l", 1).await;
    waits.process.signal("-TERM");
    assert_eq!(waits.end().await, (Some(143), String::new(), String::new()));
    locks.waiters("l", 0).await;
    assert_eq!(locks.held("l", "third").await, "other");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_lock_is_lost_is_asked_to_end() {
    let (server, folder) = (Server::start(&[]).await, Folder::new());
    let locks = Keeper::to(&server).await;
    let script = format!("trap 'echo tidied; exit 0' TERM; {WORK}");
    let running = folder.start(&server.address(), "l --owner me --lease 2s", &script).started();
    assert!(locks.released(release("l", "me")).await);
    locks.acquired("l", "next").await;
    let (code, printed, said) = running.end().await;
    assert_eq!((code, &*printed), (Some(75), "tidied\n"), "{said}");
    let expected = "tollgate: `l` is lost: the lease has ended, another owner may hold it; \
                    sending SIGTERM to the command\n";
    assert_eq!(said, expected);
    assert_eq!(locks.held("l", "third").await, "next");

    // A command that ends before the loss is noticed.
    let run = ["m", "--owner", "me", "--", "sh", "-c"];
    let running = folder.start(&server.address(), "m --owner me --lease 1day", WORK).started();
    assert!(locks.released(release("m", "me")).await);
    locks.acquired("m", "next").await;
    folder.end();
    let (code, _, said) = running.end().await;
    assert!(code == Some(75) && said.contains("`m` was lost before it was released"), "{said}");
    assert_eq!(ends(&server.address(), &[&run[..], &["true"]].concat()).0, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_answer_the_lock_counts_as_lost_at_the_end_of_the_lease() {
    let (server, folder) = (Server::start(&[]).await, Folder::new());
    let stubborn = format!("trap '' TERM; {WORK}");
    let killed = "l --lease 2s --kill-after 100ms";
    let killed = folder.start(&server.address(), killed, &stubborn).started();
    let ignored = "m --lease 2s --if-lost ignore";
    let mut ignored =
        folder.start(&server.address(), ignored, &format!("{WORK}; exit 5")).started();
    server.process.signal("-STOP");
    let (code, _, said) = killed.end().await;
    assert_eq!(code, Some(75), "{said}");
    for part in ["`l` is lost: no renewal was answered", "sending SIGTERM", "sending SIGKILL"] {
        assert!(said.contains(part), "{part:?} is not in {said:?}");
    }
    let told = ignored.said();
    assert!(told.contains("`m` is lost") && told.contains("the command continues"), "{told}");
    assert_eq!(ignored.process.0.try_wait().unwrap(), None);
    folder.end();
    assert_eq!(ignored.end().await, (Some(5), String::new(), String::new()));
    server.process.signal("-CONT");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_release_is_reported_and_changes_no_exit_code() {
    let (server, folder) = (Server::start(&[]).await, Folder::new());
    let address = server.address();
    let running = folder.start(&address, "l", &format!("{WORK}; exit 7")).started();
    drop(server);
    folder.end();
    let (code, _, said) = running.end().await;
    assert_eq!(code, Some(7), "{said}");
    assert!(said.contains("cannot release `l`: UNAVAILABLE"), "{said}");
    assert!(said.ends_with("its lease expires within 30.0 s\n"), "{said}");

    let (code, said) = ends(&address, &["l", "--", "echo"]);
    assert_eq!(code, Some(69), "{said}");
    assert!(said.contains("UNAVAILABLE") && said.contains("tollgate serve"), "{said}");
}

#[test]
fn a_wrong_command_line_exits_with_64() {
    for arguments in [&["l"][..], &["l", "--"], &["l", "ls"], &["l", "--lease", "1ms", "--", "ls"]]
    {
        assert_eq!(ends("127.0.0.1:1", arguments).0, Some(64), "{arguments:?}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn j19_the_command_ends_with_a_killed_tollgate_lock() {
    let server = Server::start(&[]).await;
    for (arguments, ends) in [("l", true), ("m --if-lost ignore", false)] {
        let folder = Folder::new();
        let script = format!("echo $$ > pid\n{WORK}");
        let running = folder.start(&server.address(), arguments, &script).started();
        let pid = fs::read_to_string(folder.0.join("pid")).unwrap();
        let is_running = || fs::exists(format!("/proc/{}", pid.trim())).unwrap();
        assert!(is_running());
        running.process.signal("-KILL");
        if ends {
            eventually("the command has ended", async || !is_running()).await;
        } else {
            let mut process = running.process;
            process.end(LONG).await;
            assert!(is_running(), "the command may continue without the lock");
            folder.end();
            eventually("the command has ended", async || !is_running()).await;
        }
    }
}
