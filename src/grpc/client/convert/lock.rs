//! Converts responses of `LockService` to outcomes.

use super::{CallError, millis, pb, timestamp};
use crate::decision::waiters::Turn;
use crate::lock::{Acquisition, Lease, Release, Renewal};

pub(in crate::grpc::client) fn acquisition(
    response: pb::AcquireLockResponse,
) -> Result<Acquisition, CallError> {
    match response.outcome() {
        pb::AcquireLockOutcome::Acquired => {
            let lease = lease(response.lease)?;
            Ok(Acquisition::Acquired { lease, replayed: response.replayed })
        }
        pb::AcquireLockOutcome::Held => Ok(Acquisition::Held {
            retry_after: millis(response.retry_after, "retry_after")?,
            holder: response.holder.into(),
            turn: Turn::Refused,
        }),
        pb::AcquireLockOutcome::Unspecified => Err(CallError::malformed("outcome")),
    }
}

pub(in crate::grpc::client) fn lock_renewal(
    response: pb::RenewLockResponse,
) -> Result<Renewal, CallError> {
    match response.outcome() {
        pb::RenewLockOutcome::Renewed => lease(response.lease).map(Renewal::Renewed),
        pb::RenewLockOutcome::NotHeld => Ok(Renewal::NotHeld),
        pb::RenewLockOutcome::Unspecified => Err(CallError::malformed("outcome")),
    }
}

pub(in crate::grpc::client) fn lock_release(
    response: pb::ReleaseLockResponse,
) -> Result<Release, CallError> {
    match response.outcome() {
        pb::ReleaseLockOutcome::Released => Ok(Release::Released),
        pb::ReleaseLockOutcome::NotHeld => Ok(Release::NotHeld),
        pb::ReleaseLockOutcome::Unspecified => Err(CallError::malformed("outcome")),
    }
}

fn lease(lease: Option<pb::LockLease>) -> Result<Lease, CallError> {
    let lease = lease.ok_or_else(|| CallError::malformed("lease"))?;
    Ok(Lease {
        token: lease.fencing_token,
        grant: timestamp(lease.grant_time)?,
        expire: timestamp(lease.expire_time)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_its_parts_is_malformed() {
        let mut response = pb::AcquireLockResponse::default();
        assert!(acquisition(response.clone()).is_err(), "no outcome");
        for outcome in [pb::AcquireLockOutcome::Acquired, pb::AcquireLockOutcome::Held] {
            response.set_outcome(outcome);
            assert!(acquisition(response.clone()).is_err(), "{outcome:?}");
        }
        response.retry_after = Some(prost_types::Duration { seconds: 1, nanos: 0 });
        assert!(acquisition(response).is_ok());
        let mut response = pb::RenewLockResponse::default();
        assert!(lock_renewal(response).is_err(), "no outcome");
        response = pb::RenewLockResponse::default();
        response.set_outcome(pb::RenewLockOutcome::Renewed);
        assert!(lock_renewal(response).is_err(), "no lease");
        assert!(lock_release(pb::ReleaseLockResponse::default()).is_err(), "no outcome");
    }
}
