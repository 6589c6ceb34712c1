//! H12, H19: passwords in arguments, usage texts, exit codes.

use std::{
    fs::{self, File},
    process::{Command, Output, Stdio},
    time::Duration,
};

use tokio::task::spawn_blocking;

use crate::support::{
    locks::{Keeper, acquire, leased},
    process::{OwnRedis, Server, TempFile, TempFolder, tollgate},
    world::admit,
};

const PASSWORD: &str = "s3cr3t";
const WARNING: &str = "the password of --engine is in the arguments";

/// Runs a command to its end. Returns the exit code and standard error.
async fn end(mut command: Command) -> (Option<i32>, String) {
    let Output { status, stderr, .. } =
        spawn_blocking(move || command.output().unwrap()).await.unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn h12_a_password_in_the_arguments_causes_a_warning() {
    let (mut redis, folder) = (OwnRedis::prepare(), TempFolder::new());
    fs::create_dir_all(folder.path()).unwrap();
    redis.start().await;
    redis.command(&["CONFIG", "SET", "requirepass", PASSWORD]).await.unwrap();
    let url = format!("redis://:{PASSWORD}@127.0.0.1:{}", redis.port);
    let wrong = format!("redis://:{PASSWORD}-wrong@127.0.0.1:{}", redis.port);
    let file = TempFile::new(&format!("engine = \"{url}\"\n"));
    let plain = redis.url();
    let password = TempFile::new(&format!("{PASSWORD}\n"));
    let in_a_file = ["--engine", &plain, "--engine-password-file", password.path()];
    let configured = format!("engine = {plain:?}\nengine_password_file = {:?}\n", password.path());
    let configured = TempFile::new(&configured);
    let in_arguments: &[&str] = &["--engine", &url];

    for (name, arguments, variable, is_warned) in [
        ("flag", in_arguments, "", true),
        ("variable", &[], &*url, false),
        ("file", &["--config", file.path()], "", false),
        ("password file", &in_a_file, "", false),
        ("configured file", &["--config", configured.path()], "", false),
        ("wrong", &["--engine", &wrong], "", true),
    ] {
        let mut server = tollgate(&["serve", "--listen", "127.0.0.1:0", "--log-level", "debug"]);
        let log = folder.path().join(name);
        server.args(arguments).stderr(Stdio::from(File::create(&log).unwrap()));
        let export = folder.path().join(format!("{name}.jsonl"));
        let mut command = tollgate(&["export", "--output", export.to_str().unwrap()]);
        command.args(arguments);
        if !variable.is_empty() {
            server.env("TOLLGATE_ENGINE", variable);
            command.env("TOLLGATE_ENGINE", variable);
        }
        let server = Server::spawn(server).await;
        let mut client = server.client().await;
        let admitted = async {
            while client.admit_task(admit("pool", "device", "task")).await.is_err()
                && name != "wrong"
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), admitted).await.unwrap();
        let log = fs::read_to_string(&log).unwrap();
        assert_eq!(log.contains(WARNING), is_warned, "{name}: {log}");
        assert!(!log.contains(PASSWORD), "{log}");
        drop(server);

        let (code, said) = end(command).await;
        assert_eq!(code == Some(0), name != "wrong", "{name}: {said}");
        assert_eq!(said.contains(WARNING), is_warned, "{name}: {said}");
        assert!(!said.contains(PASSWORD), "{said}");
        if code == Some(0) {
            let mut command = tollgate(&["import", "--replace", export.to_str().unwrap()]);
            command.args(arguments);
            if !variable.is_empty() {
                command.env("TOLLGATE_ENGINE", variable);
            }
            let (code, said) = end(command).await;
            assert_eq!(code, Some(0), "{said}");
            assert_eq!(said.contains(WARNING), is_warned, "{name}: {said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h12_no_error_shows_a_password() {
    let urls = [
        "http://user:s3cr3t@host",
        "redis://user:s3cr3t@host:port",
        "redis+cluster://user:s3cr3t@host:port",
        "redis+sentinel://user:s3cr3t@host",
        "user:s3cr3t@host",
    ];
    for url in urls {
        for command in ["serve", "export"] {
            let (code, said) = end(tollgate(&[command, "--engine", url])).await;
            assert!(code == Some(64) && said.contains("--engine"), "{code:?} {said}");
            assert!(!said.contains(PASSWORD), "{said}");
            let mut by_variable = tollgate(&[command]);
            by_variable.env("TOLLGATE_ENGINE", url);
            let (code, said) = end(by_variable).await;
            assert!(code == Some(64) && !said.contains(PASSWORD), "{code:?} {said}");
        }
        for line in [format!("engine = \"{url}\""), format!("engine = \"{url}")] {
            let file = TempFile::new(&line);
            let (code, said) = end(tollgate(&["check-config", file.path()])).await;
            let is_masked = !said.contains(PASSWORD);
            assert!(code == Some(78) && is_masked, "{line}: {code:?} {said}");
        }
    }
    let (code, said) = end(tollgate(&["redis://user:s3cr3t@host"])).await;
    assert!(code == Some(64) && !said.contains(PASSWORD), "{code:?} {said}");
    let file = TempFile::new("[redis]\nsentinel_password = s3cr3t\n");
    let (code, said) = end(tollgate(&["check-config", file.path()])).await;
    assert!(code == Some(78) && !said.contains(PASSWORD), "{code:?} {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn h12_a_password_file_that_does_not_fit_is_refused() {
    let (good, empty) = (TempFile::new(PASSWORD), TempFile::new("\n"));
    for (engine, path, reason) in [
        ("embedded", good.path(), "applies only to Redis"),
        ("redis://user:s3cr3t@127.0.0.1:1", good.path(), "already has a password"),
        ("redis://127.0.0.1:1", empty.path(), "expected a password in the file"),
        ("redis://127.0.0.1:1", "/nowhere/password", "No such file"),
    ] {
        for command in ["serve", "export"] {
            let mut command = tollgate(&[command, "--engine-password-file", path]);
            command.env("TOLLGATE_ENGINE", engine);
            let (code, said) = end(command).await;
            assert_eq!(code, Some(78), "{said}");
            let named = format!("engine_password_file = \"{path}\": ");
            assert!(said.contains(&named) && said.contains(reason), "{said}");
            assert!(!said.contains(PASSWORD), "{said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h19_an_error_shows_the_usage_as_typed() {
    for (arguments, usage) in [
        (&["rate"][..], "tollgate rate [OPTIONS] <KEY>"),
        (&["rate", "k", "--max", "3", "--warn-above", "3"], "tollgate rate [OPTIONS] <KEY>"),
        (&["next"], "tollgate next [OPTIONS] <NAME>"),
        (&["lock", "l"], "tollgate lock [OPTIONS] <NAME> -- <COMMAND>..."),
        (&["stock"], "tollgate stock [OPTIONS] <VERB>"),
        (&["stock", "set", "tv"], "tollgate stock set [OPTIONS] <SKU> <ON_HAND>"),
        (&["top", "--bogus"], "tollgate top [OPTIONS]"),
        (&["fleet", "--bogus"], "tollgate fleet [OPTIONS]"),
        (&["serve", "--bogus"], "tollgate serve [OPTIONS]"),
        (&["export", "--bogus"], "tollgate export [OPTIONS]"),
        (&["import"], "tollgate import [OPTIONS] <FILE>"),
        (&["--bogus"], "tollgate [OPTIONS]\n       tollgate <COMMAND>"),
    ] {
        let mut command = tollgate(arguments);
        command.env("TOLLGATE_SERVER", "http://127.0.0.1:1");
        command.env("TOLLGATE_ENGINE", "redis://127.0.0.1:1").env("TOLLGATE_LOG_LEVEL", "info");
        let (code, said) = end(command).await;
        assert_eq!(code, Some(64), "{arguments:?}: {said}");
        assert!(said.contains(&format!("Usage: {usage}\n")), "{arguments:?}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h19_help_lists_every_exit_code() {
    let Output { status, stdout, .. } = tollgate(&["--help"]).output().unwrap();
    let help = String::from_utf8(stdout).unwrap();
    let (_, table) = help.split_once("Exit status:").expect("a table");
    for code in [0, 1, 64, 65, 66, 69, 73, 74, 75, 78, 126, 127, 128] {
        let is_in = table.split_whitespace().any(|word| word == code.to_string());
        assert!(is_in, "{code}: {table}");
    }
    assert_eq!(status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn h19_a_held_lock_exits_with_the_requested_code() {
    let server = Server::start(&[]).await;
    Keeper::to(&server).await.ask(leased(60.0, acquire("held", "other"))).await;
    let lock = |name: &str, more: &[&str], script: &str| {
        let mut command = tollgate(&["lock", "--server", &server.address(), name]);
        command.args(more).args(["--", "sh", "-c", script]);
        end(command)
    };
    for (more, code) in [
        (&[][..], 1),
        (&["--conflict-exit-code", "42"], 42),
        (&["-E", "0"], 0),
        (&["-E", "255"], 255),
        (&["-E", "42", "--wait", "100ms"], 42),
    ] {
        let (ended, said) = lock("held", more, "exit 7").await;
        assert_eq!(ended, Some(code), "{more:?}: {said}");
        assert!(said.contains("held by `other`"), "{said}");
    }
    // The option applies to a held lock only; its range is 0 to 255.
    assert_eq!(lock("free", &["-E", "42"], "exit 1").await.0, Some(1));
    assert_eq!(lock("free", &["-E", "256"], "exit 1").await.0, Some(64));
    assert_eq!(lock("free", &["-E", "-1"], "exit 1").await.0, Some(64));
}
