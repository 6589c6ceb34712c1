//! The machine of a benchmark, for the line above its results.

use std::{
    fs,
    process::Command,
    thread,
    time::{Duration, UNIX_EPOCH},
};

use tollgate_core::time::Clock;

/// Returns the date, the machine and the version of Redis.
pub(crate) fn describe() -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("", |line| line.trim_start_matches([' ', '\t', ':']));
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let system = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let system = system.map_or("Linux", |name| name.trim_matches('"'));
    format!("{}, {cores} cores ({model}), {system}, Redis {}", date(), redis())
}

/// Returns the number of processes that compete for the cores, over the last minute.
pub(crate) fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or("?").to_owned()
}

/// Returns what a program prints about its version.
pub(crate) fn version(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(
        |_| format!("{program} ?"),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

fn date() -> String {
    let now = UNIX_EPOCH + Duration::from_micros(Clock::system().now().0);
    let text = humantime::format_rfc3339_seconds(now).to_string();
    text.chars().take(10).collect()
}

fn redis() -> String {
    let text = version("redis-server", &["--version"]);
    let version = text.split(' ').find_map(|word| word.strip_prefix("v="));
    version.unwrap_or("?").to_owned()
}
