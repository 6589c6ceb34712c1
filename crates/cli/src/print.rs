//! Prints results and problems.

use std::{
    borrow::Cow,
    io::{self, ErrorKind::BrokenPipe, IsTerminal, Write, stderr, stdout},
};

use tollgate_telemetry::text::escaped_lines;

/// Prints a line to standard output. Ignores failures, because the reader may have closed the pipe.
pub fn line(text: &str) {
    let _ = writeln!(stdout(), "{}", escaped_lines(text));
}

/// Prints a problem to standard error.
pub fn warn(text: &str) {
    let _ = writeln!(stderr(), "tollgate: {}", escaped_lines(text));
}

/// Returns the text for standard output: escaped on a terminal, unchanged for programs.
pub fn shown(text: &str) -> Cow<'_, str> {
    if stdout().is_terminal() { escaped_lines(text) } else { Cow::Borrowed(text) }
}

/// Prints a result that is not stored anywhere else, so a failed write is an error. A closed pipe
/// is not an error, because its reader has read enough.
pub fn deliver(text: &str) -> io::Result<()> {
    print(text).map(drop)
}

/// Prints a part of a result. Returns whether the reader of the output wants more.
pub fn print(text: &str) -> io::Result<bool> {
    match stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == BrokenPipe => Ok(false),
        printed => printed.map(|()| true),
    }
}
