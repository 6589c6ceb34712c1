//! Locks while replies are lost and scripts are flushed, in real time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tonic::Code;

use crate::support::{
    locks::{Keeper, acquire, granted, release, renew, waiting},
    process::{OwnRedis, Server},
    wire::Wire,
};

/// Callers that acquire a lock again and again. Each checks that it is the only holder.
async fn compete(keepers: Vec<Keeper>, rounds: u64) {
    let (inside, last) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let callers = keepers.into_iter().enumerate().map(|(caller, locks)| {
        let (inside, last) = (inside.clone(), last.clone());
        tokio::spawn(async move {
            for round in 0..rounds {
                let owner = format!("o{caller}-{round}");
                let lease = granted(&locks.ask(waiting(60.0, acquire("l", &owner))).await);
                assert!(!inside.swap(true, Ordering::SeqCst), "two hold the lock");
                assert!(last.swap(lease.fencing_token, Ordering::SeqCst) < lease.fencing_token);
                tokio::task::yield_now().await;
                inside.store(false, Ordering::SeqCst);
                assert!(locks.released(release("l", &owner)).await);
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lock_has_one_holder_across_two_servers() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let one = Server::start(&["--engine", &redis.url()]).await;
    let other = Server::start(&["--engine", &redis.url()]).await;
    let keepers = [Keeper::to(&one).await, Keeper::to(&other).await];
    compete((0..20).map(|caller| keepers[caller % 2].clone()).collect(), 20).await;
    // Only the key of the lock itself is left.
    let left = redis.command(&["KEYS", "tollgate:{lock:l}:*"]).await.unwrap();
    assert_eq!(
        left,
        redis::Value::Array(vec![redis::Value::BulkString(b"tollgate:{lock:l}:lock".to_vec())])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_lock_has_one_holder() {
    let server = Server::start(&[]).await;
    compete(vec![Keeper::to(&server).await; 20], 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_script_flush_fails_no_call_that_waits() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    let keepers = vec![Keeper::to(&server).await; 10];
    let flushing = async {
        loop {
            redis.command(&["SCRIPT", "FLUSH"]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = compete(keepers, 20) => {}
        () = flushing => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_loses_no_lock() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let wire = Wire::to(redis.port).await;
    let server = Server::start(&["--engine", &format!("redis://127.0.0.1:{}", wire.port)]).await;
    let locks = Keeper::to(&server).await;
    // Loads the scripts, so that only replies to executed calls are lost.
    locks.acquired("warm", "a").await;
    locks.renewed(renew("warm", "a")).await;
    wire.lose_decision();
    let answer = locks.ask(acquire("l", "a")).await;
    let lease = granted(&answer);
    assert!(answer.replayed, "the second attempt is answered with the lease of the first");
    wire.lose_decision();
    assert!(locks.renewed(renew("l", "a")).await.is_some());
    wire.lose_decision();
    assert!(locks.released(release("l", "a")).await, "the second attempt is a repeat");
    assert!(locks.acquired("l", "b").await.fencing_token > lease.fencing_token);
    // The second attempt cannot determine what the first one did, so the answer is
    // DEADLINE_EXCEEDED. Some of the lost replies belong to a probe.
    let mut lost = Vec::new();
    for _ in 0..10 {
        wire.lose_decision();
        let answer = locks.0.clone().release_lock(release("l", "a")).await;
        lost.extend(answer.err().map(|status| status.code()));
    }
    assert!(
        !lost.is_empty() && lost.iter().all(|code| *code == Code::DeadlineExceeded),
        "{lost:?}"
    );
    assert_eq!(locks.held("l", "c").await, "b");
}
