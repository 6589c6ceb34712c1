//! `LockService` in plain types.

use std::time::Duration;

use super::{CALL_DEADLINE, CallError, Client, answered, answered_within, convert, pb, request};
use crate::lock::{Acquisition, Release, Renewal};

impl Client {
    /// Acquires a lock. Waits for it up to `max_wait`, 0 to 60 s. `lease` `None` means the default.
    pub async fn acquire_lock(
        &self,
        name: &str,
        owner: &str,
        lease: Option<Duration>,
        max_wait: Duration,
    ) -> Result<Acquisition, CallError> {
        let message = pb::AcquireLockRequest {
            name: name.to_owned(),
            owner: owner.to_owned(),
            lease_duration: lease.map(convert::duration),
            max_wait: Some(convert::duration(max_wait)),
        };
        // The wait comes on top of the time for an answer.
        let deadline = CALL_DEADLINE + max_wait;
        let mut request = request(message);
        request.set_timeout(deadline);
        let mut service = self.lock.clone();
        convert::acquisition(answered_within(deadline, service.acquire_lock(request)).await?)
    }

    /// Renews the owner's lease from now on. `lease` `None` means the duration of the last request.
    pub async fn renew_lock(
        &self,
        name: &str,
        owner: &str,
        token: Option<u64>,
        lease: Option<Duration>,
    ) -> Result<Renewal, CallError> {
        let message = pb::RenewLockRequest {
            name: name.to_owned(),
            owner: owner.to_owned(),
            fencing_token: token,
            lease_duration: lease.map(convert::duration),
        };
        convert::lock_renewal(answered(self.lock.clone().renew_lock(request(message))).await?)
    }

    /// Releases the lock.
    pub async fn release_lock(
        &self,
        name: &str,
        owner: &str,
        token: Option<u64>,
    ) -> Result<Release, CallError> {
        let message = pb::ReleaseLockRequest {
            name: name.to_owned(),
            owner: owner.to_owned(),
            fencing_token: token,
        };
        convert::lock_release(answered(self.lock.clone().release_lock(request(message))).await?)
    }
}
