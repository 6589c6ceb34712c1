//! A progress bar on standard error, shown only on a terminal.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressStyle};

const BAR: &str = "{prefix} {bar:30} {human_pos}/{human_len}  {eta}";
const SPINNER: &str = "{prefix} {spinner} {human_pos}  {per_sec}";
/// Number of lines between two updates of the bar.
const EVERY: u64 = 256;

/// The progress of an export or import.
pub(super) struct TransferProgress {
    bar: Option<ProgressBar>,
}

impl TransferProgress {
    /// Creates a bar for a known number of lines, otherwise a spinner.
    pub(super) fn new(what: &'static str, lines: Option<u64>) -> TransferProgress {
        let bar = stderr().is_terminal().then(|| {
            let (bar, template) = match lines {
                Some(lines) => (ProgressBar::new(lines), BAR),
                None => (ProgressBar::new_spinner(), SPINNER),
            };
            let style = ProgressStyle::with_template(template).ok();
            let style = style.unwrap_or_else(ProgressStyle::default_bar);
            bar.with_style(style.progress_chars("█▉▊▋▌▍▎▏ ")).with_prefix(what)
        });
        TransferProgress { bar }
    }

    pub(super) fn show(&self, lines: u64) {
        if let Some(bar) = self.bar.as_ref().filter(|_| lines.is_multiple_of(EVERY)) {
            bar.set_position(lines);
        }
    }

    /// Removes the bar before further output.
    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
