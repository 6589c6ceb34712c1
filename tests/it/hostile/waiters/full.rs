//! H26: more waiting calls than `limits.waiters`.

use super::*;
use crate::support::requests::assert_at_limit;

#[tokio::test(flavor = "multi_thread")]
async fn h26_waiting_calls_above_the_limit_are_refused_embedded() {
    are_refused(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h26_waiting_calls_above_the_limit_are_refused_redis() {
    are_refused(true).await;
}

async fn are_refused(redis: bool) {
    let (_redis, site) = Site::with(redis, "[limits]\nwaiters = 3\n").await;
    site.set_capacity("pool", 1).await;
    let held = [(Kind::Pool, "pool"), (Kind::Lock, "lock")];
    for (kind, name) in held {
        site.hold(kind, name, "holder", 300.0).await;
    }
    let mut waiting = Vec::new();
    for who in ["first", "second", "third"] {
        waiting.push(site.ask(Kind::Pool, "pool", who, 60.0, 300.0));
        site.wait_for_waiters(Kind::Pool, "pool", waiting.len() as u32).await;
    }
    for (kind, name) in held {
        let refused = answered(site.ask(kind, name, "one too many", 60.0, 300.0)).await;
        assert_at_limit(&refused.unwrap_err(), "OVERLOADED");
        // Calls that do not wait are still decided.
        assert!(answered(site.ask(kind, name, "other", 0.0, 300.0)).await.unwrap().is_none());
    }
    assert_eq!(site.waiters(Kind::Pool, "pool").await, 3);

    // Once the first call has its slot, another call may wait.
    site.give_back(Kind::Pool, "pool", "holder").await;
    granted(waiting.remove(0)).await;
    let next = site.ask(Kind::Lock, "lock", "next", 60.0, 300.0);
    site.wait_for_waiters(Kind::Lock, "lock", 1).await;
    site.give_back(Kind::Lock, "lock", "holder").await;
    granted(next).await;
}
