//! Proves from a pool's events alone that the capacity was never exceeded and that every admission
//! ended once. It relies only on the contract of WatchPool.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
};

use super::{
    admissions::Admissions,
    event::{Event, Kind},
    tasks::Tasks,
};

/// Number of violations that are listed; further ones are counted.
const TOLD_MAX: usize = 20;
/// Number of last events with which repeated events are compared.
const COMPARED_MAX: usize = 10_000;

/// Optional requirements on a record.
#[derive(Debug, Clone, Copy, Default)]
pub struct Demands {
    /// The record begins with the pool's first event.
    pub from_start: bool,
    /// All admissions have ended by the end of the record.
    pub complete: bool,
    /// The largest allowed number of attempts.
    pub max_attempts: Option<u32>,
}

/// Checks the events of a stream, one after the other.
#[derive(Debug)]
pub struct Checker {
    demands: Demands,
    admissions: Admissions,
    tasks: Tasks,
    /// Hashes of the last events, by cursor.
    recent: HashMap<u64, u64>,
    order: VecDeque<u64>,
    first: Option<u64>,
    last: u64,
    last_time: u64,
    verdict: Verdict,
}

/// The result of a check.
#[derive(Debug, Default)]
pub struct Verdict {
    pub events: u64,
    /// Events that arrived more than once.
    pub repeats: u64,
    pub gaps: u64,
    /// Number of times that the clock of the events was set back.
    pub set_back: u64,
    /// Events of kinds that this checker does not know.
    pub others: u64,
    /// The first violations, each with its event.
    pub violations: Vec<String>,
    /// Number of violations.
    pub violated: u64,
    /// A summary of the record, in lines.
    pub summary: String,
}

impl Checker {
    pub fn new(demands: Demands) -> Checker {
        Checker {
            demands,
            admissions: Admissions::new(demands.from_start),
            tasks: Tasks::new(demands.from_start, demands.max_attempts),
            recent: HashMap::new(),
            order: VecDeque::new(),
            first: None,
            last: 0,
            last_time: 0,
            verdict: Verdict::default(),
        }
    }

    /// Checks the next event of the stream.
    pub fn see(&mut self, event: &Event) {
        if event.kind == Kind::Gap {
            return self.gap(event);
        }
        let mut hasher = DefaultHasher::new();
        event.hash(&mut hasher);
        let said = hasher.finish();
        if self.first.is_some() && event.cursor <= self.last {
            // Delivery is at least once: an event with an earlier cursor must be the same event.
            self.verdict.repeats += 1;
            if self.recent.get(&event.cursor).is_some_and(|before| *before != said) {
                self.violation(event, "another event had this cursor before");
            }
            return;
        }
        if self.first.is_some() && event.cursor != self.last + 1 {
            let missing = event.cursor - self.last - 1;
            self.violation(event, &format!("{missing} events before it are missing"));
            self.forget();
        }
        self.first.get_or_insert(event.cursor);
        self.last = event.cursor;
        self.verdict.events += 1;
        self.verdict.others += u64::from(event.kind == Kind::Other);
        self.remember(event.cursor, said);
        if let Some(time) = event.event_time {
            self.verdict.set_back += u64::from(time < self.last_time);
            self.last_time = time;
        }
        for ruling in [self.admissions.see(event), self.tasks.see(event)] {
            if let Err(why) = ruling {
                self.violation(event, &why);
            }
        }
    }

    /// Ends the record. Returns the verdict.
    pub fn finish(mut self) -> Verdict {
        let running = self.admissions.running();
        if self.demands.complete && running > 0 {
            let some = self.admissions.some_running();
            self.add_violation(format!("at the end {running} admissions have not ended: {some}"));
        }
        let ([completed, late, expired, evicted], begun) =
            (self.admissions.ends, self.admissions.begun);
        let tasks = |kind| self.tasks.count(kind);
        self.verdict.summary = format!(
            "  cursors     {} to {}\n  \
             admissions  {begun} began; {completed} completed, {late} late, {expired} expired, \
             {evicted} evicted, {running} running\n  \
             at once     {} at most, capacity {}\n  \
             queued      {} succeeded, {} dead, {} cancelled, {} expired, {} open\n",
            self.first.unwrap_or(0),
            self.last,
            self.admissions.most,
            self.admissions.capacity,
            tasks(Some(Kind::Completed)),
            tasks(Some(Kind::Dead)),
            tasks(Some(Kind::Cancelled)),
            tasks(Some(Kind::Expired)),
            tasks(None),
        );
        self.verdict
    }

    /// Events up to the cursor of this one are no longer stored.
    fn gap(&mut self, event: &Event) {
        self.verdict.gaps += 1;
        if self.first.is_some() && event.cursor < self.last {
            // The store returned to an earlier state: the next events repeat earlier ones, or
            // replace them.
            self.admissions = Admissions::new(false);
            self.tasks = Tasks::new(false, self.demands.max_attempts);
            self.recent.clear();
            self.order.clear();
        }
        self.forget();
        self.first.get_or_insert(event.cursor + 1);
        self.last = event.cursor;
    }

    fn forget(&mut self) {
        self.admissions.gap();
        self.tasks.gap();
    }

    fn remember(&mut self, cursor: u64, said: u64) {
        self.recent.insert(cursor, said);
        self.order.push_back(cursor);
        if self.order.len() > COMPARED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.recent.remove(&oldest);
        }
    }

    fn violation(&mut self, event: &Event, why: &str) {
        self.add_violation(format!("{event}: {why}"));
    }

    fn add_violation(&mut self, what: String) {
        self.verdict.violated += 1;
        if self.verdict.violations.len() < TOLD_MAX {
            self.verdict.violations.push(what);
        }
    }
}

impl Verdict {
    /// Whether no rule was violated.
    pub fn holds(&self) -> bool {
        self.violated == 0
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.holds() { "the history holds" } else { "THE HISTORY IS BROKEN" };
        writeln!(f, "{} events: {word}\n{}", self.events, self.summary.trim_end())?;
        for (count, what) in [
            (self.repeats, "came more than once"),
            (self.gaps, "gaps: their events are not checked"),
            (self.set_back, "times the clock of the events was set back"),
            (self.others, "of an unknown kind"),
        ] {
            if count > 0 {
                writeln!(f, "  note        {count} {what}")?;
            }
        }
        for violation in &self.violations {
            writeln!(f, "  VIOLATED    {violation}")?;
        }
        match self.violated - self.violations.len() as u64 {
            0 => Ok(()),
            more => writeln!(f, "  VIOLATED    {more} times more"),
        }
    }
}
