//! A model of pools: the holders of slots, and the queued tasks.

mod ask;
mod events;
mod rules;

use std::{collections::BTreeMap, sync::Arc};

pub use ask::{Answer, Ask};
use events::Follower;
use rand_chacha::ChaCha8Rng;
use tollgate_core::{
    admission::{PoolUsage, Settings},
    time::Millis,
};
use tollgate_engine::Engine;

use crate::capability::{Answering, Capability, Checked, Part, holds};

/// Device and number.
pub type Task = (u8, u32);

pub const MAX_ATTEMPTS: u32 = 2;
const RETENTION: u64 = 3_600_000_000;
/// Number of steps after which no request about a task is in flight.
const LINGER: u64 = 2000;

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    New,
    Leased,
    Failed,
    Completed,
    Evicted,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum QueueState {
    Queued,
    Cancelled,
    Dead,
}

#[derive(Debug, Clone)]
struct Queued {
    standing: QueueState,
    attempt: u32,
    /// The position in the queue.
    place: u64,
}

#[derive(Debug, Clone)]
struct Known {
    state: State,
    token: u64,
    expire: u64,
    slot_end: u64,
    /// The time when the engine forgets the task, in µs.
    forget: u64,
    queued: Option<Queued>,
    /// The step of the last request about the task.
    mentioned: u64,
}

#[derive(Debug, Clone)]
pub struct Pool {
    part: Part,
    capacity: u32,
    is_paused: bool,
    grace: u64,
    last_token: u64,
    tasks: BTreeMap<Task, Known>,
    /// Number of task names so far, and number of queued tasks so far.
    count: u32,
    places: u64,
    step: u64,
    /// The time of the last decision, in µs.
    now: u64,
    events: Follower,
}

impl Known {
    fn is_running(&self, now: u64) -> bool {
        self.state == State::Leased && now < self.expire
    }

    fn holds_slot(&self, now: u64) -> bool {
        self.state == State::Leased && now < self.slot_end
    }

    fn is_queued(&self) -> bool {
        self.queued.as_ref().is_some_and(|queued| queued.standing == QueueState::Queued)
    }

    /// Whether the task is not dispatched again after its lease has ended.
    fn is_over(&self) -> bool {
        self.is_queued() && self.queued.as_ref().is_some_and(|q| q.attempt >= MAX_ATTEMPTS)
    }

    fn leave(&mut self, standing: QueueState, now: u64) {
        if let Some(queued) = &mut self.queued {
            queued.standing = standing;
        }
        let known_from = if self.holds_slot(now) { self.slot_end } else { now };
        self.forget = known_from + RETENTION;
    }
}

pub fn settings(part: Part) -> Settings {
    Settings {
        capacity: 2 + u32::from(part.index),
        lease_duration: Millis(400),
        expiry_grace: Millis(if part.index == 1 { 300 } else { 0 }),
        retention: Millis(RETENTION / 1000),
        max_attempts: MAX_ATTEMPTS,
        history: 200,
        ..Settings::default()
    }
}

impl Pool {
    fn slots(&self, now: u64) -> u32 {
        self.tasks.values().filter(|task| task.holds_slot(now)).count() as u32
    }

    fn known(&self, task: Task, now: u64) -> Option<&Known> {
        self.tasks.get(&task).filter(|known| now < known.forget)
    }

    /// Returns the oldest queued task of a device. Earlier tasks without attempts left become dead.
    fn oldest(&mut self, device: u8, now: u64) -> Option<Task> {
        loop {
            let queued = self.tasks.range((device, 0)..=(device, u32::MAX));
            let queued = queued.filter(|(_, task)| task.is_queued());
            let first = queued.min_by_key(|(_, task)| task.queued.as_ref().map(|q| q.place));
            let task = *first?.0;
            let known = self.tasks.get_mut(&task)?;
            if !known.is_over() || known.holds_slot(now) {
                return Some(task);
            }
            known.leave(QueueState::Dead, now);
        }
    }

    /// Keeps tasks that hold a slot or are queued, and tasks that `others` accepts.
    fn retain(&mut self, now: u64, others: impl Fn(&Known) -> bool) {
        self.tasks.retain(|_, task| {
            let holds_slot = task.holds_slot(now);
            holds_slot || task.is_queued() && !task.is_over() || others(task)
        });
    }

    fn used(&self, usage: PoolUsage, now: u64) -> Checked {
        holds(usage.capacity == self.capacity, "the usage has the capacity of the pool")?;
        holds(usage.in_use == self.slots(now), "each lease counts once, until it ends")
    }
}

impl Capability for Pool {
    type Ask = Ask;
    type Answer = Answer;

    fn new(part: Part) -> Pool {
        let Settings { capacity, expiry_grace, .. } = settings(part);
        Pool {
            part,
            capacity,
            is_paused: false,
            grace: expiry_grace.micros(),
            last_token: 0,
            tasks: BTreeMap::new(),
            count: 0,
            places: 0,
            step: 0,
            now: 0,
            events: Follower::default(),
        }
    }

    fn part(&self) -> Part {
        self.part
    }

    fn ask(&mut self, random: &mut ChaCha8Rng, step: u64) -> Ask {
        self.step = step;
        if step.is_multiple_of(64) {
            self.retain(self.now, |task| task.mentioned + LINGER > step);
        }
        let ask = self.think(random);
        self.mention(&ask, step);
        ask
    }

    fn mention(&mut self, ask: &Ask, step: u64) {
        if let Some(task) = ask.task().and_then(|task| self.tasks.get_mut(&task)) {
            task.mentioned = step;
        }
    }

    fn reads(&self) -> Vec<Ask> {
        vec![Ask::View, Ask::Leases]
    }

    fn run(part: Part, ask: Ask, engine: Arc<Engine>) -> Answering<Answer> {
        Box::pin(async move { ask::run(part, ask, &engine).await })
    }

    fn check(&mut self, ask: &Ask, answer: &Answer, now: u64) -> Checked {
        self.now = now;
        self.checked(ask, answer, now)
    }

    fn is_change(answer: &Answer) -> bool {
        answer.is_change()
    }

    fn forget(&mut self, now: u64) {
        self.retain(now, |_| false);
        // A model that returned to an earlier state would use some names again. The engine may
        // remember them for longer, so these names are skipped.
        self.count += 1000;
    }
}
