//! The live display on standard error: a bar on a terminal, else a line every
//! few seconds.

use std::{
    io::{IsTerminal, Write, stderr},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};

use super::report::grouped;

const BAR_PERIOD: Duration = Duration::from_millis(250);
const LINE_PERIOD: Duration = Duration::from_secs(5);
/// Two lines, so that nothing is cut off on 80 columns.
const TEMPLATE: &str = "{prefix}  in flight {bar:30} {human_pos}/{human_len}\n{msg}";

/// Shows how a run goes.
#[derive(Debug)]
pub(super) struct Progress {
    /// None when standard error is no terminal.
    bar: Option<ProgressBar>,
    /// Time and calls when last shown.
    shown: (Duration, u64),
}

/// How a run stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing {
    /// Since the start.
    pub(super) elapsed: Duration,
    /// How long new work is asked for.
    pub(super) total: Duration,
    /// Devices in flight.
    pub(super) in_flight: u64,
    /// The cap.
    pub(super) capacity: u32,
    /// Leases admitted.
    pub(super) admitted: u64,
    /// Answers FULL.
    pub(super) full: u64,
    /// Calls made.
    pub(super) calls: u64,
    /// Devices with a task still in hand, once nothing new is asked for.
    pub(super) finishing: Option<usize>,
}

impl Progress {
    /// Picks the form that suits standard error.
    pub(super) fn new() -> Progress {
        let bar = stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(TEMPLATE).ok();
            let style = style.unwrap_or_else(ProgressStyle::default_bar);
            ProgressBar::new(1).with_style(style.progress_chars("█▉▊▋▌▍▎▏ "))
        });
        Progress { bar, shown: (Duration::ZERO, 0) }
    }

    /// How often to show it.
    pub(super) fn period(&self) -> Duration {
        if self.bar.is_some() { BAR_PERIOD } else { LINE_PERIOD }
    }

    /// Shows how a run stands now.
    pub(super) fn show(&mut self, now: &Standing) {
        let (time, rest) = (time(now), self.rest(now));
        self.shown = (now.elapsed, now.calls);
        let Some(bar) = &self.bar else {
            let (in_flight, cap) = (grouped(now.in_flight), grouped(now.capacity.into()));
            // Whoever closed standard error does not want to know.
            let _ = writeln!(stderr(), "{time}  in flight {in_flight}/{cap}  {rest}");
            return;
        };
        bar.set_prefix(time);
        bar.set_message(rest);
        bar.set_length(now.capacity.into());
        bar.set_position(now.in_flight);
        // The draws of the setters are rate-limited: the last could be dropped.
        bar.force_draw();
    }

    /// Takes the bar away, to make room for the report.
    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn rest(&self, now: &Standing) -> String {
        let seconds = now.elapsed.saturating_sub(self.shown.0).as_secs_f64();
        let calls = now.calls.saturating_sub(self.shown.1) as f64;
        let rate = if seconds > 0.0 { calls / seconds } else { 0.0 };
        let mut text = format!(
            "admitted {}  full {}  {} calls/s",
            grouped(now.admitted),
            grouped(now.full),
            grouped(rate.round() as u64)
        );
        if let Some(devices) = now.finishing {
            text += &format!("  finishing {}", grouped(devices as u64));
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
        let progress = Progress { bar: None, shown: (Duration::from_secs(4), 1000) };
        let mut now = Standing {
            elapsed: Duration::from_millis(5990),
            total: Duration::from_secs(90),
            in_flight: 59,
            capacity: 60,
            admitted: 1234,
            full: 5,
            calls: 3985,
            finishing: None,
        };
        assert_eq!(time(&now), "6s of 1m 30s");
        assert_eq!(progress.rest(&now), "admitted 1,234  full 5  1,500 calls/s");
        now.finishing = Some(7);
        assert!(progress.rest(&now).ends_with("finishing 7"));
    }
}
