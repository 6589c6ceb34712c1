//! Parses requests into decisions. Each function reports all violations of a request together.

use bytes::Bytes;
use tonic::Status;

use super::super::{fields::Fields, pb, scope::Scope};
use tollgate_core::{
    lock::{AcquireLock, GetLock, LEASE_DEFAULT, LEASE_MAX, LEASE_MIN, ReleaseLock, RenewLock},
    names::Name,
    time::Millis,
};

/// Parses a request, and how long the call may wait, which is 0 if it does not wait. The lease is
/// 30 s by default.
pub(super) fn acquire_lock(
    request: pb::AcquireLockRequest,
    scope: Scope,
) -> Result<(AcquireLock, Millis), Status> {
    let mut fields = Fields::new(scope);
    let held = name_and_owner(&mut fields, request.name, request.owner);
    let lease_duration = lease_duration(&mut fields, request.lease_duration);
    let wait = fields.max_wait(request.max_wait);
    fields.finish(held.map(|(name, owner)| {
        let lease_duration = lease_duration.unwrap_or(LEASE_DEFAULT);
        let asked = AcquireLock { name, owner, lease_duration, waiting: None };
        // Copied, so that a waiting call does not keep the connection's read buffer in memory.
        (if wait.0 > 0 { asked.detached() } else { asked }, wait)
    }))
}

/// Parses a renewal. Without `lease_duration` the lease keeps its length.
pub(super) fn renew_lock(request: pb::RenewLockRequest, scope: Scope) -> Result<RenewLock, Status> {
    let mut fields = Fields::new(scope);
    let held = name_and_owner(&mut fields, request.name, request.owner);
    let lease_duration = lease_duration(&mut fields, request.lease_duration);
    let token = request.fencing_token;
    fields.finish(held.map(|(name, owner)| RenewLock { name, owner, token, lease_duration }))
}

/// Parses a release. Without `fencing_token` no token is compared.
pub(super) fn release_lock(
    request: pb::ReleaseLockRequest,
    scope: Scope,
) -> Result<ReleaseLock, Status> {
    let mut fields = Fields::new(scope);
    let held = name_and_owner(&mut fields, request.name, request.owner);
    let token = request.fencing_token;
    fields.finish(held.map(|(name, owner)| ReleaseLock { name, owner, token }))
}

pub(super) fn get_lock(request: pb::GetLockRequest, scope: Scope) -> Result<GetLock, Status> {
    let mut fields = Fields::new(scope);
    let name = fields.partition("name", request.name);
    fields.finish(name.map(|name| GetLock { name }))
}

/// Parses the lock and its owner. Permissions and namespaces apply to the lock only.
fn name_and_owner(fields: &mut Fields, name: Bytes, owner: Bytes) -> Option<(Name, Name)> {
    let (name, owner) = (fields.partition("name", name), fields.name("owner", owner));
    name.zip(owner)
}

fn lease_duration(fields: &mut Fields, value: Option<prost_types::Duration>) -> Option<Millis> {
    fields.duration("lease_duration", value, LEASE_MIN..=LEASE_MAX)
}
