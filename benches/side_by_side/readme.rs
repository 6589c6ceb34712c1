//! Writes the generated part of benches/README.md, with a description of the machine.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, UNIX_EPOCH},
};

use tollgate_core::time::Clock;

const BEGIN: &str = "<!-- side_by_side: begin; written by `cargo bench --bench side_by_side` -->";
const END: &str = "<!-- side_by_side: end -->";

/// Folder of the results.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches")
}

/// Replaces the text between the markers.
pub(crate) fn write(report: &str) -> Result<(), String> {
    let path = folder().join("README.md");
    let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
    let (before, rest) = text.split_once(BEGIN).ok_or("benches/README.md: no begin marker")?;
    let (_, after) = rest.split_once(END).ok_or("benches/README.md: no end marker")?;
    let text = format!("{before}{BEGIN}\n{}\n{END}{after}", report.trim_end());
    fs::write(&path, text).map_err(|error| error.to_string())
}

/// Date, machine and versions of programs.
pub(crate) fn circumstances() -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("", |line| line.trim_start_matches([' ', '\t', ':']));
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let system = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let system = system.map_or("Linux", |name| name.trim_matches('"'));
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?").to_owned();
    format!(
        "{}, {cores} cores ({model}), {system}, Redis {}, {}. Profile `bench`, which is `dist`. \
         Server, Redis and load share the cores; load of the machine before: {load}.",
        date(),
        redis(),
        version("rustc", &["--version"]),
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

fn version(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(
        |_| format!("{program} ?"),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
