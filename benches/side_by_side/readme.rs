//! Writes the generated part of benches/README.md, and the line above it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::machine;

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
    format!(
        "{}, {}. Profile `bench`, which is `dist`. Server, Redis and load share the cores; load of \
         the machine before: {}.",
        machine::describe(),
        machine::version("rustc", &["--version"]),
        machine::load(),
    )
}
