//! Queued tasks of `AdmissionService` in plain types.

use bytes::Bytes;

use super::{CallError, Client, answered, pb, request};
use crate::admission::EnqueueStatus;

/// A task to queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTask {
    /// The device that is to run it.
    pub device: String,
    /// The task.
    pub task: String,
    /// What the device has to know.
    pub payload: Bytes,
}

/// Which tasks to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskListing {
    /// Those that are queued, running ones among them.
    Queued,
    /// Those whose last attempt ended without success.
    Dead,
}

impl Client {
    /// Queues tasks, at most 1,000; what became of each, in their order. Fails where the
    /// store refused some: queued again, the others are duplicates.
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

    /// Device and name of the tasks of a page that may follow on another one's `token`,
    /// empty for the first, and the next page's token, empty after the last.
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
