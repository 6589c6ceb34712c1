//! `deploy/tollgate.service`.

use std::process::Command;

use crate::{
    deploy::{succeed, text, tool},
    support::{
        process::{Server, TempFile, tollgate},
        world::admit,
    },
};

const UNIT: &str = "deploy/tollgate.service";
const BINARY: &str = "/usr/local/bin/tollgate ";
const CONFIGURATION: &str = "/etc/tollgate/tollgate.toml";

/// Returns the values of a setting of the unit, in order.
fn values(setting: &str) -> Vec<String> {
    let unit = text(UNIT);
    let values = unit.lines().filter_map(|line| line.strip_prefix(setting)?.strip_prefix('='));
    values.map(str::to_owned).collect()
}

/// 2.0 or less: systemd calls that "OK". The setting of `--threshold` counts tenths.
#[test]
fn the_unit_is_sandboxed() {
    let Some(analyze) = tool("systemd-analyze") else { return };
    succeed(Command::new(analyze).args(["security", "--offline=true", "--threshold=20", UNIT]));
}

#[test]
fn the_unit_grants_what_the_server_needs() {
    let limit: u64 = values("LimitNOFILE")[0].parse().unwrap();
    let configuration: toml::Table = text("deploy/tollgate.toml").parse().unwrap();
    let connections = configuration["connections_max"].as_integer().unwrap() as u64;
    assert!(limit >= connections + 1000, "{limit} files for {connections} connections");

    let drain = configuration["drain_timeout"].as_str().unwrap();
    let drain = humantime::parse_duration(drain).unwrap().as_secs();
    let stop: u64 = values("TimeoutStopSec")[0].parse().unwrap();
    assert!(stop > drain, "SIGKILL after {stop} s, a drain takes {drain} s");

    let families = values("RestrictAddressFamilies").join(" ");
    for family in ["AF_INET", "AF_INET6", "AF_UNIX"] {
        assert!(families.split(' ').any(|it| it == family), "{family}");
    }
    assert_eq!(values("StateDirectory"), ["tollgate"]);
}

/// Runs the commands of the unit, with the binary under test and a configuration of the test.
#[tokio::test(flavor = "multi_thread")]
async fn the_unit_starts_and_reloads() {
    let file = TempFile::new("log_level = \"info\"\n");
    let command = |line: &str| line.replace(CONFIGURATION, file.path());
    let start = values("ExecStart").remove(0);
    let start = command(start.strip_prefix(BINARY).unwrap());
    let start: Vec<&str> = start.split(' ').collect();
    let server =
        Server::spawn(tollgate(&[&start[..], &["--listen", "127.0.0.1:0"]].concat())).await;
    let mut client = server.client().await;

    let [check, signal] = &values("ExecReload")[..] else { panic!("two commands") };
    let check = command(check.strip_prefix(BINARY).unwrap());
    succeed(&mut tollgate(&check.split(' ').collect::<Vec<_>>()));
    let process = server.process.0.id().to_string();
    let signal = signal.replace("$MAINPID", &process);
    let (program, arguments) = signal.split_once(' ').unwrap();
    succeed(Command::new(program).args(arguments.split(' ')));

    // The signal has arrived: it is handled before later calls, or it has ended the process.
    let pool = client.admit_task(admit("p", "d", "t")).await.unwrap().into_inner();
    assert_eq!(pool.usage.unwrap().in_use, 1);

    std::fs::write(file.path(), "log_level = 3\n").unwrap();
    let broken = tollgate(&check.split(' ').collect::<Vec<_>>()).output().unwrap();
    assert_eq!(broken.status.code(), Some(78), "a reload of a broken file fails");
}
