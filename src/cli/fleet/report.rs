//! The report of a run of devices.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::{
    plan::{Kind, Manner},
    tally::{Tally, Times},
};
use crate::decision::text::{grouped, length};

/// The results of a run; `Display` prints the report.
#[derive(Debug, Clone, Default)]
pub(super) struct Report {
    pub(super) server: String,
    pub(super) pool: String,
    pub(super) seed: u64,
    pub(super) fleet: Fleet,
    /// Time during which new work was started.
    pub(super) asked_for: Duration,
    /// Time after that, in which running tasks were finished.
    pub(super) finished_in: Duration,
    /// Number of calls while new work was started.
    pub(super) calls_asking: u64,
    pub(super) in_flight_most: u64,
    pub(super) capacity: u32,
    pub(super) leases: Leases,
    pub(super) answers: Answers,
    pub(super) calls: u64,
    pub(super) failed: BTreeMap<&'static str, u64>,
    /// Number of tasks that still waited for a slot at the end.
    pub(super) unserved: u64,
    pub(super) waits: Quantiles,
    pub(super) latencies: Quantiles,
}

/// Number of devices of each kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fleet {
    pub(super) regular: u64,
    pub(super) silent: u64,
    pub(super) late: u64,
    pub(super) crashing: u64,
    pub(super) twice: u64,
}

/// Number of leases by their end.
#[derive(Debug, Clone, Default)]
pub(super) struct Leases {
    pub(super) admitted: u64,
    pub(super) reported: u64,
    pub(super) expired: u64,
    pub(super) left_running: u64,
}

/// Number of answers of each kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Answers {
    pub(super) replayed: u64,
    pub(super) full: u64,
    pub(super) paused: u64,
    pub(super) done_before: u64,
    pub(super) completed: u64,
    pub(super) already_completed: u64,
    pub(super) late: u64,
    pub(super) stale: u64,
    pub(super) unknown: u64,
}

/// The median and the 99th percentile; `None` without values.
#[derive(Debug, Clone, Default)]
pub(super) struct Quantiles(pub(super) Option<(Duration, Duration)>);

impl Fleet {
    /// Counts the kinds.
    pub(super) fn of(kinds: &[Kind]) -> Fleet {
        let count =
            |is: &dyn Fn(&Kind) -> bool| kinds.iter().filter(|kind| is(kind)).count() as u64;
        Fleet {
            regular: count(&|kind| kind.manner == Manner::Regular),
            silent: count(&|kind| kind.manner == Manner::Silent),
            late: count(&|kind| kind.manner == Manner::Late),
            crashing: count(&|kind| kind.manner == Manner::Crashing),
            twice: count(&|kind| kind.twice),
        }
    }
}

impl Report {
    /// Reads the counters.
    pub(super) fn count(&mut self, tally: &Tally) {
        self.in_flight_most = tally.gauge.most() as u64;
        self.capacity = tally.capacity();
        self.leases = Leases {
            admitted: tally.admitted.get(),
            reported: tally.reported.get(),
            expired: tally.expired.get(),
            left_running: tally.left_running(),
        };
        self.answers = Answers {
            replayed: tally.replayed.get(),
            full: tally.full.get(),
            paused: tally.paused.get(),
            done_before: tally.done_before.get(),
            completed: tally.completed.get(),
            already_completed: tally.already_completed.get(),
            late: tally.late.get(),
            stale: tally.stale.get(),
            unknown: tally.unknown.get(),
        };
        self.calls = tally.calls.get();
        self.failed = tally.failed.by_code();
        self.unserved = tally.unserved.get();
        self.waits = Quantiles::of(&tally.waits);
        self.latencies = Quantiles::of(&tally.latencies);
    }

    /// Whether the number of devices in flight never exceeded the capacity.
    pub(super) fn cap_held(&self) -> bool {
        self.in_flight_most <= u64::from(self.capacity)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, number) in self.rows() {
            let number = number.map(grouped).unwrap_or_default();
            writeln!(f, "{}", format!("{name:<24}{number:>12}").trim_end())?;
        }
        writeln!(f, "Call latency            {}", self.latencies)?;
        write!(f, "Wait for a slot         {}", self.waits)?;
        match self.unserved {
            0 => writeln!(f, "\n")?,
            unserved => writeln!(f, "; {} still waited at the end\n", grouped(unserved))?,
        }

        let (asked, finished) = (self.asked_for.as_secs_f64(), self.finished_in.as_secs_f64());
        writeln!(f, "Pool `{}` at {}, seed {}", self.pool, self.server, self.seed)?;
        writeln!(f, "Asked for {asked:.1} s, finished what was in hand in {finished:.1} s")?;
        let (most, cap) = (grouped(self.in_flight_most), grouped(self.capacity.into()));
        let held = if self.cap_held() { "the cap held" } else { "THE CAP WAS EXCEEDED" };
        writeln!(f, "In flight at most {most}, cap {cap}: {held}")
    }
}

impl Report {
    /// Returns the rows of the report. A row without a number is a heading.
    fn rows(&self) -> Vec<(String, Option<u64>)> {
        let (fleet, leases, answers) = (&self.fleet, &self.leases, &self.answers);
        let devices = fleet.regular + fleet.silent + fleet.late + fleet.crashing;
        let seconds = self.asked_for.as_secs_f64();
        let rate = if seconds > 0.0 { self.calls_asking as f64 / seconds } else { 0.0 };
        let rows = [
            ("Devices", Some(devices)),
            ("  regular", Some(fleet.regular)),
            ("  silent", Some(fleet.silent)),
            ("  late", Some(fleet.late)),
            ("  crashing", Some(fleet.crashing)),
            ("  sending twice", Some(fleet.twice)),
            ("Leases admitted", Some(leases.admitted)),
            ("  reported", Some(leases.reported)),
            ("  expired, no result", Some(leases.expired)),
            ("  left running", Some(leases.left_running)),
            ("Answers to AdmitTask", None),
            ("  full", Some(answers.full)),
            ("  paused", Some(answers.paused)),
            ("  replayed", Some(answers.replayed)),
            ("  already completed", Some(answers.done_before)),
            ("Answers to CompleteTask", None),
            ("  completed", Some(answers.completed)),
            ("  late", Some(answers.late)),
            ("  already completed", Some(answers.already_completed)),
            ("  stale token", Some(answers.stale)),
            ("  unknown", Some(answers.unknown)),
            ("Calls", Some(self.calls)),
            ("  per second", Some(rate.round() as u64)),
            ("  failed", Some(self.failed.values().sum())),
        ];
        let failed = self.failed.iter();
        let failed = failed.map(|(code, count)| (format!("    {code}"), Some(*count)));
        rows.into_iter().map(|(name, number)| (name.to_owned(), number)).chain(failed).collect()
    }
}

impl Quantiles {
    pub(super) fn of(times: &Times) -> Quantiles {
        Quantiles(times.quantile(0.5).zip(times.quantile(0.99)))
    }
}

impl fmt::Display for Quantiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((p50, p99)) => write!(f, "p50 {}, p99 {}", length(p50), length(p99)),
            None => f.write_str("none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{admission::Usage, decision::time::monotonic};

    fn sample() -> Report {
        Report {
            server: "http://127.0.0.1:50051".to_owned(),
            pool: "ar:0571".to_owned(),
            seed: 42,
            fleet: Fleet { regular: 1500, silent: 200, late: 200, crashing: 100, twice: 100 },
            asked_for: Duration::from_secs(15),
            finished_in: Duration::from_millis(2300),
            calls_asking: 29_325,
            in_flight_most: 60,
            capacity: 60,
            leases: Leases { admitted: 875, reported: 789, expired: 74, left_running: 12 },
            answers: Answers { full: 28_088, completed: 709, late: 80, ..Answers::default() },
            calls: 29_886,
            failed: [("DEADLINE_EXCEEDED", 2), ("UNAVAILABLE", 1200)].into(),
            unserved: 1125,
            waits: Quantiles(Some((Duration::from_millis(5300), Duration::from_millis(14_300)))),
            latencies: Quantiles(None),
        }
    }

    #[test]
    fn the_report_tells_all_that_was_counted() {
        let text = sample().to_string();
        for line in [
            "Devices                        2,000",
            "  sending twice                  100",
            "Leases admitted                  875",
            "  expired, no result              74",
            "Answers to AdmitTask",
            "  full                        28,088",
            "Calls                         29,886",
            "  per second                   1,955",
            "  failed                       1,202",
            "    DEADLINE_EXCEEDED              2",
            "    UNAVAILABLE                1,200",
            "Call latency            none",
            "Wait for a slot         p50 5.3 s, p99 14.3 s; 1,125 still waited at the end",
            "Pool `ar:0571` at http://127.0.0.1:50051, seed 42",
            "Asked for 15.0 s, finished what was in hand in 2.3 s",
            "In flight at most 60, cap 60: the cap held",
        ] {
            assert!(text.lines().any(|is| is == line), "{line:?} is not in:\n{text}");
        }
    }

    #[test]
    fn one_device_above_the_cap_exceeds_it() {
        let tally = Tally::default();
        tally.usage(Usage { capacity: 60, in_use: 0 });
        let end = monotonic() + Duration::from_secs(60);
        let mut report = sample();
        for _ in 0..60 {
            tally.gauge.enter(end);
        }
        report.count(&tally);
        assert!(report.cap_held());
        tally.gauge.leave(tally.gauge.enter(end));
        report.count(&tally);
        assert!(!report.cap_held());
        let text = report.to_string();
        assert!(text.ends_with("In flight at most 61, cap 60: THE CAP WAS EXCEEDED\n"), "{text}");
    }
}
