//! Converts responses to outcomes. A response that violates the contract is an error.

mod lock;

use std::time::Duration;

pub(super) use lock::{acquisition, lock_release, lock_renewal};

use super::{CallError, pb};
use crate::{
    admission::{Admission, AdmitDecision, CompleteVerdict, Completion, Dispatched, Lease, Usage},
    decision::{
        time::{Millis, Timestamp},
        waiters::Turn,
    },
    rate::Ban,
};

pub(super) fn admission(response: pb::AdmitTaskResponse) -> Result<Admission, CallError> {
    let decision = match response.decision() {
        pb::AdmitDecision::Admitted => {
            let dispatched = response.task.map(|task| {
                let pb::DispatchedTask { task_id, payload, attempt } = task;
                Box::new(Dispatched { task: task_id.into(), payload, attempt })
            });
            let (lease, replayed) = (lease(response.lease)?, response.replayed);
            AdmitDecision::Admitted { lease, replayed, dispatched }
        }
        pb::AdmitDecision::Full => AdmitDecision::Full {
            retry_after: millis(response.retry_after, "retry_after")?,
            turn: Turn::Refused,
            room_in: 0,
        },
        pb::AdmitDecision::NoTask => AdmitDecision::NoTask,
        pb::AdmitDecision::Paused => {
            AdmitDecision::Paused { retry_after: millis(response.retry_after, "retry_after")? }
        }
        pb::AdmitDecision::AlreadyCompleted => AdmitDecision::AlreadyCompleted,
        pb::AdmitDecision::Unspecified => return Err(CallError::malformed("decision")),
    };
    Ok(Admission { decision, usage: usage(response.usage)? })
}

pub(super) fn completion(response: pb::CompleteTaskResponse) -> Result<Completion, CallError> {
    let verdict = match response.verdict() {
        pb::CompleteVerdict::AlreadyCompleted => CompleteVerdict::AlreadyCompleted,
        pb::CompleteVerdict::Completed => CompleteVerdict::Completed,
        pb::CompleteVerdict::Late => CompleteVerdict::Late,
        pb::CompleteVerdict::StaleToken => CompleteVerdict::StaleToken,
        pb::CompleteVerdict::Unknown => CompleteVerdict::Unknown,
        pb::CompleteVerdict::Unspecified => return Err(CallError::malformed("verdict")),
    };
    Ok(Completion { verdict, usage: usage(response.usage)? })
}

pub(super) fn ban(ban: pb::Ban) -> Result<Ban, CallError> {
    Ok(Ban {
        until: timestamp(ban.until)?,
        strikes: ban.strikes,
        reason: ban.reason.into_bytes(),
        actor: ban.actor.into_bytes(),
    })
}

pub(super) fn pool_usage(pool: Option<pb::Pool>) -> Result<Usage, CallError> {
    usage(pool.and_then(|pool| pool.usage))
}

/// Converts a duration. The command line bounds durations far below the maximum of the wire type.
pub(super) fn duration(length: Duration) -> prost_types::Duration {
    prost_types::Duration { seconds: length.as_secs() as i64, nanos: length.subsec_nanos() as i32 }
}

fn usage(usage: Option<pb::Usage>) -> Result<Usage, CallError> {
    let usage = usage.ok_or_else(|| CallError::malformed("usage"))?;
    Ok(Usage { capacity: usage.capacity, in_use: usage.in_use })
}

fn lease(lease: Option<pb::Lease>) -> Result<Lease, CallError> {
    let lease = lease.ok_or_else(|| CallError::malformed("lease"))?;
    Ok(Lease {
        token: lease.fencing_token,
        grant: timestamp(lease.grant_time)?,
        expire: timestamp(lease.expire_time)?,
    })
}

pub(super) fn timestamp(time: Option<prost_types::Timestamp>) -> Result<Timestamp, CallError> {
    let micros = time.and_then(|time| {
        let seconds = u64::try_from(time.seconds).ok()?;
        let nanos = u64::try_from(time.nanos).ok()?;
        seconds.checked_mul(1_000_000)?.checked_add(nanos / 1000)
    });
    micros.map(Timestamp).ok_or_else(|| CallError::malformed("time"))
}

/// Converts a duration to milliseconds, rounded up, so that no caller retries too early. `what`
/// names the field in the error.
pub(super) fn millis(
    length: Option<prost_types::Duration>,
    what: &str,
) -> Result<Millis, CallError> {
    let length = length.and_then(|length| Duration::try_from(length).ok());
    let millis =
        length.and_then(|length| u64::try_from(length.as_nanos().div_ceil(1_000_000)).ok());
    millis.map(Millis).ok_or_else(|| CallError::malformed(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_its_parts_is_malformed() {
        let mut response = pb::AdmitTaskResponse::default();
        assert!(admission(response.clone()).is_err());
        response.usage = Some(pb::Usage::default());
        for decision in [pb::AdmitDecision::Admitted, pb::AdmitDecision::Full] {
            response.set_decision(decision);
            assert!(admission(response.clone()).is_err());
        }
        response.set_decision(pb::AdmitDecision::AlreadyCompleted);
        assert!(admission(response).is_ok());
    }

    #[test]
    fn waits_are_rounded_up() {
        let wait = prost_types::Duration { seconds: 2, nanos: 1 };
        assert_eq!(millis(Some(wait), "wait"), Ok(Millis(2001)));
        assert!(millis(Some(prost_types::Duration { seconds: -1, nanos: 0 }), "wait").is_err());
    }
}
