//! Faults of the disk, the power, the clock and the process.

use rand::Rng;

use tollgate_engine::embedded::Durability;

use super::{Ends, LONG, Life, SECOND, World};
use crate::{disk::End, history::Happened, mark};

const DAY: i64 = 86_400_000_000;
/// Maximum time between the first and the last lost acknowledgement, in µs.
const LOST_MAX: u64 = SECOND;

impl World {
    pub(super) fn relieve(&mut self) {
        self.set_full(false);
        self.write(false);
    }

    pub(super) fn trouble(&mut self) {
        match self.random.random_range(0..100) {
            0..30 => self.set_full(true),
            30..45 => self.end(End::Kill),
            45..60 => {
                let dice = self.random.random();
                self.end(End::PowerLoss { dice });
            }
            60..80 => {
                self.write(true);
                let dice = self.random.random();
                let is_kill = self.random.random_bool(0.3);
                self.end(if is_kill { End::Kill } else { End::PowerLoss { dice } });
            }
            80..88 => self.close(),
            88..97 => self.set_clock(),
            _ => {
                let slept = self.random.random_range(0..3 * 3600 * SECOND);
                self.go_by(slept);
            }
        }
    }

    /// Sets the system clock. A running process does not notice it.
    fn set_clock(&mut self) {
        let most = [10, 3_000_000, 3_600_000_000, 3 * DAY][self.random.random_range(0..4)];
        self.offset += self.random.random_range(-most..=most);
        // Keeps the clock after the epoch.
        self.offset = self.offset.clamp(-300 * DAY, 300 * DAY);
        self.leases.clock_is_set(self.life.now());
        self.record(Happened::Stepped(self.offset));
    }

    /// Closes the process in an orderly way, and starts the next one.
    pub(super) fn close(&mut self) {
        self.set_full(false);
        self.write(false);
        self.life.engine.close();
        self.life.writer.write();
        self.record(Happened::Closed);
        let seen = self.life.now();
        self.start(None, seen);
    }

    /// Ends the process without a shutdown, and starts the next one.
    fn end(&mut self, end: End) {
        let end = match self.ends_by {
            Ends::Any => end,
            Ends::Kills => End::Kill,
            Ends::PowerCuts => End::PowerCut,
        };
        self.ends += 1;
        self.record(Happened::Ended(end));
        self.start(Some(end), self.settled);
    }

    /// Starts the next process after this end; `None` for an orderly one. Its time must be after
    /// `synced`, the last synced instant.
    fn start(&mut self, end: Option<End>, synced: u64) {
        let is_logged = self.durability == Durability::Interval && end == Some(End::Kill);
        let may_lose = end.is_some() && self.durability != Durability::Always && !is_logged;
        let told = self.life.now();
        // Callers repeat most of the calls that were not answered.
        for waiting in std::mem::take(&mut self.waiting) {
            self.leases.give_up(&waiting.request);
            if self.random.random_bool(0.7) {
                self.network.push((self.step, waiting.request));
            }
        }
        self.disk = self.disk.after(end.unwrap_or(End::Kill));
        let downtime = [1000, 50_000, 4 * SECOND][self.random.random_range(0..3)];
        self.true_now += downtime;
        if self.random.random_bool(0.3) {
            self.set_clock();
        }
        let system = self.system();
        self.life = Life::begin(&self.disk, system, self.durability);
        let (now, mark) = (self.life.now(), mark::read(&self.life.engine));
        self.record(Happened::Opened { mark, now });
        if now <= synced || now < system {
            self.violated(
                "time continues after the last synced instant, not behind the system clock",
                None,
            );
        }
        if now > system.max(told + 1) {
            self.violated("time is not ahead of the system clock (leases would end early)", None);
        }
        if is_logged && mark < self.logged {
            self.violated("a kill loses no acknowledged change", None);
        }
        if !is_logged {
            self.leases.unsynced_is_lost();
        }
        let at = self.known.iter().rposition(|(known, _)| *known == mark);
        let Some(at) = at else {
            self.violated("the disk has the last synced state or a later one", None)
        };
        if let Some((first, last)) = self.unsure.filter(|_| at == 0)
            && last - first > LOST_MAX
        {
            self.violated("at most one second of acknowledged changes is lost", None);
        }
        self.callers = self.known.swap_remove(at).1;
        if may_lose {
            self.callers.lose();
        }
        for (_, request) in &self.network {
            self.callers.mention(request, self.step);
        }
        if now.saturating_sub(told) > LONG {
            self.network.clear();
            self.callers.forget(now);
        }
        // The next process may start from this state, too, with these callers.
        self.known = vec![(mark, self.callers.clone())];
        (self.mark, self.logged, self.unsure, self.settled) = (mark, mark, None, now);
        for request in self.callers.reads() {
            self.send(request);
        }
    }
}
