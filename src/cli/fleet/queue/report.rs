//! The report of a run of queued tasks.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::{
    ledger::{Faults, Ledger, Totals},
    lists::Lists,
    tally::Tally,
    witness::Seen,
};
use crate::{
    cli::fleet::report::{Fleet, Quantiles},
    decision::text::{grouped, length},
};

/// The results of a run; `Display` prints the report.
#[derive(Debug, Clone, Default)]
pub(in crate::cli::fleet) struct Report {
    /// Describes the run.
    title: String,
    rows: Vec<(&'static str, Option<u64>)>,
    failed: BTreeMap<&'static str, u64>,
    latencies: Quantiles,
    tasks: u64,
    /// Sums of the ledger.
    totals: Totals,
    faults: Faults,
    open: u64,
    dead: u64,
    lost: u64,
    refused: u64,
    in_flight_most: u64,
    capacity: u64,
    length: Duration,
    /// `None` if the server's lists could not be read.
    lists: Option<Lists>,
    seen: Seen,
}

impl Report {
    /// Reads the counters.
    pub(super) fn new(fleet: &Fleet, tasks: u32, ledger: &Ledger, tally: &Tally) -> Report {
        let (devices, totals) = (&tally.devices, ledger.totals());
        let (dead, open) = (ledger.dead().len() as u64, ledger.open().len() as u64);
        let count = fleet.regular + fleet.silent + fleet.late + fleet.crashing;
        let rows = vec![
            ("Devices", Some(count)),
            ("  regular", Some(fleet.regular)),
            ("  silent", Some(fleet.silent)),
            ("  late", Some(fleet.late)),
            ("  crashing", Some(fleet.crashing)),
            ("  sending twice", Some(fleet.twice)),
            ("Tasks", Some(tasks.into())),
            ("  done", Some(totals.done)),
            ("  among them late", Some(totals.done_late)),
            ("  dead", Some(dead)),
            ("  neither", Some(open)),
            ("Attempts", Some(totals.dispatched)),
            ("  that failed", Some(totals.failed)),
            ("  of lost answers", Some(totals.missed)),
            ("Answers to AdmitTask", None),
            ("  replayed", Some(devices.replayed.get())),
            ("  full", Some(devices.full.get())),
            ("  paused", Some(devices.paused.get())),
            ("  no task", Some(tally.no_task.get())),
            ("Answers to CompleteTask", None),
            ("  completed", Some(devices.completed.get())),
            ("  late", Some(devices.late.get())),
            ("  already completed", Some(devices.already_completed.get())),
            ("  stale token", Some(devices.stale.get())),
            ("  unknown", Some(devices.unknown.get())),
            ("Calls", Some(devices.calls.get())),
        ];
        Report {
            rows,
            failed: devices.failed.by_code(),
            latencies: Quantiles::of(&devices.latencies),
            tasks: tasks.into(),
            totals,
            faults: ledger.faults(),
            open,
            dead,
            lost: tally.lost.get(),
            refused: tally.refused.get(),
            in_flight_most: devices.gauge.most() as u64,
            capacity: devices.capacity().into(),
            ..Report::default()
        }
    }

    /// Sets the title.
    pub(super) fn at(self, title: String) -> Report {
        Report { title, ..self }
    }

    /// Adds the duration and the number of calls.
    pub(super) fn took(mut self, length: Duration, calls: u64) -> Report {
        let seconds = length.as_secs_f64();
        let rate = if seconds > 0.0 { calls as f64 / seconds } else { 0.0 };
        self.rows.push(("  per second", Some(rate.round() as u64)));
        self.rows.push(("  failed", Some(self.failed.values().sum())));
        Report { length, ..self }
    }

    /// Adds the server's lists and the events.
    pub(super) fn compared(self, lists: Option<Lists>, seen: Seen) -> Report {
        Report { lists, seen, ..self }
    }

    /// Whether the server kept its contract.
    pub(in crate::cli::fleet) fn queue_held(&self) -> bool {
        self.wrong().is_empty()
    }

    /// Returns the violations.
    fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut check = |is_wrong: bool, what: String| {
            if is_wrong {
                wrong.push(what);
            }
        };
        let exceeded = self.in_flight_most > self.capacity || self.seen.over_cap > 0;
        check(exceeded, "THE CAP WAS EXCEEDED".to_owned());
        let told = self.faults.told.join("; ");
        check(self.faults.count > 0, format!("{} FAULTS: {told}", grouped(self.faults.count)));
        let missed = self.totals.missed;
        check(missed > self.lost, format!("{missed} ATTEMPTS WENT UNSEEN, {} ANSWERS", self.lost));
        check(self.refused > 0, format!("THE POOL HAD NO ROOM FOR {} TASKS", self.refused));
        check(self.open > 0, format!("{} TASKS ARE NEITHER DONE NOR DEAD", grouped(self.open)));
        match &self.lists {
            Some(lists) => {
                check(lists.queued > 0, format!("{} TASKS ARE STILL QUEUED", lists.queued));
                let differ = format!("{} DEAD TASKS ARE LISTED WRONGLY", lists.differ);
                check(lists.differ > 0, differ);
            }
            None => check(true, "THE SERVER DOES NOT LIST THE TASKS".to_owned()),
        }
        check(self.seen.ended_twice > 0, "EVENTS END AN ADMISSION TWICE".to_owned());
        let (seen, totals) = (&self.seen, &self.totals);
        let said =
            (seen.queued, seen.dispatched, seen.running) == (self.tasks, totals.dispatched, 0);
        // A dead task is completed if its result arrives later.
        let said = said && seen.dead >= self.dead;
        check(seen.lack.is_none() && !said, "EVENTS SAY SOMETHING ELSE".to_owned());
        check(seen.lack.is_some(), "EVENTS ARE MISSING: NOT ALL IS PROVEN".to_owned());
        wrong
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, number) in &self.rows {
            let number = number.map(grouped).unwrap_or_default();
            writeln!(f, "{}", format!("{name:<24}{number:>12}").trim_end())?;
        }
        for (code, count) in &self.failed {
            writeln!(f, "    {code:<20}{:>12}", grouped(*count))?;
        }
        writeln!(f, "Call latency            {}\n", self.latencies)?;

        writeln!(f, "{}", self.title)?;
        writeln!(f, "Over after {}", length(self.length))?;
        match &self.seen.lack {
            None => writeln!(f, "Events: {} seen, none is missing", grouped(self.seen.events))?,
            Some(why) => writeln!(f, "Events: not compared, some are missing: {why}")?,
        }
        let (most, cap) = (grouped(self.in_flight_most), grouped(self.capacity));
        write!(f, "In flight at most {most}, cap {cap}: ")?;
        let wrong = self.wrong();
        if wrong.is_empty() {
            writeln!(f, "the cap held")?;
            return writeln!(f, "Each task ran as often as its attempts say, and is done or dead");
        }
        writeln!(f, "{}", wrong.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{admission::Usage, cli::fleet::queue::ledger::Given};

    /// One task that is completed at its first attempt, and one that is dead after it.
    fn report(lists: Lists, seen: Seen) -> Report {
        let (ledger, tally) = (Ledger::new(2, 2, 1, 0), Tally::default());
        tally.devices.usage(Usage { capacity: 1, in_use: 0 });
        for (number, token) in [(0, 10), (1, 11)] {
            let (attempt, replayed, may_lack, payload) = (1, false, false, &[][..]);
            ledger.dispatched(Given { number, attempt, token, replayed, may_lack, payload });
        }
        let (done, completed) =
            (crate::admission::Outcome::Succeeded, crate::admission::CompleteVerdict::Completed);
        ledger.reported(0, 10, done, completed);
        let fleet = Fleet { regular: 2, ..Fleet::default() };
        Report::new(&fleet, 2, &ledger, &tally)
            .at("Pool `p`".to_owned())
            .took(Duration::from_secs(2), 8)
            .compared(Some(lists), seen)
    }

    fn good() -> (Lists, Seen) {
        let seen = Seen { events: 7, queued: 2, dispatched: 2, dead: 1, ..Seen::default() };
        (Lists { queued: 0, dead: 1, differ: 0 }, seen)
    }

    #[test]
    fn a_run_that_adds_up_held() {
        let (lists, seen) = good();
        let report = report(lists, seen);
        assert!(report.queue_held());
        let text = report.to_string();
        for line in [
            "Tasks                              2",
            "  done                             1",
            "  dead                             1",
            "  per second                       4",
            "Over after 2.0 s",
            "Events: 7 seen, none is missing",
            "In flight at most 0, cap 1: the cap held",
            "Each task ran as often as its attempts say, and is done or dead",
        ] {
            assert!(text.lines().any(|is| is == line), "{line:?} is not in:\n{text}");
        }
    }

    #[test]
    fn what_does_not_add_up_is_told() {
        let (lists, seen) = good();
        let wrong = |lists, seen| report(lists, seen).wrong().join("; ");
        let broken = [
            wrong(Lists { queued: 1, ..lists }, seen.clone()),
            wrong(Lists { differ: 1, ..lists }, seen.clone()),
            wrong(lists, Seen { over_cap: 1, ..seen.clone() }),
            wrong(lists, Seen { ended_twice: 1, ..seen.clone() }),
            wrong(lists, Seen { dispatched: 3, ..seen.clone() }),
            wrong(lists, Seen { dead: 0, ..seen.clone() }),
            wrong(lists, Seen { running: 1, ..seen.clone() }),
        ];
        let parts = ["STILL QUEUED", "LISTED WRONGLY", "CAP WAS", "TWICE"];
        let parts = parts.into_iter().chain(["SOMETHING ELSE"; 3]);
        for (wrong, part) in broken.iter().zip(parts) {
            assert!(wrong.contains(part) && !wrong.contains("; "), "{part}: {wrong}");
        }
        let lacking = Seen { lack: Some("a gap".to_owned()), ..Seen::default() };
        assert!(wrong(lists, lacking).contains("NOT ALL IS PROVEN"));
    }
}
