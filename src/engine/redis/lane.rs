//! A lane to a node: what has arrived while the last batches were on their way goes
//! together.
//!
//! Each of the server's threads has lanes of its own to each node, over connections of
//! its own. A call that finds a lane idle is on its way at once; there is no timer.
//! Calls whose replies replicas have to confirm go by a lane of theirs: a WAIT holds
//! its connection, and must not hold up who needs none.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use bb8_redis::bb8;
use tokio::sync::watch;

use super::{
    StoreState,
    connection::{self, Connection, Connector},
    evaluate::Scripts,
    job::Job,
    monitor::Monitor,
    topology::Topology,
};
use crate::{error::Error, time::monotonic};

/// Batches of a lane that are on their way at a time: while Redis runs one the next
/// is in its socket.
const BATCHES_MAX: usize = 4;
/// Decisions that a batch takes at most, but for the rest of the last call's.
const TAKE_MAX: usize = 512;
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
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Job>,
    /// Batches on their way, or about to be.
    batches: usize,
    /// A batch is about to take what waits.
    is_starting: bool,
}

impl Lane {
    /// A lane over at most so many connections; needs the runtime of the thread that
    /// it is for.
    pub(super) fn new(shared: Arc<Shared>, monitor: Arc<Monitor>, connections: u32) -> Arc<Lane> {
        let failed = Arc::new(watch::Sender::new(0));
        let pool = bb8::Pool::builder()
            .max_size(connections)
            // A PING before every call would double the round trips.
            .test_on_check_out(false)
            // The call's own deadline decides how long to wait.
            .retry_connection(false)
            .build_unchecked(Connector::new(monitor.clone(), failed.clone()));
        Arc::new(Lane { shared, monitor, pool, failed, queue: Mutex::default() })
    }

    /// Sends a decision, together with those that wait beside it.
    pub(super) fn push(self: &Arc<Lane>, job: Job) {
        let mut queue = self.lock();
        if queue.waiting.len() >= WAITING_MAX {
            let now = monotonic();
            queue.waiting.retain(|job| job.is_wanted(now));
        }
        if queue.waiting.len() >= WAITING_MAX {
            drop(queue);
            return job.answer(Err(Error::Overloaded));
        }
        queue.waiting.push_back(job);
        if queue.is_starting || queue.batches >= BATCHES_MAX {
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
        let waiting = std::mem::take(&mut self.lock().waiting);
        let down = self.monitor.down();
        waiting.into_iter().for_each(|job| job.answer(Err(down.clone())));
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has arrived, and is still waited for.
    fn take(&self) -> Vec<Job> {
        let now = monotonic();
        let mut queue = self.lock();
        queue.is_starting = false;
        let mut taken = Vec::with_capacity(queue.waiting.len().min(TAKE_MAX));
        while let Some(next) = queue.waiting.front() {
            if taken.len() >= TAKE_MAX && !next.follows {
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
        if self.is_counted && queue.waiting.is_empty() {
            self.is_counted = false;
            queue.leave();
        }
        self.is_counted
    }

    async fn send(&mut self, connection: &mut Connection) {
        let jobs = self.lane.take();
        if jobs.is_empty() {
            return;
        }
        let lane = self.lane.clone();
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
        lane.fail_waiting();
        exchange.await;
    }

    fn release(&mut self) {
        if std::mem::take(&mut self.is_counted) {
            self.lane.lock().leave();
        }
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.release();
    }
}
