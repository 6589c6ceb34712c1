//! The live display on standard error: a bar on a terminal, else a line every
//! few seconds.

use std::{
    io::{IsTerminal, Write, stderr},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};

use crate::text::grouped;

const BAR_PERIOD: Duration = Duration::from_millis(250);
const LINE_PERIOD: Duration = Duration::from_secs(5);
/// Two lines, so that nothing is cut off on 80 columns.
const TEMPLATE: &str = "{prefix} {bar:30} {human_pos}/{human_len}\n{msg}";

/// Shows how a run goes.
#[derive(Debug)]
pub(super) struct Progress {
    /// None when standard error is no terminal.
    bar: Option<ProgressBar>,
    shown: Shown,
}

/// The numbers when last shown, to tell rates by.
#[derive(Debug, Clone, Copy, Default)]
struct Shown {
    elapsed: Duration,
    calls: u64,
    level: u64,
}

/// How a run stands.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    /// Since the start.
    pub(super) elapsed: Duration,
    /// How long new work is asked for.
    pub(super) total: Duration,
    /// What the bar is of.
    pub(super) name: &'static str,
    /// How long it is.
    pub(super) level: Level,
    /// What it is held against.
    pub(super) cap: u64,
    /// What else is counted.
    pub(super) counts: Vec<(&'static str, u64)>,
    /// Calls made.
    pub(super) calls: u64,
    /// Those with something still in hand, once nothing new is asked for.
    pub(super) finishing: Option<usize>,
}

/// The length of the bar.
#[derive(Debug, Clone, Copy)]
pub(super) enum Level {
    /// So many now.
    Now(u64),
    /// So many since the start; the bar is of how many a second.
    PerSecond(u64),
}

impl Progress {
    /// Picks the form that suits standard error.
    pub(super) fn new() -> Progress {
        let bar = stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(TEMPLATE).ok();
            let style = style.unwrap_or_else(ProgressStyle::default_bar);
            ProgressBar::new(1).with_style(style.progress_chars("█▉▊▋▌▍▎▏ "))
        });
        Progress { bar, shown: Shown::default() }
    }

    /// How often to show it.
    pub(super) fn period(&self) -> Duration {
        if self.bar.is_some() { BAR_PERIOD } else { LINE_PERIOD }
    }

    /// Shows how a run stands now.
    pub(super) fn show(&mut self, now: &Standing) {
        let (time, rest, level) = (time(now), self.rest(now), self.level(now));
        let so_far = match now.level {
            Level::Now(level) | Level::PerSecond(level) => level,
        };
        self.shown = Shown { elapsed: now.elapsed, calls: now.calls, level: so_far };
        let Some(bar) = &self.bar else {
            let (level, cap) = (grouped(level), grouped(now.cap));
            // Whoever closed standard error does not want to know.
            let _ = writeln!(stderr(), "{time}  {} {level}/{cap}  {rest}", now.name);
            return;
        };
        bar.set_prefix(format!("{time}  {}", now.name));
        bar.set_message(rest);
        bar.set_length(now.cap);
        bar.set_position(level);
        // The draws of the setters are rate-limited: the last could be dropped.
        bar.force_draw();
    }

    /// Takes the bar away, to make room for the report.
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
