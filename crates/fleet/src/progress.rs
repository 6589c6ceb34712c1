//! Progress on standard error: a bar on a terminal, otherwise a line every few seconds.

use std::{
    io::{IsTerminal, Write, stderr},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};

use tollgate_telemetry::text::grouped;

const BAR_PERIOD: Duration = Duration::from_millis(250);
const LINE_PERIOD: Duration = Duration::from_secs(5);
/// Two lines, so that the text fits into 80 columns.
const TEMPLATE: &str = "{prefix} {bar:30} {human_pos}/{human_len}\n{msg}";

/// Shows the progress of a run.
#[derive(Debug)]
pub(super) struct RunProgress {
    /// `None` if standard error is not a terminal.
    bar: Option<ProgressBar>,
    /// How long new work is started.
    total: Duration,
    /// Course and value of the bar at the last update, for computing rates.
    shown: (Course, u64),
}

/// How far a run has progressed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Course {
    /// Time since the start.
    pub(super) elapsed: Duration,
    /// Calls, answered or failed.
    pub(super) calls: u64,
}

/// The counters of a run that are shown.
#[derive(Debug, Clone)]
pub(super) struct Level {
    /// What the value of the bar counts.
    pub(super) name: &'static str,
    /// Value of the bar.
    pub(super) value: u64,
    /// Whether the bar shows the increase of the value per second.
    pub(super) per_second: bool,
    /// Maximum of the bar.
    pub(super) cap: u64,
    /// Other counters.
    pub(super) counts: Vec<(&'static str, u64)>,
}

impl RunProgress {
    /// Creates a bar on a terminal, otherwise lines.
    pub(super) fn new(total: Duration) -> RunProgress {
        let bar = stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(TEMPLATE).ok();
            let style = style.unwrap_or_else(ProgressStyle::default_bar);
            ProgressBar::new(1).with_style(style.progress_chars("█▉▊▋▌▍▎▏ "))
        });
        RunProgress { bar, total, shown: Default::default() }
    }

    /// Returns the interval between updates.
    pub(super) fn period(&self) -> Duration {
        if self.bar.is_some() { BAR_PERIOD } else { LINE_PERIOD }
    }

    /// Shows the state of a run. `finishing` is the number of actors that are still finishing their
    /// work.
    pub(super) fn show(&mut self, now: &Level, course: Course, finishing: Option<usize>) {
        let (value, rest) = self.texts(now, course, finishing);
        let name = format!("{} of {}  {}", seconds(course.elapsed), seconds(self.total), now.name);
        self.shown = (course, now.value);
        let Some(bar) = &self.bar else {
            // Failures are ignored, because standard error may be closed.
            let (value, cap) = (grouped(value), grouped(now.cap));
            let _ = writeln!(stderr(), "{name} {value}/{cap}  {rest}");
            return;
        };
        bar.set_prefix(name);
        bar.set_message(rest);
        bar.set_length(now.cap);
        bar.set_position(value);
        // Redrawn explicitly, because the setters limit the rate of redraws and may skip the last
        // one.
        bar.force_draw();
    }

    /// Removes the bar before the report is printed.
    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Returns the value of the bar and the text next to it.
    fn texts(&self, now: &Level, course: Course, finishing: Option<usize>) -> (u64, String) {
        let (before, value_before) = self.shown;
        let seconds = course.elapsed.saturating_sub(before.elapsed).as_secs_f64();
        let rate = |count: u64, before| {
            let more = count.saturating_sub(before) as f64;
            if seconds > 0.0 { (more / seconds).round() as u64 } else { 0 }
        };
        let value = if now.per_second { rate(now.value, value_before) } else { now.value };
        let counts = now.counts.iter().map(|(name, count)| format!("{name} {}  ", grouped(*count)));
        let mut text: String = counts.collect();
        text += &format!("{} calls/s", grouped(rate(course.calls, before.calls)));
        if let Some(actors) = finishing {
            text += &format!("  finishing {}", grouped(actors as u64));
        }
        (value, text)
    }
}

fn seconds(length: Duration) -> String {
    let whole = Duration::from_secs(length.as_secs_f64().round() as u64);
    humantime::format_duration(whole).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_cover_the_time_since_the_last_update() {
        let shown = (Course { elapsed: Duration::from_secs(4), calls: 1000 }, 10);
        let progress = RunProgress { bar: None, total: Duration::from_secs(90), shown };
        let counts = vec![("admitted", 1234), ("full", 5)];
        let mut now = Level { name: "in flight", value: 59, per_second: false, cap: 60, counts };
        let course = Course { elapsed: Duration::from_millis(5990), calls: 3985 };
        let (value, text) = progress.texts(&now, course, None);
        assert_eq!((value, &*text), (59, "admitted 1,234  full 5  1,500 calls/s"));
        (now.per_second, now.value) = (true, 408);
        let (value, text) = progress.texts(&now, course, Some(7));
        assert!(value == 200 && text.ends_with("finishing 7"), "{value} {text}");
        assert_eq!([course.elapsed, progress.total].map(seconds), ["6s", "1m 30s"]);
    }
}
