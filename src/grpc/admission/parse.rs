//! Parses requests into decisions. Each function reports all violations of a request together.

mod items;
mod tasks;

use bytes::Bytes;

pub(super) use items::{Items, admit_tasks, complete_tasks, renew_tasks};
pub(super) use tasks::{cancel_task, enqueue_tasks, list_tasks, requeue_task};
use tonic::Status;

use super::super::{fields::Fields, page_token, pb, scope::Scope};
use tollgate_core::{
    admission::{
        ATTEMPTS_MAX, AdmitTask, CAPACITY_MAX, Catalog, CompleteTask, ConfigurePool, EvictTask,
        GRACE_MAX, LEASE_MAX, LEASE_MIN, ListLeases, Outcome, Overrides, REASON_BYTES_MAX,
        RESULT_BYTES_MAX, RenewTask, Settings, TaskName,
    },
    names::Name,
    time::Millis,
};
use tollgate_engine::PartitionCursor;

/// Parses a request, and how long the call may wait, which is 0 if it does not wait. Without
/// `task_id` the call asks for the device's oldest queued task. The settings are those of the
/// configuration for this pool.
pub(super) fn admit_task(
    request: pb::AdmitTaskRequest,
    scope: Scope,
    catalog: &Catalog,
) -> Result<(AdmitTask, Millis), Status> {
    let mut fields = Fields::new(scope);
    let wait = fields.max_wait(request.max_wait);
    let admit = admit(&mut fields, request, |pool| catalog.settings(pool));
    // Copied, so that a waiting call does not keep the connection's read buffer in memory.
    fields.finish(admit.map(|admit| (if wait.0 > 0 { admit.detached() } else { admit }, wait)))
}

/// Parses all fields but `max_wait`.
fn admit(
    fields: &mut Fields,
    request: pb::AdmitTaskRequest,
    settings: impl FnOnce(&Name) -> Settings,
) -> Option<AdmitTask> {
    let pool = fields.partition("pool", request.pool);
    let device = fields.name("device_id", request.device_id);
    let task = fields.optional_name("task_id", request.task_id);
    let lease_duration = lease_duration(fields, request.lease_duration);
    let (pool, device) = pool.zip(device)?;
    let settings = settings(&pool);
    Some(AdmitTask { pool, device, task, lease_duration, settings, waiting: None })
}

/// Parses a result. An unset outcome means success, and without `fencing_token` no token is
/// compared.
pub(super) fn complete_task(
    request: pb::CompleteTaskRequest,
    scope: Scope,
    catalog: &Catalog,
) -> Result<CompleteTask, Status> {
    let mut fields = Fields::new(scope);
    let complete = complete(&mut fields, request, |pool| catalog.settings(pool));
    fields.finish(complete)
}

fn complete(
    fields: &mut Fields,
    request: pb::CompleteTaskRequest,
    settings: impl FnOnce(&Name) -> Settings,
) -> Option<CompleteTask> {
    let name = task_name(fields, request.pool, request.device_id, request.task_id);
    let outcome = match pb::Outcome::try_from(request.outcome) {
        Ok(pb::Outcome::Unspecified | pb::Outcome::Succeeded) => Outcome::Succeeded,
        Ok(pb::Outcome::Failed) => Outcome::Failed,
        Err(_) => {
            fields.violation("outcome", "must be OUTCOME_SUCCEEDED (1) or OUTCOME_FAILED (2)");
            Outcome::Failed
        }
    };
    let result = fields.bytes("result", request.result, RESULT_BYTES_MAX);
    name.map(|name| CompleteTask {
        settings: settings(&name.pool),
        name,
        token: request.fencing_token,
        outcome,
        result,
    })
}

/// Parses a renewal. Without `lease_duration` the lease gets the length set for the pool.
pub(super) fn renew_task(
    request: pb::RenewTaskRequest,
    scope: Scope,
    catalog: &Catalog,
) -> Result<RenewTask, Status> {
    let mut fields = Fields::new(scope);
    let renew = renew(&mut fields, request, |pool| catalog.settings(pool));
    fields.finish(renew)
}

fn renew(
    fields: &mut Fields,
    request: pb::RenewTaskRequest,
    settings: impl FnOnce(&Name) -> Settings,
) -> Option<RenewTask> {
    let name = task_name(fields, request.pool, request.device_id, request.task_id);
    let lease_duration = lease_duration(fields, request.lease_duration);
    name.map(|name| RenewTask {
        settings: settings(&name.pool),
        name,
        token: request.fencing_token,
        lease_duration,
    })
}

/// Parses an eviction. The reason may be empty.
pub(super) fn evict_task(
    request: pb::EvictTaskRequest,
    scope: Scope,
    catalog: &Catalog,
) -> Result<EvictTask, Status> {
    let mut fields = Fields::new(scope);
    let name = task_name(&mut fields, request.pool, request.device_id, request.task_id);
    let reason = fields.text("reason", request.reason, REASON_BYTES_MAX);
    fields.finish(name.map(|name| EvictTask {
        settings: catalog.settings(&name.pool),
        name,
        reason,
    }))
}

pub(super) fn get_pool(request: pb::GetPoolRequest, scope: Scope) -> Result<Name, Status> {
    let mut fields = Fields::new(scope);
    let pool = fields.partition("pool", request.pool);
    fields.finish(pool)
}

/// Parses the page size and the start of the page.
pub(super) fn list_pools(
    request: &pb::ListPoolsRequest,
    scope: Scope,
) -> Result<(u32, Option<PartitionCursor>), Status> {
    let mut fields = Fields::new(scope);
    let limit = fields.page_size(request.page_size);
    let after = page_token::decode(&mut fields, &request.page_token);
    fields.finish(Some((limit, after)))
}

pub(super) fn list_leases(
    request: pb::ListLeasesRequest,
    scope: Scope,
) -> Result<ListLeases, Status> {
    let mut fields = Fields::new(scope);
    let pool = fields.partition("pool", request.pool);
    let limit = fields.page_size(request.page_size);
    let after = page_token::decode(&mut fields, &request.page_token);
    fields.finish(pool.map(|pool| ListLeases { pool, limit, after }))
}

pub(super) fn configure_pool(
    request: pb::ConfigurePoolRequest,
    scope: Scope,
    catalog: &Catalog,
) -> Result<ConfigurePool, Status> {
    let mut fields = Fields::new(scope);
    let pool = fields.partition("pool", request.pool);
    let overrides = Overrides {
        capacity: fields.number("capacity", request.capacity, 0..=CAPACITY_MAX),
        lease_duration: lease_duration(&mut fields, request.lease_duration),
        expiry_grace: fields.duration("expiry_grace", request.expiry_grace, Millis(0)..=GRACE_MAX),
        paused: request.paused,
        max_attempts: fields.number("max_attempts", request.max_attempts, 1..=ATTEMPTS_MAX),
    };
    fields.finish(pool.map(|pool| ConfigurePool {
        settings: catalog.settings(&pool),
        pool,
        overrides,
        reset: request.reset.unwrap_or(false),
    }))
}

/// Parses the full name of a task. Permissions and namespaces apply to the pool only.
fn task_name(fields: &mut Fields, pool: Bytes, device: Bytes, task: Bytes) -> Option<TaskName> {
    let pool = fields.partition("pool", pool);
    let device = fields.name("device_id", device);
    let task = fields.name("task_id", task);
    Some(TaskName { pool: pool?, device: device?, task: task? })
}

fn lease_duration(fields: &mut Fields, value: Option<prost_types::Duration>) -> Option<Millis> {
    fields.duration("lease_duration", value, LEASE_MIN..=LEASE_MAX)
}
