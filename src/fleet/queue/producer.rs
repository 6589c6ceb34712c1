//! The backend: queues all tasks, a batch a call and one call after the other, so that each
//! device's tasks are queued in their order.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::sleep_until};

use super::{ledger::Ledger, tally::Tally, witness::Shared};
use crate::{
    admission::{ENQUEUE_MAX, EnqueueStatus},
    grpc::client::{Client, NewTask},
    time::monotonic,
};

/// Bytes of a batch: below the largest message that a server takes.
const BATCH_BYTES_MAX: usize = 3 * 1024 * 1024;
/// Bytes of a task beside its payload, at most.
const TASK_BYTES: usize = 128;
/// Events that the witness may be behind: fewer than a pool keeps.
const BEHIND_MAX: u64 = 4000;
/// How long it is waited for to see them.
const BEHIND: Duration = Duration::from_millis(10);
/// Between tries of a call that failed.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

/// Queues tasks.
#[derive(Debug)]
pub(super) struct Producer {
    pub(super) client: Client,
    pub(super) pool: Arc<str>,
    pub(super) names: Arc<Names>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) tally: Arc<Tally>,
    pub(super) witness: Shared,
    /// Turns true when no more are to be queued.
    pub(super) stop: watch::Receiver<bool>,
}

/// The names of devices and tasks of a run.
#[derive(Debug)]
pub(super) struct Names {
    /// Tells them from those of other runs.
    pub(super) run: u32,
    pub(super) devices: u32,
    pub(super) tasks: u32,
    pub(super) payload: u32,
}

impl Producer {
    /// Queues all; whether it did.
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

    /// Goes no faster than the events can be followed.
    async fn be_seen(&mut self) {
        let queued = self.tally.queued.get();
        while self.witness.behind(queued) > BEHIND_MAX && !*self.stop.borrow() {
            sleep_until((monotonic() + BEHIND).into()).await;
        }
    }

    /// Queues a batch, again until there is an answer: the order of the tasks depends on it.
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
    /// What the names of the run's devices begin with.
    pub(super) fn prefix(&self) -> String {
        format!("{:08x}/", self.run)
    }

    pub(super) fn device(&self, number: usize) -> String {
        format!("{}device-{number}", self.prefix())
    }
}
