//! Converts outcomes to responses.

use bytes::Bytes;

use super::super::{
    convert::{duration, left, timestamp},
    pb,
};
use tollgate_core::{
    AsOf,
    lock::{Acquisition, GetLock, Lease, LockView, Release, RenewLock, Renewal},
    names::Name,
};
use tollgate_engine::ReadEntries;

/// Converts an acquisition. `holder` is empty if the lock is free but reserved for waiting calls.
pub(super) fn acquisition(
    name: &Name,
    owner: &Name,
    acquisition: Acquisition,
) -> pb::AcquireLockResponse {
    match acquisition {
        Acquisition::Acquired { lease: granted, replayed } => pb::AcquireLockResponse {
            outcome: pb::AcquireLockOutcome::Acquired.into(),
            lease: Some(lease(name, owner.to_bytes(), &granted)),
            replayed,
            ..pb::AcquireLockResponse::default()
        },
        Acquisition::Held { holder, retry_after, .. } => pb::AcquireLockResponse {
            outcome: pb::AcquireLockOutcome::Held.into(),
            holder,
            retry_after: Some(duration(retry_after)),
            ..pb::AcquireLockResponse::default()
        },
    }
}

/// Converts a renewal. Only `Renewed` has a lease.
pub(super) fn renewal(asked: &RenewLock, renewal: Renewal) -> pb::RenewLockResponse {
    let (outcome, lease) = match renewal {
        Renewal::NotHeld => (pb::RenewLockOutcome::NotHeld, None),
        Renewal::Renewed(renewed) => {
            let lease = lease(&asked.name, asked.owner.to_bytes(), &renewed);
            (pb::RenewLockOutcome::Renewed, Some(lease))
        }
    };
    pb::RenewLockResponse { outcome: outcome.into(), lease }
}

pub(super) fn release(release: Release) -> pb::ReleaseLockResponse {
    let outcome = match release {
        Release::NotHeld => pb::ReleaseLockOutcome::NotHeld,
        Release::Released => pb::ReleaseLockOutcome::Released,
    };
    pb::ReleaseLockResponse { outcome: outcome.into() }
}

/// Converts a view. The owner of a held lock is visible to all callers that may read it.
pub(super) fn view(name: &Name, view: LockView) -> pb::GetLockResponse {
    pb::GetLockResponse {
        held: view.holder.is_some(),
        lease: view.holder.map(|holder| lease(name, holder.owner, &holder.lease)),
        waiters: u32::try_from(view.waiters).unwrap_or(u32::MAX),
    }
}

/// Converts a page of locks. Free locks are left out.
pub(super) fn lock_page(
    entries: ReadEntries<GetLock>,
    next_page_token: Bytes,
) -> pb::ListLocksResponse {
    let mut page = pb::ListLocksResponse { next_page_token, ..Default::default() };
    for (GetLock { name }, read) in entries {
        match read.map(|read| view(&name, read)) {
            None => page.unreadable.push(name.local_bytes()),
            Some(pb::GetLockResponse { lease: None, .. }) => {}
            Some(pb::GetLockResponse { lease, waiters, .. }) => {
                page.locks.push(pb::Lock { name: name.local_bytes(), lease, waiters });
            }
        }
    }
    page
}

/// Converts a lease. The lock has its name without the namespace.
fn lease(name: &Name, owner: Bytes, lease: &AsOf<Lease>) -> pb::LockLease {
    pb::LockLease {
        name: name.local_bytes(),
        owner,
        fencing_token: lease.token,
        grant_time: Some(timestamp(lease.grant)),
        expire_time: Some(timestamp(lease.expire)),
        expires_in: Some(left(lease, lease.expire)),
    }
}
