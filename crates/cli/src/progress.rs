//! A progress bar on standard error, shown only on a terminal.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressStyle};

const BAR: &str = "{prefix} {bar:30} {human_pos}/{human_len}  {eta}";
const SPINNER: &str = "{prefix} {spinner} {human_pos}  {per_sec}";
/// Number of entries between two updates of the bar.
const EVERY: u64 = 256;

/// The progress of a long command.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Creates a bar for a known number of entries, otherwise a spinner.
    pub fn new(what: &'static str, entries: Option<u64>) -> Progress {
        let bar = stderr().is_terminal().then(|| {
            let (bar, template) = match entries {
                Some(entries) => (ProgressBar::new(entries), BAR),
                None => (ProgressBar::new_spinner(), SPINNER),
            };
            let style = ProgressStyle::with_template(template).ok();
            let style = style.unwrap_or_else(ProgressStyle::default_bar);
            bar.with_style(style.progress_chars("█▉▊▋▌▍▎▏ ")).with_prefix(what)
        });
        Progress { bar }
    }

    /// Shows the number of finished entries; redraws only every [`EVERY`] entries.
    pub fn show(&self, entries: u64) {
        if let Some(bar) = self.bar.as_ref().filter(|_| entries.is_multiple_of(EVERY)) {
            bar.set_position(entries);
        }
    }

    /// Removes the bar before further output.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
