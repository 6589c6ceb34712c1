//! Requests with defaults, and readers of answers.

use std::time::Duration;

use tollgate_client::pb;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;

/// Returns a request with a long deadline, for a machine that stalls. The default deadline is 1 s.
pub fn patient<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(Duration::from_secs(60));
    request
}

pub fn admit(pool: &str, device: &str, task: &str) -> pb::AdmitTaskRequest {
    pb::AdmitTaskRequest {
        pool: pool.into(),
        device_id: device.into(),
        task_id: task.into(),
        ..pb::AdmitTaskRequest::default()
    }
}

pub fn complete(pool: &str, device: &str, task: &str) -> pb::CompleteTaskRequest {
    pb::CompleteTaskRequest {
        pool: pool.into(),
        device_id: device.into(),
        task_id: task.into(),
        ..pb::CompleteTaskRequest::default()
    }
}

pub fn renew(pool: &str, device: &str, task: &str) -> pb::RenewTaskRequest {
    pb::RenewTaskRequest {
        pool: pool.into(),
        device_id: device.into(),
        task_id: task.into(),
        ..pb::RenewTaskRequest::default()
    }
}

pub fn evict(pool: &str, device: &str, task: &str) -> pb::EvictTaskRequest {
    pb::EvictTaskRequest {
        pool: pool.into(),
        device_id: device.into(),
        task_id: task.into(),
        reason: "the device is gone".into(),
    }
}

pub fn configure(pool: &str) -> pb::ConfigurePoolRequest {
    pb::ConfigurePoolRequest { pool: pool.into(), ..pb::ConfigurePoolRequest::default() }
}

pub fn capacity(pool: &str, capacity: u32) -> pb::ConfigurePoolRequest {
    pb::ConfigurePoolRequest { capacity: Some(capacity), ..configure(pool) }
}

pub fn duration(length: Duration) -> prost_types::Duration {
    prost_types::Duration { seconds: length.as_secs() as i64, nanos: length.subsec_nanos() as i32 }
}

pub fn length(duration: Option<prost_types::Duration>) -> Duration {
    let duration = duration.expect("a duration in the answer");
    Duration::new(duration.seconds as u64, duration.nanos as u32)
}

/// A lease or reservation without the time left, which differs between the answers to repeats.
pub trait Undated {
    fn undated(&self) -> Self;
}

impl Undated for pb::Lease {
    fn undated(&self) -> pb::Lease {
        pb::Lease { expires_in: None, ..self.clone() }
    }
}

impl Undated for pb::LockLease {
    fn undated(&self) -> pb::LockLease {
        pb::LockLease { expires_in: None, ..self.clone() }
    }
}

impl Undated for pb::Reservation {
    fn undated(&self) -> pb::Reservation {
        pb::Reservation { expires_in: None, ..self.clone() }
    }
}

impl<T: Undated> Undated for Option<T> {
    fn undated(&self) -> Option<T> {
        self.as_ref().map(Undated::undated)
    }
}

/// Microseconds since the Unix epoch.
pub fn micros(instant: Option<prost_types::Timestamp>) -> u64 {
    let instant = instant.expect("a timestamp in the answer");
    instant.seconds as u64 * 1_000_000 + instant.nanos as u64 / 1000
}

pub fn seconds(seconds: f64) -> prost_types::Duration {
    Duration::from_secs_f64(seconds).try_into().unwrap()
}

/// Fails unless a call was refused at a limit, for this reason and with a time to retry.
pub fn assert_at_limit(refused: &Status, reason: &str) {
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    let details = refused.get_error_details();
    assert_eq!(details.error_info().expect("ErrorInfo").reason, reason, "{refused:?}");
    let retry = details.retry_info().and_then(|retry| retry.retry_delay).expect("RetryInfo");
    assert!(retry > Duration::ZERO, "{refused:?}");
}
