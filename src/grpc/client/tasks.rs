//! Queued tasks of `AdmissionService` in plain types.

use bytes::Bytes;

use super::{CallError, Client, answered, pb, request};
use crate::admission::EnqueueStatus;

/// A task to enqueue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTask {
    /// The device that runs the task.
    pub device: String,
    /// Name of the task.
    pub task: String,
    /// Input of the task for the device.
    pub payload: Bytes,
}

/// Filter of a task listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskListing {
    /// Queued and running tasks.
    Queued,
    /// Tasks whose last attempt ended without success.
    Dead,
}

impl Client {
    /// Enqueues at most 1,000 tasks. Returns the status of each, in order. Fails if the store
    /// refused some of them; a repeat reports the others as duplicates.
    pub async fn enqueue_tasks(
        &self,
        pool: &str,
        tasks: &[NewTask],
    ) -> Result<Vec<EnqueueStatus>, CallError> {
        let queued = tasks.iter().map(|task| pb::QueuedTask {
            device_id: task.device.clone(),
            task_id: task.task.clone(),
            payload: task.payload.clone(),
            expire_time: None,
        });
        let message = pb::EnqueueTasksRequest { pool: pool.to_owned(), tasks: queued.collect() };
        let answer = answered(self.admission.clone().enqueue_tasks(request(message))).await?;
        let is_refused =
            |result: &pb::EnqueueResult| result.status() == pb::EnqueueStatus::Unavailable;
        if answer.results.iter().any(is_refused) {
            return Err(CallError::refused());
        }
        let statuses = answer.results.iter().map(status).collect::<Option<Vec<_>>>();
        let statuses = statuses.filter(|statuses| statuses.len() == tasks.len());
        statuses.ok_or_else(|| CallError::malformed("results"))
    }

    /// Lists device and name of a page of tasks, and the token of the next page. Page tokens work
    /// as in [`list_pools`](Client::list_pools).
    pub async fn list_tasks(
        &self,
        pool: &str,
        which: TaskListing,
        token: &str,
    ) -> Result<(Vec<(String, String)>, String), CallError> {
        let mut message = pb::ListTasksRequest {
            pool: pool.to_owned(),
            page_size: Some(1000),
            page_token: token.to_owned(),
            ..pb::ListTasksRequest::default()
        };
        if which == TaskListing::Dead {
            message.set_state(pb::TaskState::Dead);
        }
        let page = answered(self.admission.clone().list_tasks(request(message))).await?;
        let tasks = page.tasks.into_iter().map(|task| (task.device_id, task.task_id));
        Ok((tasks.collect(), page.next_page_token))
    }
}

fn status(result: &pb::EnqueueResult) -> Option<EnqueueStatus> {
    match result.status() {
        pb::EnqueueStatus::Unspecified
        | pb::EnqueueStatus::Unreadable
        | pb::EnqueueStatus::Unavailable => None,
        pb::EnqueueStatus::Enqueued => Some(EnqueueStatus::Enqueued),
        pb::EnqueueStatus::Duplicate => Some(EnqueueStatus::Duplicate),
        pb::EnqueueStatus::Expired => Some(EnqueueStatus::Expired),
        pb::EnqueueStatus::Full => Some(EnqueueStatus::Full),
    }
}
