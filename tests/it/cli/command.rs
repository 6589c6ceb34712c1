//! The command line: flags, environment, configuration files, exit codes.

use std::{collections::BTreeSet, fs, path::Path, process::Output, time::Duration};

use tollgate_client::pb;

use crate::support::{
    farm::eventually,
    process::{Process, Server, TempFile, free_port, tollgate},
};

fn run(arguments: &[&str]) -> Output {
    tollgate(arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn bad_configuration_names_file_key_and_reason() {
    let cases = [
        ("colour = 1", "colour", "unknown field"),
        ("listen = \"here\"", "listen", "socket address"),
        ("engine = \"sqlite\"", "engine", "expected `embedded` or `redis://"),
        ("engine = \"redis://\"", "engine", "Redis URL"),
        ("log_level = \"loud\"", "log_level", "expected error, warn, info"),
        ("log_format = \"xml\"", "log_format", "`json` or `text`"),
        ("drain_timeout = \"2h\"", "drain_timeout", "expected a duration of 0s to 1h"),
        ("connections_max = 0", "connections_max", "expected 1 to 1000000"),
        ("[limits]\nmessage_timeout = \"1ms\"", "limits.message_timeout", "100ms to 10m"),
        ("[limits]\nrequest_bytes = \"1MiB\"", "limits.request_bytes", "8MiB to 2GiB"),
        ("[limits]\npeer_streams = 0", "limits.peer_streams", "expected 1 to"),
        ("[limits]\nconnection_streams = 70000", "limits.connection_streams", "expected 1 to"),
        ("[limits]\npreface_timeout = \"11m\"", "limits.preface_timeout", "100ms to 10m"),
        ("[limits]\nwaiters = 0", "limits.waiters", "expected 1 to 1000000"),
        ("[limits]\nsequence_waiters = 3", "limits.sequence_waiters", "expected 4 to 1000000"),
        ("[limits]\nwatchers = 1000001", "limits.watchers", "expected 1 to 1000000"),
        ("[limits]\nunsynced_changes = 999", "limits.unsynced_changes", "1000 to 100000000"),
        ("[console]\nenabled = 1", "enabled", "invalid type"),
        ("[console]\nport = 1", "port", "unknown field"),
        ("[limits]\nspeed = 1", "speed", "unknown field"),
        (
            "[limits]\nanswer_bytes = \"8MiB\"\nconnection_answer_bytes = \"9MiB\"",
            "limits.connection_answer_bytes",
            "at most limits.answer_bytes",
        ),
        ("[redis]\nconnections = 0", "connections", "expected 1 to 1024"),
        ("[redis]\nqueued_max = 999", "redis.queued_max", "expected 1000 to 1000000"),
        ("[redis]\nanswer_timeout = \"99ms\"", "redis.answer_timeout", "100ms to 10m"),
        ("[redis]\nkey_prefix = \"a{b\"", "key_prefix", "expected 1 to 64"),
        ("[redis]\nport = 1", "port", "unknown field"),
        ("[[pool]]\ncapacity = 1", "match", "missing field"),
        ("[[pool]]\nmatch = \"a[\"", "pool[0].match", "not a glob"),
        ("[[pool]]\nmatch = \"*\"\ncapacity = -1", "capacity", "expected 0 to 1000000"),
        ("[[pool]]\nmatch = \"*\"\ncapacity = \"many\"", "capacity", "invalid type"),
        ("[[pool]]\nmatch = \"*\"\ndenial_cache = \"11s\"", "denial_cache", "expected a duration"),
        ("[[pool]]\nmatch = \"*\"\non_store_failure = \"grant\"", "on_store_failure", "`allow`"),
        ("[[policy]]\nname = \"p\"\ndenial_cache = 5", "denial_cache", "invalid type"),
        ("[[policy]]\nname = \"p\"\non_store_failure = 1", "on_store_failure", "wanted"),
        ("[[pool]]\nmatch = \"*\"\nafter_failover = \"wait\"", "after_failover", "`hold`"),
        (
            "[[pool]]\nmatch = \"*\"\non_store_failure = \"allow\"\nafter_failover = \"hold\"",
            "pool[0].after_failover",
            "contradicts on_store_failure",
        ),
        ("[[pool]]\nmatch = \"*\"\nwait_replicas = 101", "wait_replicas", "0 to 100"),
        ("[[pool]]\nmatch = \"*\"\nwait_timeout = \"5s\"", "wait_timeout", "1ms to 4s"),
        ("replicas = 0", "replicas", "expected 1 to 1000"),
        ("[[pool]]\nmatch = \"*\"\nlease_duration = \"1ms\"", "lease_duration", "100ms to 1day"),
        ("[[pool]]\nmatch = \"*\"\nlease_duration = 5", "lease_duration", "invalid type"),
        ("[[pool]]\nmatch = \"*\"\nexpiry_grace = \"31days\"", "expiry_grace", "0s to"),
        ("[[pool]]\nmatch = \"*\"\nretention = \"1s\"", "retention", "1m to"),
        ("[[pool]]\nmatch = \"*\"\nsize = 3", "size", "unknown field"),
        ("listen =", "line 1, column 9: listen: ", "string values must be quoted"),
    ];
    for (text, key, reason) in cases {
        let file = TempFile::new(text);
        for arguments in [&["check-config", file.path()][..], &["serve", "--config", file.path()]] {
            let output = run(arguments);
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(78), "{text}: {said}");
            for part in [file.path(), key, reason] {
                assert!(said.contains(part), "{text}: {part:?} is not in {said:?}");
            }
        }
    }
}

#[test]
fn a_missing_file_is_named() {
    let output = run(&["check-config", "/nowhere/tollgate.toml"]);
    assert_eq!(output.status.code(), Some(78));
    assert!(stderr(&output).contains("/nowhere/tollgate.toml"));
}

#[test]
fn the_documented_configuration_is_good() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/tollgate.toml");
    let output = run(&["check-config", path]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    // Each line that is commented out with `#: ` is a valid example, too.
    let text = fs::read_to_string(path).unwrap();
    let all: String = text
        .lines()
        .map(|line| line.strip_prefix("#: ").unwrap_or(line).to_owned() + "\n")
        .collect();
    assert_ne!(all, text);
    let file = TempFile::new(&all);
    let output = run(&["check-config", file.path()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

/// The sections of a configuration file: the prefix of their keys in `docs/configuration.md`, and
/// the lines before a key.
const SECTIONS: [(&str, &str); 17] = [
    ("", ""),
    ("tls.", "[tls]"),
    ("jwt.", "[jwt]"),
    ("caller.", "[[caller]]"),
    ("limits.", "[limits]"),
    ("metrics.", "[metrics]"),
    ("console.", "[console]"),
    ("otlp.", "[otlp]"),
    ("redis.", "[redis]"),
    ("envoy.", "[envoy]"),
    ("namespace.", "[[namespace]]"),
    ("pool.", "[[pool]]"),
    ("policy.", "[[policy]]"),
    ("policy.limit.", "[[policy]]\nname = \"p\"\n[[policy.limit]]"),
    ("policy.tier.", "[[policy]]\nname = \"p\"\n[[policy.tier]]"),
    ("policy.override.", "[[policy]]\nname = \"p\"\n[[policy.override]]"),
    ("sequence.", "[[sequence]]"),
];

/// Returns the keys that the program accepts in a section, by its error about an unknown key.
fn accepted(section: &str) -> Vec<String> {
    let file = TempFile::new(&format!("{section}\nunheard_of = 1\n"));
    let said = stderr(&run(&["check-config", file.path()]));
    let list = said.split_once(", expected ").expect("the error lists the keys").1;
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns the keys of a configuration file and of its examples, each with its section.
fn keys_of(text: &str) -> BTreeSet<String> {
    let (mut keys, mut section) = (BTreeSet::new(), String::new());
    for line in text.lines().map(|line| line.strip_prefix("#: ").unwrap_or(line)) {
        if line.starts_with('[') {
            let name = line.trim_matches(['[', ']']);
            section = format!("{name}.");
            keys.extend(name.contains('.').then(|| name.to_owned()));
        } else if !line.starts_with('#')
            && let Some((key, _)) = line.split_once(" = ")
        {
            keys.insert(format!("{section}{key}"));
        }
    }
    keys
}

#[test]
fn every_key_is_documented() {
    let read = |file| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let (mut documented, mut is_table) = (BTreeSet::new(), false);
    for line in read("docs/configuration.md").lines() {
        is_table = line.starts_with("| key |") || is_table && line.starts_with('|');
        if let Some(row) = line.strip_prefix("| `").filter(|_| is_table) {
            let key = row.split('`').next().unwrap();
            assert!(documented.insert(key.to_owned()), "{key} has two rows");
        }
    }
    assert_eq!(documented, keys_of(&read("deploy/tollgate.toml")), "docs and deploy");

    let sections = [
        "tls",
        "jwt",
        "caller",
        "limits",
        "metrics",
        "console",
        "otlp",
        "redis",
        "envoy",
        "namespace",
        "pool",
        "policy",
        "sequence",
    ];
    let accepted: BTreeSet<String> = SECTIONS
        .iter()
        .flat_map(|(prefix, text)| {
            accepted(text).into_iter().map(move |key| format!("{prefix}{key}"))
        })
        .filter(|key| !sections.contains(&key.as_str()))
        .collect();
    assert_eq!(accepted, documented, "the program and docs");
}

#[test]
fn a_wrong_command_line_exits_with_64() {
    for arguments in [
        &["serve", "--listen", "nowhere"][..],
        &["serve", "--engine", "mysql://x"],
        &["serve", "--log-format", "xml"],
        &["serve", "--colour"],
        &["unheard-of"],
        &["check-config"],
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {}", stderr(&output));
    }
    let mut from_environment = tollgate(&["serve"]);
    let output = from_environment.env("TOLLGATE_LISTEN", "nowhere").output().unwrap();
    assert_eq!(output.status.code(), Some(64));
}

#[test]
fn help_shows_no_password() {
    let mut help = tollgate(&["serve", "--help"]);
    let help = help.env("TOLLGATE_ENGINE", "redis://user:secret@127.0.0.1").output().unwrap();
    assert!(!String::from_utf8_lossy(&help.stdout).contains("secret"));

    // The port is wrong. The error masks the URL.
    let url = "redis://user:secret@127.0.0.1:port";
    let by_argument = run(&["serve", "--engine", url]);
    let by_variable = tollgate(&["serve"]).env("TOLLGATE_ENGINE", url).output().unwrap();
    for output in [by_argument, by_variable] {
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(64), "{said}");
        assert!(said.contains("--engine") && !said.contains("secret"), "{said}");
    }
}

#[test]
fn a_failing_write_to_stdout_causes_no_panic() {
    let file = TempFile::new("");
    let mut command = tollgate(&["check-config", file.path()]);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command.stdout(full).output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
}

#[test]
fn help_and_version_succeed() {
    for (arguments, expected) in [
        (&["--help"][..], "check-config"),
        (&["--help"], "serial numbers that never repeat"),
        (&["next", "--help"], "TOLLGATE_SERVER"),
        (&["serve", "--help"], "TOLLGATE_ENGINE"),
        (&["--version"], env!("CARGO_PKG_VERSION")),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(0));
        assert!(String::from_utf8_lossy(&output.stdout).contains(expected), "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_in_use_is_named() {
    let server = Server::start(&[]).await;
    let listen = format!("127.0.0.1:{}", server.port);
    let output = run(&["serve", "--listen", &listen]);
    assert_eq!(output.status.code(), Some(69));
    assert!(stderr(&output).contains(&listen), "{}", stderr(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_matching_pool_entry_is_used() {
    let file = TempFile::new(
        "[[pool]]\nmatch = \"ar:05*\"\ncapacity = 5\nlease_duration = \"90s\"\n\
         [[pool]]\nmatch = \"ar:*\"\ncapacity = 7\nexpiry_grace = \"2s\"\npaused = true\n",
    );
    let server = Server::start(&["--config", file.path()]).await;
    let mut client = server.client().await;
    for (pool, capacity, seconds, paused) in
        [("ar:0571", 5, 90, false), ("ar:1", 7, 300, true), ("other", 60, 300, false)]
    {
        let request = pb::GetPoolRequest { pool: pool.into() };
        let response = client.get_pool(request).await.unwrap().into_inner();
        let config = response.pool.unwrap().config.unwrap();
        assert_eq!((config.capacity, config.paused), (capacity, paused), "{pool}");
        assert_eq!(config.lease_duration.unwrap().seconds, seconds, "{pool}");
        assert_eq!(config.overrides.len(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_override_the_environment_and_the_environment_overrides_the_file() {
    let (flag, variable, file) = (free_port(), free_port(), free_port());
    let config = TempFile::new(&format!("listen = \"127.0.0.1:{file}\"\n"));
    let variable_text = format!("127.0.0.1:{variable}");
    let flag_text = format!("127.0.0.1:{flag}");
    for (port, flags, variables) in
        [(flag, &["--listen", &flag_text][..], true), (variable, &[], true), (file, &[], false)]
    {
        let mut command = tollgate(flags);
        command.env("TOLLGATE_CONFIG", config.path()).stdout(std::process::Stdio::null());
        if variables {
            command.env("TOLLGATE_LISTEN", &variable_text);
        }
        let process = Process(command.spawn().unwrap());
        let server = Server { process, port };
        server.client().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_json_on_request_and_shows_refusals_at_debug_only() {
    for (level, refusals) in [("debug", 2), ("info", 0)] {
        let log = TempFile::new("");
        let port = free_port();
        let listen = format!("127.0.0.1:{port}");
        let flags = ["--listen", &listen, "--log-format", "json", "--log-level", level];
        let mut command = tollgate(&flags);
        command.stderr(fs::File::create(log.path()).unwrap()).stdout(std::process::Stdio::null());
        let mut server = Server { process: Process(command.spawn().unwrap()), port };
        let mut client = server.client().await;
        client.admit_task(crate::support::world::admit("p", "d", "t")).await.unwrap();
        client.complete_task(crate::support::world::complete("p", "nobody", "t")).await.unwrap();
        client.evict_task(crate::support::world::evict("p", "nobody", "t")).await.unwrap();
        server.process.signal("-TERM");
        server.process.end(Duration::from_secs(20)).await;
        let text = fs::read_to_string(log.path()).unwrap();
        assert!(text.lines().all(|line| line.starts_with('{') && line.ends_with('}')), "{text}");
        assert_eq!(text.matches("\"refused\"").count(), refusals, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn j30_a_start_is_one_record_and_only_a_terminal_gets_a_banner() {
    let version = env!("CARGO_PKG_VERSION");
    for format in ["text", "json"] {
        let (config, log) = (TempFile::new("[[pool]]\nmatch = \"p\"\n"), TempFile::new(""));
        let (port, admin) = (free_port(), format!("127.0.0.1:{}", free_port()));
        let listen = format!("127.0.0.1:{port}");
        let mut command = tollgate(&["--listen", &listen, "--admin", &admin]);
        command.args(["--log-format", format, "--config", config.path()]);
        command.stderr(fs::File::create(log.path()).unwrap());
        let child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut server = Server { process: Process(child), port };
        server.client().await;
        // The kernel accepts connections before the server has written the record.
        eventually("the start is logged", async || {
            fs::read_to_string(log.path()).unwrap().contains("the server has started")
        })
        .await;
        server.process.signal("-TERM");
        server.process.end(Duration::from_secs(20)).await;
        let mut printed = String::new();
        let mut stdout = server.process.0.stdout.take().unwrap();
        std::io::Read::read_to_string(&mut stdout, &mut printed).unwrap();
        let log = fs::read_to_string(log.path()).unwrap();
        let starts: Vec<&str> =
            log.lines().filter(|line| line.contains("the server has started")).collect();
        assert_eq!(starts.len(), 1, "{log}");
        for part in [version, &*listen, &*admin, "embedded, in memory"] {
            assert!(starts[0].contains(part), "no {part} in {}", starts[0]);
        }
        if format == "json" {
            assert_eq!(printed, "");
            let record: serde_json::Value = serde_json::from_str(starts[0]).unwrap();
            assert_eq!(record["listen"], listen);
            assert_eq!(record["hash"].as_str().map(str::len), Some(16));
        } else {
            assert_eq!(printed, format!("Listening on {listen}\n"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn j30_the_banner_of_a_terminal_names_the_console_and_the_token() {
    let token = crate::support::access::Token::new();
    let caller = format!(
        "[[caller]]\nname = \"c\"\ntoken_sha256 = [\"{}\"]\nallow = [\"use\"]\n",
        token.digest
    );
    for (text, header) in [("", false), (&*caller, true)] {
        let config = TempFile::new(text);
        let (port, admin) = (free_port(), format!("127.0.0.1:{}", free_port()));
        let listen = format!("127.0.0.1:{port}");
        let flags = ["--listen", &listen, "--admin", &admin, "--config", config.path()];
        let mut terminal = crate::cli::top::terminal::Terminal::start(&flags);
        terminal.shows("StockService/SetStock").await;
        let seen = terminal.seen();
        assert!(seen.contains(&format!("Console on http://{admin}/")), "{seen}");
        assert_eq!(seen.contains("authorization: Bearer $TOKEN"), header, "{seen}");
        terminal.process.signal("-TERM");
        assert_eq!(terminal.end().await, Some(0));
    }
}
