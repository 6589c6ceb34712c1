//! The fuzz target of configuration files.

use std::path::Path;

use super::{KeySet, build, parse_text};

/// Parses and checks a file as `tollgate check-config` does, without reading the files that it
/// names.
pub fn file(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(file) = parse_text(Path::new("tollgate.toml"), text) {
        let _ = build(file, KeySet::Skip);
    }
}
