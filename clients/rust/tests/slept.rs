//! A machine that slept. The clock of the whole process is moved, so this test is a program of its
//! own.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[allow(dead_code, reason = "the other tests use the rest")]
#[path = "it/support.rs"]
mod support;

use std::time::Duration;

use tokio::time::timeout;
use tollgate_client::{Admission, Locking, Outcome, advance_clock, pb};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn leases_are_lost_when_the_machine_has_slept_for_longer() {
    let server = support::Server::start().await;
    let connection = server.connection().await;
    let pool = connection.pool("p");
    let admitted = pool.admit("camera", "task").lease(MINUTE).await.unwrap();
    let Admission::Admitted(permit) = admitted else { panic!("{admitted:?}") };
    let locking = connection.lock("l").lease(MINUTE).await.unwrap();
    let Locking::Acquired(guard) = locking else { panic!("{locking:?}") };
    assert!(permit.is_valid() && guard.is_valid());

    advance_clock(MINUTE);
    assert!(!permit.is_valid(), "known immediately, before any timer");
    assert!(permit.is_lost() && permit.valid_for() == Duration::ZERO);
    // Nothing has checked the lock: the keeper detects the loss.
    timeout(MINUTE, guard.lost()).await.expect("the lock is lost");
    let verdict = permit.complete(Outcome::Succeeded, "").await;
    assert_eq!(verdict, Ok(pb::CompleteVerdict::Completed), "the server has not slept");
}
