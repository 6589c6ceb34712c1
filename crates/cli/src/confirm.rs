//! Confirmation of destructive commands.

use std::io::{BufRead, IsTerminal, Write, stderr, stdin};

use super::{exit, print::warn};
use tollgate_telemetry::text::escaped_lines;

/// Asks on the terminal whether to go on, unless `--yes` is given. The error is the exit code: a
/// refusal, or a missing `--yes` where nobody can answer.
pub(crate) fn confirm(yes: bool, question: &str) -> Result<(), u8> {
    if yes {
        return Ok(());
    }
    if !stdin().is_terminal() || !stderr().is_terminal() {
        warn(&format!("{question} Repeat the command with --yes: there is no terminal to ask on"));
        return Err(exit::USAGE);
    }
    // A failed prompt leaves no answer, which refuses.
    let question = escaped_lines(question);
    let _ = write!(stderr(), "{question} [y/N] ");
    let mut answer = String::new();
    let _ = stdin().lock().read_line(&mut answer);
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => {
            warn("nothing was changed");
            Err(exit::REFUSED)
        }
    }
}
