//! Converts outcomes to responses.

mod items;
mod tasks;

use bytes::Bytes;

pub(super) use items::item_error;
pub(super) use tasks::{cancellation, enqueued, requeued, task_page};

use super::{
    super::{
        convert::{duration, left, timestamp},
        page_token, pb,
    },
    refusals::Refused,
};
use tollgate_core::{
    AsOf,
    admission::{
        Admission, AdmitDecision, AdmitTask, CompleteVerdict, Completion, EvictVerdict, Lease,
        LeasePage, PoolUsage, PoolView, RenewTask, RenewVerdict, Settings,
    },
    names::{Name, Namespace},
};
use tollgate_engine::Answered;

/// Converts an admission. A dispatched task has its own name; otherwise the response names the
/// requested task.
pub(super) fn admission(asked: AdmitTask, answered: &Answered<Admission>) -> pb::AdmitTaskResponse {
    use pb::AdmitDecision as Wire;

    let used = usage(&answered.outcome.usage);
    let mut response = pb::AdmitTaskResponse {
        usage: Some(pb::Usage { cached: answered.is_cached(), ..used }),
        degraded: answered.is_degraded(),
        ..pb::AdmitTaskResponse::default()
    };
    let decision = match &answered.outcome.decision {
        AdmitDecision::Admitted { lease: granted, replayed, dispatched } => {
            let queued = dispatched.as_ref().map(|dispatched| dispatched.task.clone());
            let named = || asked.task.map(Name::into_bytes).unwrap_or_default();
            let task = queued.unwrap_or_else(named);
            let pool = asked.pool.into_local_bytes();
            response.lease = Some(lease(pool, asked.device.into_bytes(), task, granted));
            response.replayed = *replayed;
            response.task = dispatched.as_deref().map(tasks::dispatched);
            Wire::Admitted
        }
        AdmitDecision::AlreadyCompleted => Wire::AlreadyCompleted,
        AdmitDecision::Full { retry_after, .. } => {
            response.retry_after = Some(duration(*retry_after));
            Wire::Full
        }
        AdmitDecision::NoTask => Wire::NoTask,
        AdmitDecision::Paused { retry_after } => {
            response.retry_after = Some(duration(*retry_after));
            Wire::Paused
        }
        // Cannot happen: the engine fails the call with the error of the limit.
        AdmitDecision::Limited => Wire::Unspecified,
    };
    response.set_decision(decision);
    response
}

/// Converts a completion. `degraded` is set if the fallback decided without the store.
pub(super) fn completion(answered: &Answered<Completion>) -> pb::CompleteTaskResponse {
    let (completion, degraded) = (&answered.outcome, answered.is_degraded());
    let verdict = match completion.verdict {
        CompleteVerdict::AlreadyCompleted => pb::CompleteVerdict::AlreadyCompleted,
        CompleteVerdict::Completed => pb::CompleteVerdict::Completed,
        CompleteVerdict::Late => pb::CompleteVerdict::Late,
        CompleteVerdict::StaleToken => pb::CompleteVerdict::StaleToken,
        CompleteVerdict::Unknown => pb::CompleteVerdict::Unknown,
    };
    let usage = Some(usage(&completion.usage));
    pb::CompleteTaskResponse { verdict: verdict.into(), usage, degraded }
}

/// Converts a renewal. Only `Renewed` has a lease.
pub(super) fn renewal(
    asked: RenewTask,
    answered: &Answered<RenewVerdict>,
) -> pb::RenewTaskResponse {
    let (name, degraded) = (asked.name, answered.is_degraded());
    let (verdict, lease) = match answered.outcome {
        RenewVerdict::Completed => (pb::RenewVerdict::Completed, None),
        RenewVerdict::Expired => (pb::RenewVerdict::Expired, None),
        RenewVerdict::Renewed(renewed) => {
            let (pool, device) = (name.pool.into_local_bytes(), name.device.into_bytes());
            let lease = lease(pool, device, name.task.into_bytes(), &renewed);
            (pb::RenewVerdict::Renewed, Some(lease))
        }
        RenewVerdict::StaleToken => (pb::RenewVerdict::StaleToken, None),
        RenewVerdict::Unknown => (pb::RenewVerdict::Unknown, None),
    };
    pb::RenewTaskResponse { verdict: verdict.into(), lease, degraded }
}

/// Converts an eviction.
pub(super) fn eviction(verdict: EvictVerdict) -> pb::EvictTaskResponse {
    let (verdict, replayed) = match verdict {
        EvictVerdict::Ended => (pb::EvictVerdict::Ended, false),
        EvictVerdict::Evicted { replayed } => (pb::EvictVerdict::Evicted, replayed),
        EvictVerdict::Unknown => (pb::EvictVerdict::Unknown, false),
    };
    pb::EvictTaskResponse { verdict: verdict.into(), replayed }
}

/// Converts a pool. `refused` counts the calls that this server answered FULL.
pub(super) fn pool(
    name: &Name,
    settings: &Settings,
    view: &PoolView,
    refused: Refused,
) -> pb::Pool {
    // In the order of the bits of `overridden`.
    const OVERRIDES: [&str; 5] =
        ["capacity", "lease_duration", "expiry_grace", "paused", "max_attempts"];
    let overrides = OVERRIDES.iter().enumerate();
    let overrides = overrides.filter(|(bit, _)| view.overridden & 1 << bit != 0);
    let config = pb::PoolConfig {
        capacity: view.usage.capacity,
        lease_duration: Some(duration(view.lease_duration)),
        expiry_grace: Some(duration(view.expiry_grace)),
        paused: view.paused,
        retention: Some(duration(settings.retention)),
        overrides: overrides.map(|(_, field)| Bytes::from_static(field.as_bytes())).collect(),
        barging: settings.barging,
        max_attempts: view.max_attempts,
        queued_max: settings.queued_max,
        history: settings.history,
    };
    pb::Pool {
        pool: name.local_bytes(),
        config: Some(config),
        usage: Some(usage(&view.usage)),
        oldest_grant_time: view.oldest_grant.map(timestamp),
        next_expire_time: view.next_expire.map(timestamp),
        queued: view.queued,
        waiters: u32::try_from(view.waiters).unwrap_or(u32::MAX),
        refused: refused.all,
        refused_cached: refused.cached,
        hold_end_time: view.held_until.map(timestamp),
    }
}

/// Builds a pool whose stored values cannot be read: all fields except the name are unset.
pub(super) fn unreadable_pool(name: &Name) -> pb::Pool {
    pb::Pool { pool: name.local_bytes(), ..pb::Pool::default() }
}

/// Converts a page of leases; the token of the last page is empty.
pub(super) fn lease_page(
    pool: &Name,
    namespace: &Namespace,
    page: LeasePage,
) -> pb::ListLeasesResponse {
    let next_page_token = page_token::encode(namespace, page.next.as_ref());
    let leases = page.leases.into_iter();
    let leases = leases
        .map(|held| lease(pool.local_bytes(), held.device.into(), held.task.into(), &held.lease));
    pb::ListLeasesResponse { leases: leases.collect(), next_page_token }
}

/// Converts a lease. The pool has its name without the namespace.
fn lease(pool: Bytes, device_id: Bytes, task_id: Bytes, lease: &AsOf<Lease>) -> pb::Lease {
    pb::Lease {
        pool,
        device_id,
        task_id,
        fencing_token: lease.token,
        grant_time: Some(timestamp(lease.grant)),
        expire_time: Some(timestamp(lease.expire)),
        expires_in: Some(left(lease, lease.expire)),
    }
}

/// Converts the usage of a pool. `over_by` is above 0 only after the capacity has been lowered.
fn usage(usage: &PoolUsage) -> pb::Usage {
    pb::Usage {
        capacity: usage.capacity,
        in_use: usage.in_use,
        available: usage.available(),
        over_by: usage.over_by(),
        cached: false,
    }
}
