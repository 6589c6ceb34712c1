//! A lane to a node: what has arrived while the last batches were on their way goes
//! together.
//!
//! Each of the server's threads has lanes of its own to each node, over connections of
//! its own. A call that finds a lane idle is on its way at once; there is no timer.
//! Calls whose replies replicas have to confirm go by a lane of theirs: a WAIT holds
//! its connection, and must not hold up who needs none. What holds Redis for long goes by a
//! bulk lane: a batch is one script call's worth, or what one call asks for, and the next one
//! of this server starts once it is answered, so that Redis serves other calls in between.

use std::{
    collections::VecDeque,
    mem::take,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bb8_redis::bb8;
use tokio::sync::{Semaphore, watch};

use super::{
    StoreState,
    connection::{self, Connection, Connector},
    evaluate::Scripts,
    job::Job,
    monitor::Monitor,
    skew::Skew,
    topology::Topology,
};
use crate::{decision::Cost, time::monotonic};

/// Batches of a lane that are on their way at a time: while Redis runs one the next
/// is in its socket.
const BATCHES_MAX: usize = 4;
/// Decisions that a batch takes at most, but for the rest of the last call's.
const TAKE_MAX: usize = 512;
/// Connections of a bulk lane: one more for when a batch hangs.
const BULK_CONNECTIONS: u32 = 2;
/// Decisions that wait at most in one lane; further ones are refused at once.
const WAITING_MAX: usize = 16_384;

/// What the lanes of an engine have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) scripts: Scripts,
    /// Decisions in one script call at most.
    pub(super) batch_max: usize,
    /// Where a decision goes that its node sends elsewhere.
    pub(super) topology: OnceLock<Weak<Topology>>,
    /// Lost connections: after each the store may have lost something, too.
    pub(super) losses: AtomicU64,
    /// How often another primary was found to lead.
    pub(super) failovers: AtomicU64,
    /// The highest clock of all primaries.
    pub(super) skew: Skew,
    /// What the keys of probes begin with.
    pub(super) probe_key: String,
}

/// A lane to a node.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) shared: Arc<Shared>,
    pub(super) monitor: Arc<Monitor>,
    pool: bb8::Pool<Connector>,
    /// Counts the pool's connections that could not be made.
    failed: Arc<watch::Sender<u64>>,
    queue: Mutex<Queue>,
    /// Of a bulk lane: a batch needs it to be on its way.
    turn: Option<Arc<Semaphore>>,
}

#[derive(Debug, Default)]
struct Queue {
    /// Those that free capacity, before all others.
    first: VecDeque<Job>,
    waiting: VecDeque<Job>,
    /// How long a decision waits for each that is ahead of it.
    each: Duration,
    /// Batches on their way, or about to be.
    batches: usize,
    /// A batch is about to take what waits.
    is_starting: bool,
}

impl Lane {
    /// A lane over at most so many connections; needs the runtime of the thread that
    /// it is for.
    pub(super) fn new(shared: Arc<Shared>, monitor: Arc<Monitor>, connections: u32) -> Arc<Lane> {
        Lane::with(shared, monitor, connections, None)
    }

    /// A lane for what holds Redis for long; batches that share `turn` go one by one.
    pub(super) fn bulk(
        shared: Arc<Shared>,
        monitor: Arc<Monitor>,
        turn: Arc<Semaphore>,
    ) -> Arc<Lane> {
        Lane::with(shared, monitor, BULK_CONNECTIONS, Some(turn))
    }

    fn with(
        shared: Arc<Shared>,
        monitor: Arc<Monitor>,
        connections: u32,
        turn: Option<Arc<Semaphore>>,
    ) -> Arc<Lane> {
        let failed = Arc::new(watch::Sender::new(0));
        let pool = bb8::Pool::builder()
            .max_size(connections)
            // A PING before every call would double the round trips.
            .test_on_check_out(false)
            // The call's own deadline decides how long to wait.
            .retry_connection(false)
            .build_unchecked(Connector::new(monitor.clone(), failed.clone()));
        Arc::new(Lane { shared, monitor, pool, failed, queue: Mutex::default(), turn })
    }

    /// Sends a decision, together with those that wait beside it.
    pub(super) fn push(self: &Arc<Lane>, mut job: Job) {
        let mut queue = self.lock();
        job.ahead = queue.waiting.len();
        let line = match job.sending.goes_first {
            true => &mut queue.first,
            false => &mut queue.waiting,
        };
        if line.len() >= WAITING_MAX {
            let now = monotonic();
            line.retain(|job| job.is_wanted(now));
        }
        if line.len() >= WAITING_MAX {
            drop(queue);
            return job.refuse();
        }
        if job.sheds && queue.wait() > job.time() * 3 / 4 {
            drop(queue);
            return job.refuse();
        }
        match job.sending.goes_first {
            true => queue.first.push_back(job),
            false => queue.waiting.push_back(job),
        }
        let batches_max = if self.turn.is_some() { 1 } else { BATCHES_MAX };
        if queue.is_starting || queue.batches >= batches_max {
            return;
        }
        queue.is_starting = true;
        queue.batches += 1;
        drop(queue);
        // A task of its own: a caller may go away, those beside it wait on.
        tokio::spawn(Batches { lane: self.clone(), is_counted: true }.drive());
    }

    /// Answers what waits: the node is down.
    fn fail_waiting(&self) {
        let mut queue = self.lock();
        let (first, waiting) = (take(&mut queue.first), take(&mut queue.waiting));
        drop(queue);
        let down = self.monitor.down();
        first.into_iter().chain(waiting).for_each(|job| job.answer(Err(down.clone())));
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has arrived, and is still waited for.
    fn take(&self) -> Vec<Job> {
        let now = monotonic();
        let mut queue = self.lock();
        queue.is_starting = false;
        if let Some(front) = queue.waiting.front() {
            // A short queue is measured as none: what an outage has left is soon forgotten.
            let each = front.waited_each(now).unwrap_or_default();
            queue.each = (queue.each * 7 + each) / 8;
        }
        let number = queue.first.len() + queue.waiting.len();
        let (mut taken, mut cost) = (Vec::with_capacity(number.min(TAKE_MAX)), 0);
        // Half of a batch is for the others, if there are any.
        let most = if queue.waiting.is_empty() { TAKE_MAX } else { TAKE_MAX / 2 };
        while taken.len() < most
            && let Some(first) = queue.first.pop_front()
        {
            cost += first.sending.cost.micros();
            taken.extend(Some(first).filter(|job| job.is_wanted(now)));
        }
        while let Some(next) = queue.waiting.front() {
            cost += next.sending.cost.micros();
            let is_full = match self.turn {
                None => taken.len() >= TAKE_MAX && !next.follows,
                // Those of one call go together: Redis reads so much at a time, and serves
                // others in between. What nobody asked for need not.
                Some(_) if next.follows && !next.sending.is_upkeep => false,
                Some(_) => !taken.is_empty() && cost > Cost::CALL_MAX,
            };
            if is_full {
                break;
            }
            taken.extend(queue.waiting.pop_front().filter(|job| job.is_wanted(now)));
        }
        taken
    }
}

impl Shared {
    /// How often another primary was found to lead than before, or one that began anew.
    pub(super) fn failovers(&self) -> u64 {
        self.failovers.load(Ordering::Acquire)
    }

    pub(super) fn note_failover(&self) {
        let failovers = self.failovers.fetch_add(1, Ordering::AcqRel) + 1;
        tracing::warn!(
            failovers,
            "another primary leads, or it has begun anew: what the one before had not handed on \
             is lost"
        );
    }

    /// The engine's, as long as it is there.
    pub(super) fn topology(&self) -> Option<Arc<Topology>> {
        self.topology.get()?.upgrade()
    }
}

impl Queue {
    /// How long a further decision would wait.
    fn wait(&self) -> Duration {
        // A lane holds some thousands.
        self.each * self.waiting.len() as u32
    }

    fn is_empty(&self) -> bool {
        self.first.is_empty() && self.waiting.is_empty()
    }

    fn leave(&mut self) {
        self.batches -= 1;
        self.is_starting = false;
    }
}

/// One of a lane's batches after the other.
struct Batches {
    lane: Arc<Lane>,
    /// Whether it counts as one of the lane's.
    is_counted: bool,
}

impl Batches {
    async fn drive(mut self) {
        while self.goes_on() {
            // First the connection: what arrives meanwhile goes along.
            let lane = self.lane.clone();
            match connection::borrow(&lane.pool, &lane.monitor, &lane.failed).await {
                Ok(mut connection) => self.send(&mut connection).await,
                Err(error) => {
                    lane.take().into_iter().for_each(|job| job.answer(Err(error.clone())));
                }
            }
        }
    }

    /// Whether something waits; if not, the next one to come starts another batch.
    fn goes_on(&mut self) -> bool {
        let mut queue = self.lane.lock();
        if self.is_counted && queue.is_empty() {
            self.is_counted = false;
            queue.leave();
        }
        self.is_counted
    }

    async fn send(&mut self, connection: &mut Connection) {
        let lane = self.lane.clone();
        let turn = match &lane.turn {
            Some(turn) => turn.acquire().await.ok(),
            None => None,
        };
        let jobs = lane.take();
        if jobs.is_empty() {
            return;
        }
        let mut state = lane.monitor.state();
        let exchange = lane.exchange(connection, jobs);
        tokio::pin!(exchange);
        tokio::select! {
            () = &mut exchange => return,
            _ = state.wait_for(|state| *state == StoreState::Down) => {}
        }
        // A node that hangs holds its calls to their deadlines, neither those that wait
        // nor those that come when it is back.
        self.release();
        drop(turn);
        lane.fail_waiting();
        exchange.await;
    }

    fn release(&mut self) {
        if take(&mut self.is_counted) {
            self.lane.lock().leave();
        }
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.release();
    }
}
