//! Converts outcomes of queued tasks to responses.

use bytes::Bytes;

use super::super::super::{convert::timestamp, page_token, pb};
use tollgate_core::{
    admission::{
        AttemptEnd, CancelVerdict, Cancellation, Dispatched, EnqueueStatus, ListedState,
        ListedTask, RequeueVerdict, TaskPage,
    },
    error::Error,
    names::Namespace,
};
use tollgate_engine::Answered;

/// Converts the queued task that a device receives.
pub(super) fn dispatched(dispatched: &Dispatched) -> pb::DispatchedTask {
    pb::DispatchedTask {
        task_id: dispatched.task.clone(),
        payload: dispatched.payload.clone(),
        attempt: dispatched.attempt,
    }
}

/// Converts the result of one task in a batch. Must not be called with an error that leaves the
/// fate of the task unknown, since such an error fails the whole call.
pub(in crate::grpc::admission) fn enqueued(
    task_id: Bytes,
    status: &Result<Answered<EnqueueStatus>, Error>,
) -> pb::EnqueueResult {
    let status = match status.as_ref().map(|answered| &answered.outcome) {
        Ok(EnqueueStatus::Duplicate) => pb::EnqueueStatus::Duplicate,
        Ok(EnqueueStatus::Enqueued) => pb::EnqueueStatus::Enqueued,
        Ok(EnqueueStatus::Expired) => pb::EnqueueStatus::Expired,
        Ok(EnqueueStatus::Full) | Err(Error::MemoryFull | Error::NamespaceLimit { .. }) => {
            pb::EnqueueStatus::Full
        }
        Err(Error::Corrupt(_)) => pb::EnqueueStatus::Unreadable,
        Err(_) => pb::EnqueueStatus::Unavailable,
    };
    pb::EnqueueResult { task_id, status: status.into() }
}

/// Converts a cancellation.
pub(in crate::grpc::admission) fn cancellation(
    cancellation: Cancellation,
) -> pb::CancelTaskResponse {
    let verdict = match cancellation.verdict {
        CancelVerdict::Cancelled => pb::CancelVerdict::Cancelled,
        CancelVerdict::Completed => pb::CancelVerdict::Completed,
        CancelVerdict::Running => pb::CancelVerdict::Running,
        CancelVerdict::Unknown => pb::CancelVerdict::Unknown,
    };
    pb::CancelTaskResponse { verdict: verdict.into(), replayed: cancellation.replayed }
}

/// Converts the verdict on requeuing a task.
pub(in crate::grpc::admission) fn requeued(verdict: RequeueVerdict) -> pb::RequeueTaskResponse {
    let verdict = match verdict {
        RequeueVerdict::AlreadyQueued => pb::RequeueVerdict::AlreadyQueued,
        RequeueVerdict::Expired => pb::RequeueVerdict::Expired,
        RequeueVerdict::Full => pb::RequeueVerdict::Full,
        RequeueVerdict::NotDead => pb::RequeueVerdict::NotDead,
        RequeueVerdict::Requeued => pb::RequeueVerdict::Requeued,
        RequeueVerdict::Unknown => pb::RequeueVerdict::Unknown,
    };
    pb::RequeueTaskResponse { verdict: verdict.into() }
}

/// Converts a page of tasks, omitting those whose state does not match the filter.
pub(in crate::grpc::admission) fn task_page(
    page: &TaskPage,
    namespace: &Namespace,
    wanted: impl Fn(ListedState) -> bool,
) -> pb::ListTasksResponse {
    let tasks = page.tasks.iter().filter(|listed| wanted(listed.state)).map(task).collect();
    pb::ListTasksResponse {
        tasks,
        next_page_token: page_token::encode(namespace, page.next.as_ref()),
    }
}

/// Converts a listed task. Listings contain no payloads.
fn task(listed: &ListedTask) -> pb::Task {
    let (device, task) = listed.device_and_task();
    let state = match listed.state {
        ListedState::Cancelled => pb::TaskState::Cancelled,
        ListedState::Dead => pb::TaskState::Dead,
        ListedState::Expired => pb::TaskState::Expired,
        ListedState::Queued => pb::TaskState::Queued,
        ListedState::Running => pb::TaskState::Running,
    };
    let last_end = match listed.last_end {
        None => pb::AttemptEnd::Unspecified,
        Some(AttemptEnd::Evicted) => pb::AttemptEnd::Evicted,
        Some(AttemptEnd::Expired) => pb::AttemptEnd::Expired,
        Some(AttemptEnd::Failed) => pb::AttemptEnd::Failed,
    };
    pb::Task {
        device_id: text(device),
        task_id: text(task),
        state: state.into(),
        attempt: listed.attempt,
        enqueue_time: Some(timestamp(listed.at)),
        expire_time: listed.ends.map(timestamp),
        fencing_token: listed.token,
        last_attempt_end: last_end.into(),
    }
}

/// Replaces invalid UTF-8, which stored bytes may contain but answers may not.
fn text(bytes: &[u8]) -> Bytes {
    String::from_utf8_lossy(bytes).into_owned().into()
}
