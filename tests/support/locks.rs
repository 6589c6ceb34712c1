//! Requests about locks, and checks of their answers.

use std::time::Duration;

use pb::{AcquireLockOutcome, ReleaseLockOutcome, RenewLockOutcome};
use tollgate_client::pb;
use tonic::Request;

use crate::support::{
    process::Server,
    world::{Locks, World, seconds},
};

pub fn acquire(name: &str, owner: &str) -> pb::AcquireLockRequest {
    pb::AcquireLockRequest { name: name.into(), owner: owner.into(), ..Default::default() }
}

pub fn leased(seconds_: f64, request: pb::AcquireLockRequest) -> pb::AcquireLockRequest {
    pb::AcquireLockRequest { lease_duration: Some(seconds(seconds_)), ..request }
}

pub fn waiting(seconds_: f64, request: pb::AcquireLockRequest) -> pb::AcquireLockRequest {
    pb::AcquireLockRequest { max_wait: Some(seconds(seconds_)), ..request }
}

pub fn release(name: &str, owner: &str) -> pb::ReleaseLockRequest {
    pb::ReleaseLockRequest { name: name.into(), owner: owner.into(), fencing_token: None }
}

pub fn renew(name: &str, owner: &str) -> pb::RenewLockRequest {
    pb::RenewLockRequest { name: name.into(), owner: owner.into(), ..Default::default() }
}

/// A client of the lock service.
#[derive(Clone)]
pub struct Keeper(pub Locks);

impl Keeper {
    /// Returns a client of a world's server.
    pub fn from_world(world: &World) -> Keeper {
        Keeper(world.locks.clone())
    }

    /// Returns a client of a server process, after the server has reached its store.
    pub async fn to(server: &Server) -> Keeper {
        let keeper = Keeper(Locks::connect(server.address()).await.unwrap());
        let up = async {
            let get = || pb::GetLockRequest { name: "up".into() };
            while keeper.0.clone().get_lock(get()).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), up).await.expect("Redis is usable");
        keeper
    }

    pub async fn ask(&self, request: pb::AcquireLockRequest) -> pb::AcquireLockResponse {
        let mut request = Request::new(request);
        request.set_timeout(Duration::from_secs(90));
        self.0.clone().acquire_lock(request).await.unwrap().into_inner()
    }

    /// Returns the lease that an owner is granted immediately, or already holds.
    pub async fn acquired(&self, name: &str, owner: &str) -> pb::LockLease {
        granted(&self.ask(acquire(name, owner)).await)
    }

    /// Returns the holder of a lock that `owner` does not get immediately.
    pub async fn held(&self, name: &str, owner: &str) -> String {
        refused(&self.ask(acquire(name, owner)).await)
    }

    /// Whether a release is answered RELEASED.
    pub async fn released(&self, request: pb::ReleaseLockRequest) -> bool {
        let answer = self.0.clone().release_lock(request).await.unwrap().into_inner();
        match answer.outcome() {
            ReleaseLockOutcome::Released => true,
            ReleaseLockOutcome::NotHeld => false,
            ReleaseLockOutcome::Unspecified => panic!("{answer:?}"),
        }
    }

    /// Returns the renewed lease; `None` if it is not held.
    pub async fn renewed(&self, request: pb::RenewLockRequest) -> Option<pb::LockLease> {
        let answer = self.0.clone().renew_lock(request).await.unwrap().into_inner();
        match answer.outcome() {
            RenewLockOutcome::Renewed => Some(answer.lease.expect("RENEWED without a lease")),
            RenewLockOutcome::NotHeld => {
                assert_eq!(answer.lease, None);
                None
            }
            RenewLockOutcome::Unspecified => panic!("{answer:?}"),
        }
    }

    pub async fn get(&self, name: &str) -> pb::GetLockResponse {
        let request = pb::GetLockRequest { name: name.into() };
        self.0.clone().get_lock(request).await.unwrap().into_inner()
    }

    /// Waits until a lock has exactly `count` waiters.
    pub async fn waiters(&self, name: &str, count: u32) {
        let come = async {
            while self.get(name).await.waiters != count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let came = tokio::time::timeout(Duration::from_secs(20), come).await;
        if came.is_err() {
            panic!("{count} wait for {name}: {:?}", self.get(name).await);
        }
    }
}

pub fn granted(answer: &pb::AcquireLockResponse) -> pb::LockLease {
    assert_eq!(answer.outcome(), AcquireLockOutcome::Acquired, "{answer:?}");
    assert!(answer.holder.is_empty() && answer.retry_after.is_none(), "{answer:?}");
    answer.lease.clone().expect("a lease is granted")
}

pub fn refused(answer: &pb::AcquireLockResponse) -> String {
    assert_eq!(answer.outcome(), AcquireLockOutcome::Held, "{answer:?}");
    let retry = answer.retry_after.expect("HELD without retry_after");
    assert!(retry.seconds > 0 || retry.nanos > 0, "{answer:?}");
    assert!(answer.lease.is_none() && !answer.replayed, "{answer:?}");
    answer.holder.clone()
}
