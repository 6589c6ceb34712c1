//! The requests of callers to a pool.

use std::sync::Arc;

use bytes::Bytes;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use tollgate_core::{
    Swept,
    admission::{
        Admission, AdmitDecision, AdmitTask, CancelTask, Cancellation, CompleteTask, Completion,
        ConfigurePool, EnqueueStatus, EnqueueTask, Event, EvictTask, EvictVerdict, GetPool,
        LeasePage, ListLeases, Outcome, Overrides, PoolView, ReadEvents, RenewTask, RenewVerdict,
        RequeueTask, RequeueVerdict, SweepPool, TaskName,
    },
    collections::{After, EventPage},
    error::Error,
    time::Millis,
};
use tollgate_engine::Engine;

use super::{Pool, Task, settings};
use crate::capability::{Part, deadline, name, text};

#[derive(Debug, Clone)]
pub enum Ask {
    Admit { device: u8, task: Option<u32>, length: u64 },
    Complete { task: Task, token: Option<u64>, is_done: bool },
    Renew { task: Task, token: Option<u64>, length: u64 },
    Evict(Task),
    Enqueue(Task),
    Cancel(Task),
    Requeue(Task),
    Configure { capacity: u32, is_paused: bool },
    Events { after: u64 },
    Sweep,
    View,
    Leases,
}

#[derive(Debug, Clone)]
pub enum Answer {
    Admitted(Admission),
    Completed(Completion),
    Renewed(RenewVerdict),
    Evicted(EvictVerdict),
    Enqueued(EnqueueStatus),
    Cancelled(Cancellation),
    Requeued(RequeueVerdict),
    View(PoolView),
    Events(EventPage<Event>),
    Swept(Swept),
    Leases(LeasePage),
}

impl Ask {
    pub fn task(&self) -> Option<Task> {
        match *self {
            Ask::Admit { device, task, .. } => task.map(|task| (device, task)),
            Ask::Complete { task, .. } | Ask::Renew { task, .. } => Some(task),
            Ask::Evict(task) | Ask::Enqueue(task) => Some(task),
            Ask::Cancel(task) | Ask::Requeue(task) => Some(task),
            _ => None,
        }
    }
}

impl Answer {
    pub fn is_change(&self) -> bool {
        let Answer::Admitted(Admission { decision, .. }) = self else { return false };
        matches!(decision, AdmitDecision::Admitted { replayed: false, .. })
    }
}

impl Pool {
    /// Returns a known task; more often one that was admitted.
    fn some_task(&self, random: &mut ChaCha8Rng) -> Option<Task> {
        let is_held = random.random_bool(0.7);
        let of_interest = self.tasks.iter().filter(|(_, task)| !is_held || task.token > 0);
        let count = of_interest.clone().count().min(12);
        let place = random.random_range(0..count.max(1));
        // The newest tasks are the last.
        of_interest.rev().nth(place).map(|(task, _)| *task)
    }

    pub(super) fn think(&mut self, random: &mut ChaCha8Rng) -> Ask {
        self.count += 1;
        let device = random.random_range(0..3u8);
        // Queued tasks have even numbers.
        let (named, queued) = ((device, self.count * 2 + 1), (device, self.count * 2));
        let length = [100, 400, 2500, 5000, 3_600_000][random.random_range(0..5)];
        let known = self.some_task(random);
        let token = known.and_then(|known| self.tasks.get(&known)).map(|task| task.token);
        let token = token.filter(|_| random.random_bool(0.4));
        match (random.random_range(0..40), known) {
            (0..10, _) => Ask::Admit { device, task: Some(named.1), length },
            (10..16, _) => Ask::Admit { device, task: None, length },
            (16..18, Some((device, task))) if task % 2 == 1 => {
                Ask::Admit { device, task: Some(task), length }
            }
            (16..27, Some(task)) => Ask::Complete { task, token, is_done: random.random_bool(0.7) },
            (27..30, Some(task)) => Ask::Renew { task, token, length },
            (30, Some(task)) => Ask::Evict(task),
            (31, Some(task)) => Ask::Cancel(task),
            (32, _) if random.random_bool(0.2) => {
                let is_paused = random.random_bool(0.1);
                Ask::Configure { capacity: random.random_range(0..6), is_paused }
            }
            (33..35, _) => Ask::Events { after: self.events.cursor },
            (35, _) => Ask::Sweep,
            (36, _) => Ask::View,
            (37, Some(task)) => Ask::Requeue(task),
            _ => Ask::Enqueue(queued),
        }
    }
}

pub async fn run(part: Part, ask: Ask, engine: &Arc<Engine>) -> Result<Answer, Error> {
    let (pool, settings) = (name(&part.text('p')), settings(part));
    let of = |(device, task): Task| TaskName {
        pool: name(&part.text('p')),
        device: name(&text('d', device)),
        task: name(&text('t', task)),
    };
    let by = deadline();
    Ok(match ask {
        Ask::Admit { device, task, length } => {
            let (device, task) =
                (name(&text('d', device)), task.map(|task| name(&text('t', task))));
            let lease_duration = Some(Millis(length));
            let admit = AdmitTask { pool, device, task, lease_duration, settings, waiting: None };
            Answer::Admitted(engine.submit(&admit, by).await?.outcome)
        }
        Ask::Complete { task, token, is_done } => {
            let outcome = if is_done { Outcome::Succeeded } else { Outcome::Failed };
            let (name, result) = (of(task), Bytes::new());
            let complete = CompleteTask { name, token, outcome, result, settings };
            Answer::Completed(engine.submit(&complete, by).await?.outcome)
        }
        Ask::Renew { task, token, length } => {
            let (name, lease_duration) = (of(task), Some(Millis(length)));
            let renew = RenewTask { name, token, lease_duration, settings };
            Answer::Renewed(engine.submit(&renew, by).await?.outcome)
        }
        Ask::Evict(task) => {
            let (name, reason) = (of(task), Bytes::new());
            Answer::Evicted(engine.submit(&EvictTask { name, reason, settings }, by).await?.outcome)
        }
        Ask::Enqueue(task) => {
            let (name, payload) = (of(task), Bytes::new());
            let enqueue = EnqueueTask { name, payload, ends: None, settings };
            Answer::Enqueued(engine.submit(&enqueue, by).await?.outcome)
        }
        Ask::Cancel(task) => {
            let cancel = CancelTask { name: of(task), settings };
            Answer::Cancelled(engine.submit(&cancel, by).await?.outcome)
        }
        Ask::Requeue(task) => {
            let requeue = RequeueTask { name: of(task), settings };
            Answer::Requeued(engine.submit(&requeue, by).await?.outcome)
        }
        Ask::Configure { capacity, is_paused } => {
            let (capacity, paused) = (Some(capacity), Some(is_paused));
            let overrides = Overrides { capacity, paused, ..Overrides::default() };
            let configure = ConfigurePool { pool, overrides, reset: false, settings };
            Answer::View(engine.submit(&configure, by).await?.outcome)
        }
        Ask::Events { after } => {
            let after = After { number: Some(after), limit: 100 };
            Answer::Events(engine.submit(&ReadEvents { pool, after }, by).await?.outcome)
        }
        Ask::Sweep => {
            Answer::Swept(engine.submit(&SweepPool { pool, settings }, by).await?.outcome)
        }
        Ask::View => Answer::View(engine.submit(&GetPool { pool, settings }, by).await?.outcome),
        Ask::Leases => {
            let list = ListLeases { pool, limit: 100, after: None };
            Answer::Leases(engine.submit(&list, by).await?.outcome)
        }
    })
}
