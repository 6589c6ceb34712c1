//! Parses requests about queued tasks into decisions.

use tonic::Status;

use super::{
    super::super::{elements::bounds, fields::Fields, page_token, pb, scope::Scope},
    task_name,
};
use tollgate_core::{
    admission::{
        CancelTask, Catalog, EnqueueTask, ListTasks, ListedState, PAYLOAD_BYTES_MAX, RequeueTask,
        Settings, TaskCursor, TaskName,
    },
    names::Name,
};

/// Parses a batch of 1 to 1,000 tasks for one pool, each of which is a decision. One invalid task
/// fails the whole batch; the error lists the violations of all tasks.
pub(in crate::grpc::admission) fn enqueue_tasks(
    request: pb::EnqueueTasksRequest,
    scope: Scope,
    catalog: &Catalog,
) -> Result<Vec<EnqueueTask>, Status> {
    let mut fields = Fields::new(scope);
    let pool = fields.partition("pool", request.pool);
    if !fields.elements("tasks", request.tasks.len(), bounds::ENQUEUE_TASKS_REQUEST_TASKS) {
        return fields.finish(None);
    }
    let settings = pool.as_ref().map(|pool| catalog.settings(pool));
    let mut tasks = Vec::with_capacity(request.tasks.len());
    for (i, queued) in request.tasks.into_iter().enumerate() {
        // Parsing continues after a violation, so that all are reported.
        tasks.push(fields.below(format_args!("tasks[{i}]."), |fields| {
            task(fields, queued, pool.as_ref(), settings)
        }));
    }
    fields.finish(tasks.into_iter().collect())
}

/// Parses one task of a batch; `None` if it has a violation, or if the pool has one.
fn task(
    fields: &mut Fields,
    queued: pb::QueuedTask,
    pool: Option<&Name>,
    settings: Option<Settings>,
) -> Option<EnqueueTask> {
    let device = fields.name("device_id", queued.device_id);
    let task = fields.name("task_id", queued.task_id);
    let payload = fields.bytes("payload", queued.payload, PAYLOAD_BYTES_MAX);
    let ends = fields.instant("expire_time", queued.expire_time);
    let name = TaskName { pool: pool?.clone(), device: device?, task: task? };
    Some(EnqueueTask { name, payload, ends, settings: settings? })
}

pub(in crate::grpc::admission) fn cancel_task(
    request: pb::CancelTaskRequest,
    scope: Scope,
    catalog: &Catalog,
) -> Result<CancelTask, Status> {
    let mut fields = Fields::new(scope);
    let name = task_name(&mut fields, request.pool, request.device_id, request.task_id);
    fields.finish(name.map(|name| CancelTask { settings: catalog.settings(&name.pool), name }))
}

pub(in crate::grpc::admission) fn requeue_task(
    request: pb::RequeueTaskRequest,
    scope: Scope,
    catalog: &Catalog,
) -> Result<RequeueTask, Status> {
    let mut fields = Fields::new(scope);
    let name = task_name(&mut fields, request.pool, request.device_id, request.task_id);
    fields.finish(name.map(|name| RequeueTask { settings: catalog.settings(&name.pool), name }))
}

/// Returns the listing, and a filter for the requested states.
pub(in crate::grpc::admission) fn list_tasks(
    request: pb::ListTasksRequest,
    scope: Scope,
) -> Result<(ListTasks, impl Fn(ListedState) -> bool), Status> {
    let mut fields = Fields::new(scope);
    let pool = fields.partition("pool", request.pool);
    let limit = fields.page_size(request.page_size);
    let wanted = match pb::TaskState::try_from(request.state) {
        Ok(pb::TaskState::Unspecified) => None,
        Ok(pb::TaskState::Cancelled) => Some(ListedState::Cancelled),
        Ok(pb::TaskState::Dead) => Some(ListedState::Dead),
        Ok(pb::TaskState::Expired) => Some(ListedState::Expired),
        Ok(pb::TaskState::Queued) => Some(ListedState::Queued),
        Ok(pb::TaskState::Running) => Some(ListedState::Running),
        Err(_) => {
            fields.violation("state", "must be a TaskState, 0 to 5");
            None
        }
    };
    let left = wanted.is_some_and(ListedState::has_left);
    let after: Option<TaskCursor> = page_token::decode(&mut fields, &request.page_token);
    if after.as_ref().is_some_and(|after| (after.due > 0) != left) {
        fields.violation("page_token", "must be a next_page_token of a listing of this state");
    }
    let listing = pool.map(|pool| ListTasks { pool, left, limit, after });
    // Without a state, all queued tasks are listed.
    let is_wanted = move |state| wanted.is_none_or(|wanted| wanted == state);
    fields.finish(listing.map(|listing| (listing, is_wanted)))
}
