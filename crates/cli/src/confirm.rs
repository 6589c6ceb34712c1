//! Confirmation of destructive commands.

use std::io::{BufRead, IsTerminal, Write, stderr, stdin};

use super::{exit, print::warn};
use tollgate_telemetry::text::escaped_lines;

/// Asks on the terminal whether to continue, unless `--yes` is set. The error is the exit code if
/// the answer is no, or if `--yes` is missing and there is no terminal.
pub(crate) fn confirm(yes: bool, question: &str) -> Result<(), u8> {
    if yes {
        return Ok(());
    }
    if !stdin().is_terminal() || !stderr().is_terminal() {
        warn(&format!("{question} There is no terminal to ask on: repeat the command with --yes"));
        return Err(exit::USAGE);
    }
    // If the prompt fails, there is no answer, which means no.
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
