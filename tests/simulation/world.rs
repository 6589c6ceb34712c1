//! A server, its disk and its clock, and a network between the server and its callers.

mod faults;
mod leases;
mod life;

use std::{
    collections::{BTreeMap, VecDeque},
    hash::Hasher,
    sync::atomic::Ordering,
};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tollgate_core::error::Error;
use tollgate_engine::embedded::Durability;

use crate::{
    callers::{Answer, Callers, Request},
    capability::{Answering, Part},
    disk::Made,
    history::{Happened, History},
    mark,
};
use leases::Leases;
use life::Life;
pub use life::poll;

/// 2026-01-01T00:00:00Z, in µs.
const START: u64 = 1_767_225_600_000_000;
const SECOND: u64 = 1_000_000;
/// Time after a write during which tokens are given out before they are synced.
const RUNS: u64 = 2 * SECOND;
/// Jump of time after which callers ask only about running and queued tasks.
const LONG: u64 = 600 * SECOND;

/// How the processes of a world end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ends {
    /// In every way.
    Any,
    /// By kills only: the system keeps all writes.
    Kills,
    /// By power losses that take all unsynced writes.
    PowerCuts,
}

/// A call that was decided, and waits for the disk.
struct Waiting {
    request: Request,
    at: Moment,
    answering: Answering<Answer>,
}

/// The time of a decision, in µs.
#[derive(Clone, Copy)]
struct Moment {
    /// The engine's time.
    now: u64,
    /// The system's clock.
    system: u64,
}

pub struct World {
    seed: u64,
    step: u64,
    pub random: ChaCha8Rng,
    durability: Durability,
    disk: Made,
    life: Life,
    /// The engine's time when all changes were last synced.
    settled: u64,
    /// The true time, and the distance of the system clock from it, in µs.
    true_now: u64,
    offset: i64,
    callers: Callers,
    network: Vec<(u64, Request)>,
    waiting: VecDeque<Waiting>,
    /// The models at each mark that may be the last one on the disk.
    known: Vec<(u64, Callers)>,
    /// Incremented in the store before each write: shows which state a process has found.
    mark: u64,
    /// The last mark that is certainly in the log.
    logged: u64,
    /// How processes end.
    ends_by: Ends,
    /// Times of the first and of the last acknowledged change that may be lost.
    unsure: Option<(u64, u64)>,
    /// The last token of each part that callers have seen. A guarded resource remembers it,
    /// whatever the server loses.
    fences: BTreeMap<(char, Part), u64>,
    /// The ends of leases by the system clock.
    leases: Leases,
    /// Recent instants at which something ends.
    instants: VecDeque<u64>,
    pub history: History,
    pub ends: u64,
}

impl World {
    pub fn new(seed: u64, durability: Durability, ends_by: Ends) -> World {
        let (disk, callers) = (Made::default(), Callers::new());
        World {
            seed,
            step: 0,
            random: ChaCha8Rng::seed_from_u64(seed),
            durability,
            life: Life::begin(&disk, START, durability),
            disk,
            settled: START,
            true_now: START,
            offset: 0,
            known: vec![(0, callers.clone())],
            callers,
            network: Vec::new(),
            waiting: VecDeque::new(),
            mark: 0,
            logged: 0,
            ends_by,
            unsure: None,
            fences: BTreeMap::new(),
            leases: Leases::default(),
            instants: VecDeque::new(),
            history: History::default(),
            ends: 0,
        }
    }

    pub fn play(&mut self, steps: u64) {
        while self.step < steps {
            self.step += 1;
            match self.random.random_range(0..1000) {
                0..330 => self.think(),
                330..830 => self.deliver(),
                830..910 => self.pass(),
                910..920 => self.log(),
                920..976 => self.write(false),
                976..984 => self.sweep(),
                984..996 => self.relieve(),
                _ => self.trouble(),
            }
        }
        self.close();
    }

    fn sweep(&mut self) {
        self.life.embedded().sweep_all();
        self.record(Happened::Swept);
    }

    pub fn digest(&self) -> u64 {
        self.history.digest.as_ref().map_or(0, Hasher::finish)
    }

    fn record(&mut self, happened: Happened) {
        self.history.record(self.step, happened);
    }

    pub fn violated(&self, rule: &str, request: Option<&Request>) -> ! {
        panic!(
            "seed {}, {:?}, step {}: broken rule: {rule}\n{}",
            self.seed,
            self.durability,
            self.step,
            self.history.about(request)
        );
    }

    fn think(&mut self) {
        if self.network.len() < 40 {
            let request = self.callers.think(&mut self.random, self.step);
            self.network.push((self.step, request));
        }
    }

    /// Delivers a random request. Some requests are dropped, and some are delivered again later.
    fn deliver(&mut self) {
        if self.network.is_empty() {
            return;
        }
        let place = self.random.random_range(0..self.network.len());
        let (sent, request) = self.network.swap_remove(place);
        let is_old = sent + 600 < self.step;
        if is_old || self.random.random_bool(0.05) {
            return;
        }
        // The request was sent twice, or its reply is lost and the caller repeats it.
        if self.random.random_bool(0.15) {
            self.network.push((sent, request.clone()));
        }
        self.send(request);
    }

    /// Sends a request to the engine.
    pub fn send(&mut self, request: Request) {
        let idle = self.life.source() - self.life.written_at;
        // The thread of the journal may have been starved: calls then wait for it.
        let is_starved = self.durability != Durability::Always && self.random.random_bool(0.1);
        if idle >= RUNS && !is_starved {
            self.write(false);
        }
        let at = Moment { now: self.life.now(), system: self.system() };
        let mut answering = request.send(self.life.engine.clone());
        match poll(&mut answering) {
            Some(Ok(answer)) => self.answered(&request, &answer, at),
            Some(Err(Error::Unavailable(why))) if self.life.engine.check().is_err() => {
                self.record(Happened::Refused(request, why));
            }
            Some(Err(error)) => {
                self.violated(&format!("every call is decided: {error}"), Some(&request))
            }
            None => {
                self.record(Happened::Waits(at.now, request.clone()));
                self.waiting.push_back(Waiting { request, at, answering });
                // Usually the log thread follows soon.
                if self.durability == Durability::Interval && self.random.random_bool(0.7) {
                    self.log();
                }
            }
        }
    }

    /// Returns the system clock, in µs.
    fn system(&self) -> u64 {
        self.true_now.saturating_add_signed(self.offset)
    }

    fn answered(&mut self, request: &Request, answer: &Answer, at: Moment) {
        let Moment { now, system } = at;
        self.record(Happened::Answered(now, request.clone(), answer.clone()));
        if let Err(rule) = self.callers.check(request, answer, now) {
            self.violated(rule, Some(request));
        }
        if let Some((part, token)) = mark::granted(request, answer)
            && self.fences.insert(part, token).is_some_and(|last| token <= last)
        {
            self.violated("fencing tokens grow, even after a loss", Some(request));
        }
        if let Some((part, range)) = mark::values(request, answer)
            && self.fences.insert(part, range.last).is_some_and(|last| range.first() <= last)
        {
            self.violated("values of a sequence grow, even after a loss", Some(request));
        }
        if let Err(rule) = self.leases.check(request, answer, now, system) {
            self.violated(rule, Some(request));
        }
        if answer.is_change() {
            let source = self.life.source();
            let first = self.unsure.map_or(source, |(first, _)| first);
            self.unsure = Some((first, source));
        }
        if let Some(instant) = mark::instant(answer, now) {
            self.instants.push_back(instant);
            if self.instants.len() > 20 {
                self.instants.pop_front();
            }
        }
    }

    /// Time passes: a little, much, or until an instant at which something ends.
    fn pass(&mut self) {
        let place = self.random.random_range(0..self.instants.len().max(1));
        let until = self.instants.get(place).and_then(|end| end.checked_sub(self.life.now()));
        let length = match self.random.random_range(0..100) {
            0..35 => self.random.random_range(0..2000),
            35..70 => self.random.random_range(0..300_000),
            70..90 => match until {
                Some(until) if until < 20 * SECOND => {
                    until.saturating_sub(self.random.random_range(0..3))
                }
                _ => 1000,
            },
            90..99 => self.random.random_range(0..4 * SECOND),
            _ => self.random.random_range(0..60 * SECOND),
        };
        self.go_by(length);
    }

    fn go_by(&mut self, length: u64) {
        let before = self.life.now();
        self.true_now += length;
        self.life.source.fetch_add(length, Ordering::SeqCst);
        if self.life.now() != before + length {
            self.violated("time runs at the rate of the clock, and never stands still", None);
        }
        self.record(Happened::Passed(length));
        if length > LONG {
            self.network.clear();
            self.set_full(false);
            self.write(false);
            let now = self.life.now();
            self.callers.forget(now);
            // The same time has passed for the callers of each earlier state.
            self.known.iter_mut().for_each(|(_, callers)| callers.forget(now));
        }
    }

    /// Lets the journal write once. With `power_fails` the disk fails within the write.
    fn write(&mut self, power_fails: bool) {
        let is_running = self.life.source() - self.life.written_at < RUNS;
        let is_marked = is_running && mark::advance(&self.life.engine, self.mark + 1);
        if is_marked {
            self.mark += 1;
            if power_fails {
                self.disk.fail_after(self.random.random_range(0..16));
            }
        }
        self.life.writer.write();
        self.life.written_at = self.life.source();
        let is_down = self.life.engine.check().is_ok();
        self.record(Happened::Written { mark: self.mark, is_down });
        if is_down {
            self.all_is_down();
        } else if is_marked {
            self.remember();
        }
    }

    /// A later process may find this state. It may include grants to waiting calls, whose callers
    /// have not seen them.
    fn remember(&mut self) {
        let mut callers = self.callers.clone();
        self.waiting.iter().for_each(|waiting| callers.give_up(&waiting.request));
        self.known.push((self.mark, callers));
    }

    /// Lets the journal append to its log once, and answers the calls that waited only for this.
    fn log(&mut self) {
        if self.durability != Durability::Interval
            || !mark::advance(&self.life.engine, self.mark + 1)
        {
            return;
        }
        self.mark += 1;
        self.life.writer.log();
        let is_logged = self.life.engine.check().is_ok();
        self.record(Happened::Logged { mark: self.mark, is_logged });
        if is_logged {
            self.logged = self.mark;
            for mut waiting in std::mem::take(&mut self.waiting) {
                match poll(&mut waiting.answering) {
                    Some(Ok(answer)) => self.answered(&waiting.request, &answer, waiting.at),
                    Some(Err(error)) => {
                        let rule = format!("a logged call is answered: {error}");
                        self.violated(&rule, Some(&waiting.request));
                    }
                    None => self.waiting.push_back(waiting),
                }
            }
        }
        self.remember();
    }

    fn all_is_down(&mut self) {
        while let Some(Waiting { request, at, mut answering }) = self.waiting.pop_front() {
            match poll(&mut answering) {
                Some(Ok(answer)) => self.answered(&request, &answer, at),
                other => {
                    let rule = format!("a synced call is answered: {:?}", other.map(|o| o.is_ok()));
                    self.violated(&rule, Some(&request));
                }
            }
        }
        (self.unsure, self.settled, self.logged) = (None, self.life.now(), self.mark);
        self.leases.all_is_synced();
        self.known = vec![(self.mark, self.callers.clone())];
    }

    fn set_full(&mut self, is_full: bool) {
        if self.disk.set_full(is_full) != is_full {
            self.record(Happened::Full(is_full));
        }
    }
}
