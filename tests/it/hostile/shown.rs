//! H18: names with escape sequences or bidi controls are escaped wherever a person sees them.

use std::{
    fs::{self, File},
    process::{Output, Stdio},
    time::Duration,
};

use tokio::task::spawn_blocking;
use tollgate_client::pb::{
    self, lock_service_client::LockServiceClient, rate_service_client::RateServiceClient,
};

use crate::support::{
    locks::{acquire, leased},
    process::{Server, TempFolder, tollgate},
    rates::under,
    world::{admit, complete, duration},
};

/// A name that the contract allows: it has invisible characters and a bidi override, but no control
/// characters.
const NAME: &str = "ar\u{202e}05\u{2028}71\u{200b}\u{feff}";
/// [`NAME`] as people see it.
const SHOWN: &str = "ar\\u{202e}05\\u{2028}71\\u{200b}\\u{feff}";
const UNSAFE: [char; 6] = ['\u{202e}', '\u{2028}', '\u{200b}', '\u{feff}', '\u{1b}', '\u{9b}'];

/// Decodes a text. Panics if it has a character of [`UNSAFE`].
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(!text.contains(UNSAFE), "{text:?}");
    text
}

/// Runs a command. Returns the exit code, output and errors, in which no character is hidden.
async fn run(server: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = tollgate(arguments);
    command.env("TOLLGATE_SERVER", server);
    let Output { status, stdout, stderr } =
        spawn_blocking(move || command.output().unwrap()).await.unwrap();
    (status.code(), plain(&stdout), plain(&stderr))
}

/// Waits until a log file contains `text`. Returns the whole log.
async fn logged(path: &std::path::Path, text: &str) -> String {
    let found = async {
        loop {
            let log = plain(&fs::read(path).unwrap());
            if log.contains(text) {
                return log;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), found).await.expect(text)
}

#[tokio::test(flavor = "multi_thread")]
async fn h18_commands_show_names_escaped() {
    let server = Server::start(&[]).await;
    let (mut client, address) = (server.client().await, server.address());
    client.admit_task(admit(NAME, NAME, NAME)).await.unwrap();
    let address = address.as_str();

    let (code, printed, _) = run(address, &["top", "--once"]).await;
    assert!(code == Some(0) && printed.contains(SHOWN), "{printed}");

    let mut events = client
        .watch_pool(pb::WatchPoolRequest { pool: NAME.to_owned(), ..Default::default() })
        .await
        .unwrap()
        .into_inner();
    client.complete_task(complete(NAME, NAME, NAME)).await.unwrap();
    let completed = events.message().await.unwrap().unwrap();
    client.admit_task(admit(NAME, NAME, "second")).await.unwrap();
    let cursor = completed.event.unwrap().cursor;
    let watch = ["watch", NAME, "--after", &cursor, "--count", "1"];
    let (code, printed, said) = run(address, &watch).await;
    assert!(code == Some(0) && printed.contains(SHOWN), "{printed} {said}");
    let (_, printed, _) = run(address, &[&watch[..], &["--json"]].concat()).await;
    let json: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(json["event"]["deviceId"], NAME);

    let mut rates = RateServiceClient::connect(address.to_owned()).await.unwrap();
    let ban = pb::BanRequest {
        key: NAME.to_owned(),
        duration: Some(duration(Duration::from_secs(60))),
        reason: NAME.to_owned(),
        ..Default::default()
    };
    rates.ban(ban).await.unwrap();
    let (code, printed, _) = run(address, &["rate", NAME]).await;
    assert!(code == Some(1) && printed.contains(SHOWN), "{printed}");

    let (code, printed, _) = run(address, &["stock", "set", NAME, "5"]).await;
    assert!(code == Some(0) && printed.contains(SHOWN), "{printed}");
    let (code, _, said) = run(address, &["stock", "get", &format!("{NAME}2")]).await;
    assert!(code == Some(69) && said.contains(SHOWN), "{said}");

    let mut locks = LockServiceClient::connect(address.to_owned()).await.unwrap();
    locks.acquire_lock(leased(60.0, acquire(NAME, NAME))).await.unwrap();
    let (code, _, said) = run(address, &["lock", NAME, "--", "true"]).await;
    let held = format!("`{SHOWN}` is held by `{SHOWN}`");
    assert!(code == Some(1) && said.contains(&held), "{said}");

    let fleet = ["--devices", "1", "--duration", "100ms", "--task-duration", "10ms"];
    let (_, printed, said) = run(address, &[&["fleet", "--pool", NAME], &fleet[..]].concat()).await;
    assert!((printed + &said).contains(SHOWN), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn h18_errors_of_commands_show_names_escaped() {
    let nobody = "http://127.0.0.1:1";
    for arguments in [
        &["next", NAME][..],
        &["rate", NAME],
        &["watch", NAME],
        &["stock", "get", NAME],
        &["lock", NAME, "--", "true"],
    ] {
        let (code, _, said) = run(nobody, arguments).await;
        assert!(code == Some(69) && said.contains(SHOWN), "{arguments:?}: {said}");
    }
    for arguments in [
        &["rate", "key\u{1b}[2J\u{202e}\u{9b}"][..],
        &["next", "a", "b\u{1b}[2J\u{202e}"],
        &["\u{1b}[2J\u{202e}"],
        &["check-config", "no\u{1b}[2J\u{202e}.toml"],
    ] {
        let (code, _, said) = run(nobody, arguments).await;
        assert!(code == Some(64) || code == Some(78), "{code:?} {said}");
        assert!(said.contains("\\u{202e}"), "{arguments:?}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h18_the_log_shows_names_escaped() {
    let folder = TempFolder::new();
    fs::create_dir_all(folder.path()).unwrap();
    for format in ["text", "json"] {
        let path = folder.path().join(format);
        let mut command = tollgate(&["serve", "--log-format", format, "--log-level", "debug"]);
        command.stderr(Stdio::from(File::create(&path).unwrap()));
        let server = Server::spawn_silent(command).await;
        let mut client = server.client().await;
        // Completing a task that was never admitted logs a refusal with its name.
        client.complete_task(complete(NAME, NAME, "task")).await.unwrap();
        let log = logged(&path, "refused").await;
        assert!(log.contains("202e") && log.contains("2028"), "{log}");
        if format == "json" {
            for line in log.lines() {
                let _: serde_json::Value = serde_json::from_str(line).expect(line);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn j27_the_log_names_an_unknown_policy_once_a_minute_and_escaped() {
    let folder = TempFolder::new();
    fs::create_dir_all(folder.path()).unwrap();
    let path = folder.path().join("log");
    let mut command = tollgate(&["serve", "--log-format", "json"]);
    command.stderr(Stdio::from(File::create(&path).unwrap()));
    let server = Server::spawn_silent(command).await;
    let mut rates = RateServiceClient::connect(server.address()).await.unwrap();
    for policy in [NAME, "other"] {
        for _ in 0..5 {
            let error = rates.check_rate(under("k", policy)).await.unwrap_err();
            assert_eq!(error.code(), tonic::Code::NotFound);
        }
        let batch = pb::CheckRatesRequest { checks: vec![under("k", policy); 100] };
        rates.check_rates(batch).await.unwrap_err();
    }
    let log = logged(&path, "\"other\"").await;
    let shown = SHOWN.replace('\\', "\\\\");
    for name in [&*shown, "other"] {
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(name)).collect();
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert!(line.contains("not configured") && line.contains("WARN"), "{line}");
    }
}
