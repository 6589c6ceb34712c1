//! H15: SIGTERM while calls wait.

use tonic::Code;
use tonic_types::StatusExt;

use super::*;

const KINDS: [Kind; 2] = [Kind::Pool, Kind::Lock];

/// Fails unless the call was refused with SERVER_ENDING, which sends the caller to another server.
fn assert_sent_elsewhere(answer: Result<Option<Granted>, Status>) {
    let status = answer.expect_err("no decision");
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    let details = status.get_error_details();
    assert_eq!(details.error_info().expect("ErrorInfo").reason, "SERVER_ENDING");
    let retry = details.retry_info().and_then(|retry| retry.retry_delay).expect("RetryInfo");
    assert!(retry > Duration::ZERO && retry <= Duration::from_secs(2), "{retry:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn h15_waiters_of_a_stopping_server_get_server_ending_embedded() {
    are_sent_elsewhere(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h15_waiters_of_a_stopping_server_get_server_ending_redis() {
    are_sent_elsewhere(true).await;
}

async fn are_sent_elsewhere(redis: bool) {
    let (_redis, mut site) = Site::one(redis).await;
    site.set_capacity("x", 1).await;
    let mut calls = Vec::new();
    for kind in KINDS {
        site.hold(kind, "x", "holder", 300.0).await;
        for turn in 0..20 {
            calls.push(site.ask(kind, "x", &format!("w{turn}"), 60.0, 300.0));
        }
        site.wait_for_waiters(kind, "x", 20).await;
    }
    site.server.process.signal("-TERM");
    for call in calls {
        assert_sent_elsewhere(answered(call).await);
    }
    assert_eq!(site.server.process.end(PATIENCE).await, Some(0));
}

/// Returns two servers on one Redis: `own` calls wait on the first and `others` on the second.
/// Shuts the first one down. Returns Redis, the second server and its waiting calls.
async fn crowd(kind: Kind, own: usize, others: usize) -> (OwnRedis, Site, Vec<Call>) {
    let (redis, mut ending) = Site::one(true).await;
    let redis = redis.unwrap();
    let other = Site::on(&redis.url(), "").await;
    other.set_capacity("x", 1).await;
    other.hold(kind, "x", "holder", 300.0).await;
    let mut calls = Vec::new();
    for turn in 0..own + others {
        let site = if turn < own { &ending } else { &other };
        calls.push(site.ask(kind, "x", &format!("w{turn}"), 60.0, 300.0));
        other.wait_for_waiters(kind, "x", turn as u32 + 1).await;
    }
    let rest = calls.split_off(own);
    ending.server.process.signal("-TERM");
    for call in calls {
        assert_sent_elsewhere(answered(call).await);
    }
    assert_eq!(
        other.waiters(kind, "x").await,
        others as u32,
        "a kept ticket is not counted as a waiter"
    );
    assert_eq!(ending.server.process.end(PATIENCE).await, Some(0));
    (redis, other, rest)
}

/// Frees the slot for one call after the other. Fails unless they are served in this order.
async fn are_served_in_order(kind: Kind, site: &Site, calls: Vec<Call>) {
    let mut holder = "holder".to_owned();
    let mut left = calls.len();
    for (turn, call) in calls.into_iter().enumerate() {
        site.give_back(kind, "x", &holder).await;
        granted(call).await;
        left -= 1;
        assert_eq!(site.waiters(kind, "x").await, left as u32);
        holder = format!("w{turn}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h15_a_retry_at_another_server_keeps_its_ticket() {
    for kind in KINDS {
        let (_redis, other, rest) = crowd(kind, 5, 5).await;
        // The calls return in another order than they first arrived in.
        let mut back = Vec::new();
        for turn in [3, 1, 4, 0, 2] {
            back.push((turn, other.ask(kind, "x", &format!("w{turn}"), 60.0, 300.0)));
            other.wait_for_waiters(kind, "x", 5 + back.len() as u32).await;
        }
        back.sort_by_key(|(turn, _)| *turn);
        let calls = back.into_iter().map(|(_, call)| call).chain(rest).collect();
        are_served_in_order(kind, &other, calls).await;
    }
}

/// Without other waiters, only the kept tickets record the order of the queue.
#[tokio::test(flavor = "multi_thread")]
async fn h15_tickets_are_kept_when_no_waiter_is_left() {
    for kind in KINDS {
        let (_redis, other, _) = crowd(kind, 3, 0).await;
        let mut back = Vec::new();
        for turn in [2, 1, 0] {
            back.push(other.ask(kind, "x", &format!("w{turn}"), 60.0, 300.0));
            other.wait_for_waiters(kind, "x", back.len() as u32).await;
        }
        back.reverse();
        are_served_in_order(kind, &other, back).await;
    }
}

/// A call that arrives during the shutdown and would wait is sent to another server. A call that
/// does not wait, or that can be granted, is decided.
#[tokio::test(flavor = "multi_thread")]
async fn h15_a_stopping_server_decides_calls_that_need_no_wait() {
    for redis in [false, true] {
        let (_redis, site) = Site::one(redis).await;
        site.set_capacity("x", 1).await;
        for kind in KINDS {
            site.hold(kind, "x", "holder", 300.0).await;
        }
        let waits = site.ask(Kind::Lock, "x", "first", 60.0, 300.0);
        site.wait_for_waiters(Kind::Lock, "x", 1).await;
        site.server.process.signal("-TERM");
        assert_sent_elsewhere(answered(waits).await);
        // The server accepts calls for 250 ms more. Later calls fail to connect.
        for kind in KINDS {
            match answered(site.ask(kind, "x", "late", 60.0, 300.0)).await {
                Err(status) if !has_reason(&status) => continue,
                answer => assert_sent_elsewhere(answer),
            }
            match answered(site.ask(kind, "x", "hasty", 0.0, 300.0)).await {
                Err(status) if !has_reason(&status) => continue,
                answer => {
                    assert!(answer.unwrap().is_none(), "a call that does not wait is refused")
                }
            }
            match answered(site.ask(kind, "free", "late", 60.0, 300.0)).await {
                Err(status) if !has_reason(&status) => continue,
                answer => {
                    assert!(answer.unwrap().is_some(), "a free slot is granted during the shutdown")
                }
            }
        }
    }
}

/// Whether the error comes from Tollgate, and not from the client library after the connection
/// closed.
fn has_reason(status: &Status) -> bool {
    status.get_error_details().error_info().is_some()
}
