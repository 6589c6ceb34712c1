//! The files in `deploy/` and `proto/`, checked by the tools of their platforms. `tests/run.sh all` installs the
//! tools. A test whose tool is missing passes with a message, or fails if
//! `TOLLGATE_TEST_REQUIRE_TOOLS` is set.

mod backup;
mod chart;
mod image;
mod protos;
mod queries;
mod root;
mod rules;
mod scripts;
mod unit;

use std::{
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Returns the path of a file of this repository.
fn path(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

/// Returns the text of a file of this repository.
fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the program `name`, from a folder in `TOLLGATE_TEST_TOOLS` or on the PATH. Without the
/// program the test must end.
fn tool(name: &str) -> Option<PathBuf> {
    let folders = ["TOLLGATE_TEST_TOOLS", "PATH"].into_iter().filter_map(env::var_os);
    let found = folders
        .flat_map(|list| env::split_paths(&list).collect::<Vec<_>>())
        .map(|folder| folder.join(name))
        .find(|file| file.is_file());
    if found.is_none() {
        missing(name);
    }
    found
}

/// Reports that a test needs a program, or a right, that this machine does not have.
fn missing(what: &str) {
    assert!(
        env::var_os("TOLLGATE_TEST_REQUIRE_TOOLS").is_none(),
        "{what} is missing, and TOLLGATE_TEST_REQUIRE_TOOLS is set"
    );
    skipped(what);
}

/// Reports that a test checks nothing.
fn skipped(what: &str) {
    // Directly: the test harness hides the output of passing tests.
    let _ = writeln!(io::stderr(), "skipped: {what} is missing");
}

/// Runs a command, by default in the root of this repository. Returns whether it succeeds, and its
/// output.
fn output(command: &mut Command) -> (bool, String) {
    if command.get_current_dir().is_none() {
        command.current_dir(ROOT);
    }
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text += &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text)
}

/// Runs a command that must succeed. Returns its output.
fn succeed(command: &mut Command) -> String {
    let (is_success, text) = output(command);
    assert!(is_success, "{command:?}:\n{text}");
    text
}
