//! Proves from a pool's events alone that the cap was kept and that every admission ended
//! once. It knows nothing of Tollgate but the contract of WatchPool.

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

/// So many violations are told; the others are counted.
const TOLD_MAX: usize = 20;
/// So many of the last events are compared with those that come once more.
const COMPARED_MAX: usize = 10_000;

/// What a record must be beyond what every record must be.
#[derive(Debug, Clone, Copy, Default)]
pub struct Demands {
    /// It begins with the pool's first event.
    pub from_start: bool,
    /// All admissions have ended at its end.
    pub complete: bool,
    /// So many attempts are the most.
    pub max_attempts: Option<u32>,
}

/// Sees a stream's events, one after the other.
#[derive(Debug)]
pub struct Checker {
    demands: Demands,
    admissions: Admissions,
    tasks: Tasks,
    /// Cursors of the last events, and what they said.
    recent: HashMap<u64, u64>,
    order: VecDeque<u64>,
    first: Option<u64>,
    last: u64,
    last_time: u64,
    verdict: Verdict,
}

/// What came of a record.
#[derive(Debug, Default)]
pub struct Verdict {
    pub events: u64,
    /// Events that came more than once.
    pub repeats: u64,
    pub gaps: u64,
    /// Times at which the events' clock was set back.
    pub set_back: u64,
    /// Events of kinds that are not known here.
    pub others: u64,
    /// What was violated, at which event.
    pub violations: Vec<String>,
    /// How often.
    pub violated: u64,
    /// What was seen, in lines.
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

    /// Takes the next event of the stream.
    pub fn see(&mut self, event: &Event) {
        if event.kind == Kind::Gap {
            return self.gap(event);
        }
        let mut hasher = DefaultHasher::new();
        event.hash(&mut hasher);
        let said = hasher.finish();
        if self.first.is_some() && event.cursor <= self.last {
            // At least once: it is the same event, then.
            self.verdict.repeats += 1;
            if self.recent.get(&event.cursor).is_some_and(|before| *before != said) {
                self.violation(event, "an event of this cursor said something else");
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

    /// The record has ended.
    pub fn finish(mut self) -> Verdict {
        let running = self.admissions.running();
        if self.demands.complete && running > 0 {
            let some = self.admissions.some_running();
            self.tell(format!("at the end {running} admissions have not ended: {some}"));
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

    /// Events before this one's cursor are kept no longer.
    fn gap(&mut self, event: &Event) {
        self.verdict.gaps += 1;
        if self.first.is_some() && event.cursor < self.last {
            // The store went back to an earlier state: what follows has been seen, or
            // takes the place of what was seen.
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
        self.tell(format!("{event}: {why}"));
    }

    fn tell(&mut self, what: String) {
        self.verdict.violated += 1;
        if self.verdict.violations.len() < TOLD_MAX {
            self.verdict.violations.push(what);
        }
    }
}

impl Verdict {
    /// Whether nothing is wrong with the record.
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
            (self.gaps, "gaps, of which nothing is said"),
            (self.set_back, "times the clock of the events was set back"),
            (self.others, "of a kind that is not known here"),
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
