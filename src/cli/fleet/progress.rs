//! Progress on standard error: a bar on a terminal, otherwise a line every few seconds.

use std::{
    io::{IsTerminal, Write, stderr},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};

use crate::decision::text::grouped;

const BAR_PERIOD: Duration = Duration::from_millis(250);
const LINE_PERIOD: Duration = Duration::from_secs(5);
/// Two lines, so that the text fits into 80 columns.
const TEMPLATE: &str = "{prefix} {bar:30} {human_pos}/{human_len}\n{msg}";

/// Shows the progress of a run.
#[derive(Debug)]
pub(super) struct Progress {
    /// `None` if standard error is not a terminal.
    bar: Option<ProgressBar>,
    shown: Shown,
}

/// The numbers at the last update, from which rates are computed.
#[derive(Debug, Clone, Copy, Default)]
struct Shown {
    elapsed: Duration,
    calls: u64,
    level: u64,
}

/// The state of a run.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    /// Time since the start.
    pub(super) elapsed: Duration,
    /// Time during which new work is started.
    pub(super) total: Duration,
    /// Name of the value of the bar.
    pub(super) name: &'static str,
    /// Value of the bar.
    pub(super) level: Level,
    /// Maximum of the bar.
    pub(super) cap: u64,
    /// Other counters.
    pub(super) counts: Vec<(&'static str, u64)>,
    /// Number of calls.
    pub(super) calls: u64,
    /// Number of participants that still finish their work, after the end of new work.
    pub(super) finishing: Option<usize>,
}

/// The value of the bar.
#[derive(Debug, Clone, Copy)]
pub(super) enum Level {
    /// A current number.
    Now(u64),
    /// A total since the start; the bar shows its rate per second.
    PerSecond(u64),
}

impl Progress {
    /// Creates a bar on a terminal, otherwise lines.
    pub(super) fn new() -> Progress {
        let bar = stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(TEMPLATE).ok();
            let style = style.unwrap_or_else(ProgressStyle::default_bar);
            ProgressBar::new(1).with_style(style.progress_chars("█▉▊▋▌▍▎▏ "))
        });
        Progress { bar, shown: Shown::default() }
    }

    /// Returns the interval between updates.
    pub(super) fn period(&self) -> Duration {
        if self.bar.is_some() { BAR_PERIOD } else { LINE_PERIOD }
    }

    /// Shows the state of a run.
    pub(super) fn show(&mut self, now: &Standing) {
        let (time, rest, level) = (time(now), self.rest(now), self.level(now));
        let so_far = match now.level {
            Level::Now(level) | Level::PerSecond(level) => level,
        };
        self.shown = Shown { elapsed: now.elapsed, calls: now.calls, level: so_far };
        let Some(bar) = &self.bar else {
            let (level, cap) = (grouped(level), grouped(now.cap));
            // Ignored: standard error may be closed.
            let _ = writeln!(stderr(), "{time}  {} {level}/{cap}  {rest}", now.name);
            return;
        };
        bar.set_prefix(format!("{time}  {}", now.name));
        bar.set_message(rest);
        bar.set_length(now.cap);
        bar.set_position(level);
        // The setters limit the rate of redraws and may skip the last one.
        bar.force_draw();
    }

    /// Removes the bar before the report is printed.
    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn level(&self, now: &Standing) -> u64 {
        match now.level {
            Level::Now(level) => level,
            Level::PerSecond(level) => self.per_second(now, level, self.shown.level),
        }
    }

    fn per_second(&self, now: &Standing, so_far: u64, shown: u64) -> u64 {
        let seconds = now.elapsed.saturating_sub(self.shown.elapsed).as_secs_f64();
        let more = so_far.saturating_sub(shown) as f64;
        if seconds > 0.0 { (more / seconds).round() as u64 } else { 0 }
    }

    fn rest(&self, now: &Standing) -> String {
        let mut text = String::new();
        for (name, count) in &now.counts {
            text += &format!("{name} {}  ", grouped(*count));
        }
        let rate = self.per_second(now, now.calls, self.shown.calls);
        text += &format!("{} calls/s", grouped(rate));
        if let Some(some) = now.finishing {
            text += &format!("  finishing {}", grouped(some as u64));
        }
        text
    }
}

fn time(now: &Standing) -> String {
    let whole = |length: Duration| Duration::from_secs(length.as_secs_f64().round() as u64);
    let (elapsed, total) = (whole(now.elapsed), whole(now.total));
    let text = |length| humantime::format_duration(length).to_string();
    format!("{} of {}", text(elapsed), text(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_since_last_shown() {
        let shown = Shown { elapsed: Duration::from_secs(4), calls: 1000, level: 10 };
        let progress = Progress { bar: None, shown };
        let mut now = Standing {
            elapsed: Duration::from_millis(5990),
            total: Duration::from_secs(90),
            name: "in flight",
            level: Level::Now(59),
            cap: 60,
            counts: vec![("admitted", 1234), ("full", 5)],
            calls: 3985,
            finishing: None,
        };
        assert_eq!(time(&now), "6s of 1m 30s");
        assert_eq!(progress.rest(&now), "admitted 1,234  full 5  1,500 calls/s");
        assert_eq!(progress.level(&now), 59);
        now.level = Level::PerSecond(408);
        assert_eq!(progress.level(&now), 200);
        now.finishing = Some(7);
        assert!(progress.rest(&now).ends_with("finishing 7"));
    }
}
