//! The contract in `proto/`, by buf: its style, and compatibility with `proto/baseline.binpb`.

use std::process::Command;

use crate::deploy::{path, succeed, tool};

/// Callers of an older version still work, and their code still compiles.
#[test]
fn the_protos_are_clean_and_compatible_with_the_baseline() {
    let Some(buf) = tool("buf") else { return };
    let proto = path("proto");
    succeed(Command::new(&buf).arg("lint").arg(&proto));
    let baseline = path("proto/baseline.binpb");
    succeed(Command::new(&buf).arg("breaking").arg(&proto).arg("--against").arg(baseline));
}
