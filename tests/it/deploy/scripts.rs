//! The scripts of this repository, by shellcheck.

use std::process::Command;

use crate::deploy::{path, succeed, tool};

const SCRIPTS: [&str; 7] = [
    ".ci/run",
    "fuzz/corpus.sh",
    "fuzz/run.sh",
    "tests/clients.sh",
    "tests/farm.sh",
    "tests/run.sh",
    "tests/tools.sh",
];

#[test]
fn the_scripts_have_no_finding() {
    let Some(shellcheck) = tool("shellcheck") else { return };
    // A copy of the sources may lack the folder .ci.
    let scripts = SCRIPTS.iter().filter(|script| path(script).exists());
    succeed(Command::new(shellcheck).arg("-x").args(scripts));
}
