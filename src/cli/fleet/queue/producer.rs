//! The producer. It queues all tasks in batches, one call after the other, so that the tasks of
//! each device are queued in order.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::sleep_until};

use super::{ledger::Ledger, tally::Tally, witness::Shared};
use crate::{
    admission::{ENQUEUE_MAX, EnqueueStatus},
    decision::time::monotonic,
    grpc::client::{Client, NewTask},
};

/// Maximum size of a batch, bytes: below the server's maximum message size.
const BATCH_BYTES_MAX: usize = 3 * 1024 * 1024;
/// Maximum size of a task without its payload, bytes.
const TASK_BYTES: usize = 128;
/// Maximum number of events by which the witness may lag: fewer than a pool stores.
const BEHIND_MAX: u64 = 4000;
/// Pause before the lag is checked again.
const BEHIND: Duration = Duration::from_millis(10);
/// Pause after a failed call.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

/// Queues the tasks.
#[derive(Debug)]
pub(super) struct Producer {
    pub(super) client: Client,
    pub(super) pool: Arc<str>,
    pub(super) names: Arc<Names>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) tally: Arc<Tally>,
    pub(super) witness: Shared,
    /// Becomes true when no more tasks are to be queued.
    pub(super) stop: watch::Receiver<bool>,
}

/// Names of the devices and tasks of a run.
#[derive(Debug)]
pub(super) struct Names {
    /// Random number that makes the names of the run unique.
    pub(super) run: u32,
    pub(super) devices: u32,
    pub(super) tasks: u32,
    pub(super) payload: u32,
}

impl Producer {
    /// Queues all tasks; false if it was stopped or a task was refused.
    pub(super) async fn work(mut self) -> bool {
        let tasks = self.names.tasks as usize;
        let batch =
            (BATCH_BYTES_MAX / (self.names.payload as usize + TASK_BYTES)).clamp(1, ENQUEUE_MAX);
        for first in (0..tasks).step_by(batch) {
            let numbers = first..(first + batch).min(tasks);
            let batch: Vec<NewTask> = numbers.map(|number| self.task(number)).collect();
            if !self.queue(&batch).await {
                return false;
            }
            self.be_seen().await;
        }
        true
    }

    /// Waits until the witness has seen enough events, because a pool stores a limited number of
    /// them.
    async fn be_seen(&mut self) {
        let queued = self.tally.queued.get();
        while self.witness.behind(queued) > BEHIND_MAX && !*self.stop.borrow() {
            sleep_until((monotonic() + BEHIND).into()).await;
        }
    }

    /// Queues a batch, again until the server answers: skipping a batch would change the order of
    /// the tasks.
    async fn queue(&mut self, batch: &[NewTask]) -> bool {
        while !*self.stop.borrow() {
            let sent = monotonic();
            let answer = self.client.enqueue_tasks(&self.pool, batch).await;
            let devices = &self.tally.devices;
            devices.calls.add();
            match answer {
                Ok(statuses) => {
                    devices.latencies.add(sent.elapsed());
                    for status in statuses {
                        match status {
                            EnqueueStatus::Enqueued => self.tally.queued.add(),
                            EnqueueStatus::Duplicate => self.tally.duplicates.add(),
                            EnqueueStatus::Expired | EnqueueStatus::Full => {
                                self.tally.refused.add()
                            }
                        }
                    }
                    return self.tally.refused.get() == 0;
                }
                Err(error) => {
                    tracing::debug!(%error, "batch failed");
                    devices.failed.add(error.code);
                    tokio::select! {
                        _ = self.stop.wait_for(|stop| *stop) => {}
                        () = sleep_until((monotonic() + AFTER_FAILURE).into()) => {}
                    }
                }
            }
        }
        false
    }

    fn task(&self, number: usize) -> NewTask {
        NewTask {
            device: self.names.device(number % self.names.devices as usize),
            task: format!("task-{number}"),
            payload: self.ledger.payload(number),
        }
    }
}

impl Names {
    /// Returns the common prefix of the run's device names.
    pub(super) fn prefix(&self) -> String {
        format!("{:08x}/", self.run)
    }

    pub(super) fn device(&self, number: usize) -> String {
        format!("{}device-{number}", self.prefix())
    }
}
