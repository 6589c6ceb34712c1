//! The report of a run of callers.

use std::{collections::BTreeMap, fmt, time::Duration};

use clap::ValueEnum;

use super::{plot::Plot, tally::Tally, timeline::Columns};
use crate::{
    cli::{
        caller::RuleFlags,
        fleet::{FleetOptions, report::Quantiles},
    },
    decision::text::grouped,
};

/// The results of a run; `Display` prints the report.
#[derive(Debug, Clone)]
pub(in crate::cli::fleet) struct Report {
    server: String,
    seed: u64,
    keys: u64,
    /// Description of the rule.
    rule: String,
    window: String,
    /// Time during which calls were made.
    called_for: Duration,
    /// Number of calls made in that time.
    calls_asking: u64,
    allow: u64,
    warn: u64,
    throttle: u64,
    ban: u64,
    notices: u64,
    calls: u64,
    failed: BTreeMap<&'static str, u64>,
    latencies: Quantiles,
    columns: Columns,
    /// Calls of all keys that may pass per second in the long run.
    sustained: f64,
    /// Maximum number of calls of one key that were allowed in a window, and the permitted number.
    most: u64,
    permitted: u64,
}

impl Report {
    /// Reads the counters.
    pub(super) fn new(
        options: &FleetOptions,
        seed: u64,
        tally: &Tally,
        called_for: Duration,
        calls_asking: u64,
    ) -> Report {
        let callers = &options.callers;
        let window = humantime::format_duration(callers.rule.window.duration()).to_string();
        let algorithm = callers.rule.algorithm.to_possible_value();
        let algorithm = algorithm.as_ref().map_or("", |value| value.get_name());
        Report {
            server: options.server.clone(),
            seed,
            keys: callers.keys.into(),
            rule: format!(
                "{} in {window}, {algorithm}{}",
                grouped(callers.ceiling()),
                levels(&callers.rule)
            ),
            window,
            called_for,
            calls_asking,
            allow: tally.allow.get(),
            warn: tally.warn.get(),
            throttle: tally.throttle.get(),
            ban: tally.ban.get(),
            notices: tally.notices.get(),
            calls: tally.calls.get(),
            failed: tally.failed.by_code(),
            latencies: Quantiles::of(&tally.latencies),
            columns: tally.timeline.columns(called_for),
            sustained: callers.sustained(),
            most: tally.most(),
            permitted: callers.permitted(),
        }
    }

    /// Whether no key exceeded the permitted number of calls in a window.
    pub(in crate::cli::fleet) fn limit_held(&self) -> bool {
        self.most <= self.permitted
    }

    /// Returns the rows of the report. A row without a number is a heading.
    fn rows(&self) -> Vec<(String, Option<u64>)> {
        let seconds = self.called_for.as_secs_f64();
        let rate = if seconds > 0.0 { self.calls_asking as f64 / seconds } else { 0.0 };
        let rows = [
            ("Keys", Some(self.keys)),
            ("Answers to CheckRate", None),
            ("  allow", Some(self.allow)),
            ("  warn", Some(self.warn)),
            ("  throttle", Some(self.throttle)),
            ("  ban", Some(self.ban)),
            ("  with a notice", Some(self.notices)),
            ("Calls", Some(self.calls)),
            ("  per second", Some(rate.round() as u64)),
            ("  failed", Some(self.failed.values().sum())),
        ];
        let failed = self.failed.iter();
        let failed = failed.map(|(code, count)| (format!("    {code}"), Some(*count)));
        rows.into_iter().map(|(name, number)| (name.to_owned(), number)).chain(failed).collect()
    }
}

/// Describes the warn and ban levels of a rule.
fn levels(rule: &RuleFlags) -> String {
    let level = |name: &str, above: Option<u32>| {
        above.map(|above| format!(", {name} above {}", grouped(above.into()))).unwrap_or_default()
    };
    level("warning", rule.warn_above) + &level("ban", rule.ban_above)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, number) in self.rows() {
            let number = number.map(grouped).unwrap_or_default();
            writeln!(f, "{}", format!("{name:<24}{number:>12}").trim_end())?;
        }
        writeln!(f, "Call latency            {}\n", self.latencies)?;

        let title = match self.keys {
            1 => "Allowed per second",
            _ => "Allowed per second, all keys together",
        };
        let plot = Plot { title, columns: &self.columns, limit: self.sustained };
        writeln!(f, "{plot}")?;

        let called_for = self.called_for.as_secs_f64();
        writeln!(f, "At most {} at {}, seed {}", self.rule, self.server, self.seed)?;
        writeln!(f, "Called for {called_for:.1} s")?;
        let (most, permitted) = (grouped(self.most), grouped(self.permitted));
        let held = if self.limit_held() { "the limit held" } else { "THE LIMIT WAS EXCEEDED" };
        let window = &self.window;
        writeln!(
            f,
            "Of one key at most {most} allowed in any {window}, {permitted} permitted: {held}"
        )
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::decision::time::monotonic;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        fleet: FleetOptions,
    }

    fn report(flags: &str, most: u64) -> Report {
        let arguments = ["fleet", "--rate"].into_iter().chain(flags.split_whitespace());
        let options = Cli::try_parse_from(arguments).expect("good flags").fleet;
        let second = Duration::from_secs(1);
        let tally = Tally::new(monotonic(), 30 * second, second);
        (0..1234).for_each(|_| tally.calls.add());
        tally.allow.add();
        tally.failed.add("UNAVAILABLE");
        tally.seen(most);
        Report::new(&options, 42, &tally, 30 * second, 1200)
    }

    #[test]
    fn the_report_tells_all_that_was_counted() {
        let text = report("--max 10 --warn-above 5 --ban-above 20", 10).to_string();
        for line in [
            "Keys                              10",
            "  allow                            1",
            "  warn                             0",
            "Calls                          1,234",
            "  per second                      40",
            "  failed                           1",
            "    UNAVAILABLE                    1",
            "Call latency            none",
            "Allowed per second, all keys together, a column for each 1.0 s:",
            "At most 10 in 1s, sliding-window, warning above 5, ban above 20 at \
             http://127.0.0.1:50051, seed 42",
            "Called for 30.0 s",
            "Of one key at most 10 allowed in any 1s, 10 permitted: the limit held",
        ] {
            assert!(text.lines().any(|is| is == line), "{line:?} is not in:\n{text}");
        }
    }

    #[test]
    fn one_call_more_than_the_algorithm_permits_exceeds_it() {
        for (flags, permitted) in [
            ("--max 10", 10),
            ("--max 10 --ban-above 4", 4),
            ("--max 10 --algorithm fixed-window", 20),
            ("--max 10 --algorithm calendar-window", 20),
            ("--max 10 --algorithm token-bucket", 20),
            ("--max 10 --algorithm token-bucket --burst 40", 50),
            ("--max 0 --algorithm token-bucket --burst 40", 0),
        ] {
            assert!(report(flags, permitted).limit_held(), "{flags}");
            let over = report(flags, permitted + 1);
            assert!(!over.limit_held(), "{flags}");
            assert!(over.to_string().ends_with("THE LIMIT WAS EXCEEDED\n"), "{over}");
        }
    }
}
