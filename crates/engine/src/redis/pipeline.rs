//! A pipeline sends the jobs of one thread to one node, in batches.
//!
//! `node` picks the pipeline of a job; `exchange` sends a batch. Each thread has its own pipelines
//! to each node, with their own connections. A job on an idle pipeline is sent immediately. Jobs
//! that arrive while batches are in flight form the next batch. There is no timer, so the batch size
//! follows the load.
//!
//! A bulk pipeline has one batch in flight, with the jobs of one script call or of one caller's
//! call. The next batch starts after its answer, so that Redis serves other calls in between.
//!
//! # Order and overload
//! - Jobs that free capacity go first. They use at most half of a batch while others wait.
//! - The others wait in a line for each namespace; batches serve the lines round robin (`fair`).
//! - A job is rejected if `redis.queued_max` jobs of its kind are waiting. Jobs that free capacity
//!   are one kind, and all others the second. The places of the second kind are divided equally
//!   among the waiting namespaces. The only job of a call is also rejected if its expected wait
//!   exceeds three quarters of its time.
//! - A job whose call has ended is dropped before it is sent.
//! - If the node becomes unreachable, waiting jobs fail immediately. Jobs in flight keep
//!   their deadlines.

use std::{
    collections::VecDeque,
    mem::take,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::RedisError;
use tokio::sync::Semaphore;

use super::{
    StoreState,
    connection::NodeConnection,
    fair::{InLine, Lines},
    job::Job,
    monitor::Monitor,
    shared::Shared,
};
use tollgate_core::{Cost, time::monotonic};

/// Maximum number of batches of a pipeline in flight. While Redis executes one, the next is already
/// in its socket.
const BATCHES_MAX: usize = 2;
/// Maximum number of jobs in a batch, apart from further jobs of the last call.
const JOBS_MAX: usize = 512;
/// Number of connections of a bulk pipeline: one in use, and one in case its batch hangs.
const BULK_CONNECTIONS: usize = 2;
/// The longest time for which an idle connection is kept. Redis and networks often close idle
/// connections after 5 minutes, networks without a message.
const IDLE_MAX: Duration = Duration::from_secs(240);

/// A pipeline to a node.
#[derive(Debug)]
pub(super) struct Pipeline {
    pub(super) shared: Arc<Shared>,
    pub(super) monitor: Arc<Monitor>,
    /// Maximum number of connections.
    connections: usize,
    queue: Mutex<JobQueue>,
    /// The permit that a batch of a bulk pipeline needs while it is in flight.
    permit: Option<Arc<Semaphore>>,
}

#[derive(Debug, Default)]
struct JobQueue {
    /// Jobs that free capacity, which go before all others.
    first: VecDeque<Job>,
    /// All other jobs, by namespace, in order of arrival.
    waiting: Lines<Job>,
    /// The measured wait per job ahead, as a moving average.
    each: Duration,
    /// Senders with a batch in flight, or about to start one. A batch that hangs on an unreachable
    /// node does not count.
    batches: usize,
    /// All senders. Each has at most one connection.
    senders: usize,
    /// Whether a sender has started that will send the waiting jobs next.
    is_starting: bool,
    /// The connections that no sender uses, with the last used at the end.
    idle: Vec<NodeConnection>,
}

impl Pipeline {
    /// Creates a pipeline with at most `connections`.
    pub(super) fn new(
        shared: Arc<Shared>,
        monitor: Arc<Monitor>,
        connections: usize,
    ) -> Arc<Pipeline> {
        Pipeline::with(shared, monitor, connections, None)
    }

    /// Creates a bulk pipeline. Pipelines that share a `permit` have only one batch in flight
    /// between them.
    pub(super) fn bulk(
        shared: Arc<Shared>,
        monitor: Arc<Monitor>,
        permit: Arc<Semaphore>,
    ) -> Arc<Pipeline> {
        Pipeline::with(shared, monitor, BULK_CONNECTIONS, Some(permit))
    }

    fn with(
        shared: Arc<Shared>,
        monitor: Arc<Monitor>,
        connections: usize,
        permit: Option<Arc<Semaphore>>,
    ) -> Arc<Pipeline> {
        Arc::new(Pipeline { shared, monitor, connections, queue: Mutex::default(), permit })
    }

    /// Queues a job, and starts a batch if fewer than the maximum are in flight.
    pub(super) fn push(self: &Arc<Pipeline>, mut job: Job) {
        let mut queue = self.lock();
        job.ahead = queue.waiting.ahead(job.namespace);
        if queue.has_no_room(&job, self.shared.queued_max) {
            drop(queue);
            return job.reject();
        }
        if job.sheds && queue.wait(&job) > job.time() * 3 / 4 {
            drop(queue);
            return job.reject();
        }
        if job.delivery.frees_capacity() {
            queue.first.push_back(job)
        } else {
            queue.waiting.push_back(job)
        }
        if queue.senders >= self.connections || !self.start(&mut queue) {
            return;
        }
        queue.senders += 1;
        drop(queue);
        // Runs as a task, because one caller may be cancelled while the others wait.
        tokio::spawn(Sender { pipeline: self.clone(), is_counted: true, has_ended: false }.run());
    }

    /// Counts a sender that will send the waiting jobs next. Returns false if there is already one,
    /// or if the maximum number of batches is in flight.
    fn start(&self, queue: &mut JobQueue) -> bool {
        let batches_max = if self.permit.is_some() { 1 } else { BATCHES_MAX };
        let may_start = !queue.is_starting && queue.batches < batches_max;
        if may_start {
            queue.is_starting = true;
            queue.batches += 1;
        }
        may_start
    }

    /// Returns an idle connection, or a new one. Fails immediately if the node becomes unreachable.
    ///
    /// A started connection is completed, even if another one becomes idle meanwhile: its sender
    /// sends the waiting jobs on that one, and the new one is there when batches overlap again.
    async fn acquire_connection(&self) -> Result<NodeConnection, RedisError> {
        if let Some(idle) = self.pop_idle() {
            return Ok(idle);
        }
        loop {
            // Boxed, so that the task of a batch stays small, since most batches find an idle
            // connection.
            match Box::pin(NodeConnection::connect(&self.monitor)).await {
                // Another connection broke meanwhile: the node may have another primary now.
                Ok(made) if made.epoch < self.monitor.epoch() => {}
                Ok(made) => return Ok(made),
                Err(error) => return self.pop_idle().ok_or(error),
            }
        }
    }

    /// Returns an idle connection that was made after the last lost one, because if one connection
    /// breaks, the others are usually dead too.
    fn pop_idle(&self) -> Option<NodeConnection> {
        let (epoch, now) = (self.monitor.epoch(), monotonic());
        let mut queue = self.lock();
        queue.idle.retain(|connection| {
            connection.epoch >= epoch && now.duration_since(connection.used) < IDLE_MAX
        });
        let mut connection = queue.idle.pop()?;
        drop(queue);
        if connection.socket.is_free() {
            return Some(connection);
        }
        self.monitor.record_loss(connection.epoch);
        None
    }

    /// Keeps a connection for the next batch, unless it is broken.
    fn push_idle(&self, mut connection: NodeConnection) {
        if !connection.is_broken {
            connection.used = monotonic();
            self.lock().idle.push(connection);
        }
    }

    /// Fails all waiting jobs, because the node is unreachable.
    fn fail_waiting(&self) {
        let mut queue = self.lock();
        let (first, mut waiting) = (take(&mut queue.first), take(&mut queue.waiting));
        drop(queue);
        let down = self.monitor.down();
        first.into_iter().chain(waiting.drain()).for_each(|job| job.answer(Err(down.clone())));
    }

    /// Locks the queue. It is never locked across an `.await`.
    fn lock(&self) -> MutexGuard<'_, JobQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the jobs of the next batch from the queue; drops jobs whose call has ended.
    fn take_batch(&self) -> Vec<Job> {
        let now = monotonic();
        let mut queue = self.lock();
        queue.is_starting = false;
        if let Some(front) = queue.waiting.front() {
            // A short queue counts as no wait, so the average recovers quickly after an outage.
            let each = front.waited_each(now).unwrap_or_default();
            queue.each = (queue.each * 7 + each) / 8;
        }
        let number = queue.first.len() + queue.waiting.len();
        let (mut taken, mut cost) = (Vec::with_capacity(number.min(JOBS_MAX)), 0);
        // Half of a batch is left for the others, if there are any.
        let most = if queue.waiting.is_empty() { JOBS_MAX } else { JOBS_MAX / 2 };
        // The batch of the last job. If it were split, one part could overtake the other on another
        // connection.
        let mut batch = 0;
        while let Some(first) = queue.first.front()
            && (taken.len() < most || first.follows(batch))
        {
            (batch, cost) = (first.batch, cost + first.delivery.cost.micros());
            taken.extend(queue.first.pop_front().filter(|job| job.is_wanted(now)));
        }
        batch = 0;
        while let Some(next) = queue.waiting.front() {
            cost += next.delivery.cost.micros();
            let is_full = match self.permit {
                None => taken.len() >= JOBS_MAX && !next.follows(batch),
                // The jobs of one call go together, since Redis reads a bounded number of bytes at
                // a time and serves others in between. Background work may be split.
                Some(_) if next.follows(batch) && !next.delivery.is_background() => false,
                Some(_) => !taken.is_empty() && cost > Cost::CALL_MAX,
            };
            if is_full {
                break;
            }
            batch = next.batch;
            taken.extend(queue.waiting.pop_front().filter(|job| job.is_wanted(now)));
        }
        taken
    }
}

impl JobQueue {
    /// Returns the expected wait of a job.
    fn wait(&self, job: &Job) -> Duration {
        // The cast is safe: `queued_max` bounds the number of jobs.
        self.each * job.ahead as u32
    }

    /// Whether the maximum number of jobs of this kind and namespace is waiting, after dropping
    /// jobs whose call has ended.
    fn has_no_room(&mut self, job: &Job, queued_max: usize) -> bool {
        if job.delivery.frees_capacity() {
            if self.first.len() >= queued_max {
                let now = monotonic();
                self.first.retain(|job| job.is_wanted(now));
            }
            return self.first.len() >= queued_max;
        }
        if self.waiting.is_full(job.namespace, queued_max) {
            let now = monotonic();
            self.waiting.retain(job.namespace, |job| job.is_wanted(now));
        }
        self.waiting.is_full(job.namespace, queued_max)
    }

    fn is_empty(&self) -> bool {
        self.first.is_empty() && self.waiting.is_empty()
    }

    /// Removes a sender from the count of batches.
    fn leave(&mut self) {
        self.batches -= 1;
        self.is_starting = false;
    }
}

/// Sends batches one after the other, each on a connection that no other sender uses meanwhile.
struct Sender {
    pipeline: Arc<Pipeline>,
    /// Whether it counts towards the batches in flight.
    is_counted: bool,
    /// Whether it no longer counts towards the senders.
    has_ended: bool,
}

impl Sender {
    /// Sends batches until no job waits.
    async fn run(mut self) {
        let pipeline = self.pipeline.clone();
        while self.goes_on() {
            // The connection is acquired first, so that jobs that arrive until then join the batch.
            match pipeline.acquire_connection().await {
                Ok(mut connection) => {
                    self.send(&mut connection).await;
                    pipeline.push_idle(connection);
                }
                Err(_) if self.leave_to_others() => return,
                Err(_) => {
                    let down = pipeline.monitor.down();
                    pipeline.take_batch().into_iter().for_each(|job| job.answer(Err(down.clone())));
                }
            }
        }
    }

    /// Whether jobs are waiting for this sender. If not, it ends, and the next job starts another
    /// one.
    fn goes_on(&mut self) -> bool {
        let pipeline = self.pipeline.clone();
        let mut queue = pipeline.lock();
        let has_jobs = !queue.is_empty();
        // A batch that hung no longer counts, and others may have started in its place.
        let goes_on = has_jobs && (self.is_counted || pipeline.start(&mut queue));
        self.is_counted |= goes_on;
        if !goes_on {
            self.end(&mut queue);
        }
        goes_on
    }

    /// Ends after a failed connection attempt if another sender will send the waiting jobs.
    fn leave_to_others(&mut self) -> bool {
        let pipeline = self.pipeline.clone();
        let mut queue = pipeline.lock();
        let has_others = queue.batches > 1;
        if has_others {
            self.end(&mut queue);
        }
        has_others
    }

    /// Sends one batch, and returns when it is answered.
    async fn send(&mut self, connection: &mut NodeConnection) {
        let pipeline = self.pipeline.clone();
        let permit = match &pipeline.permit {
            Some(permit) => permit.acquire().await.ok(),
            None => None,
        };
        let jobs = pipeline.take_batch();
        if jobs.is_empty() {
            return;
        }
        let mut state = pipeline.monitor.state();
        let exchange = pipeline.exchange(connection, jobs);
        tokio::pin!(exchange);
        tokio::select! {
            () = &mut exchange => return,
            _ = state.wait_for(|state| *state == StoreState::Down) => {}
        }
        // Only the jobs in flight wait for a node that hangs. Release the slot for later jobs, and
        // fail the waiting ones.
        self.release(&mut pipeline.lock());
        drop(permit);
        pipeline.fail_waiting();
        exchange.await;
    }

    /// Stops counting towards the batches in flight.
    fn release(&mut self, queue: &mut JobQueue) {
        if take(&mut self.is_counted) {
            queue.leave();
        }
    }

    /// Stops counting.
    fn end(&mut self, queue: &mut JobQueue) {
        self.release(queue);
        self.has_ended = true;
        queue.senders -= 1;
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if !self.has_ended {
            let pipeline = self.pipeline.clone();
            self.end(&mut pipeline.lock());
        }
    }
}
