//! H7: answers to calls during which Redis starts to refuse writes.

use std::time::Duration;

use pb::EnqueueStatus;
use tokio::time::sleep;
use tollgate_client::pb;
use tonic::{Code, Status};

use super::cost::{client_of, large, patient, redis_in_memory};
use crate::support::{
    locks::{Keeper, acquire},
    process::{OwnRedis, Server},
    queue::batch,
    rates::{check, limit, rule},
    world::{Rates, admit},
};

/// Error codes of Redis, each with the command that causes the error and the command that ends it.
const REFUSALS: [(&str, [&[&str]; 2]); 4] = [
    ("OOM", [&["CONFIG", "SET", "maxmemory", "1mb"], &["CONFIG", "SET", "maxmemory", "0"]]),
    (
        "MISCONF",
        [
            &["CONFIG", "SET", "stop-writes-on-bgsave-error", "yes"],
            &["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"],
        ],
    ),
    (
        "NOREPLICAS",
        [
            &["CONFIG", "SET", "min-replicas-to-write", "1"],
            &["CONFIG", "SET", "min-replicas-to-write", "0"],
        ],
    ),
    (
        "NOPERM",
        [
            &["ACL", "SETUSER", "default", "-zadd", "-rpush", "-hset"],
            &["ACL", "SETUSER", "default", "+@all"],
        ],
    ),
];

/// Number of tasks of a batch that takes several script calls.
const TASKS: i64 = 400;

/// Waits until more than `most` tasks are queued. Returns their number.
async fn queued(redis: &OwnRedis, pool: &str, most: i64) -> i64 {
    let key = format!("tollgate:{{admission:{pool}}}:backlog");
    for _ in 0..2000 {
        let redis::Value::Int(number) = redis.command(&["ZCARD", &key]).await.unwrap() else {
            panic!("ZCARD returned no number")
        };
        if number > most {
            return number;
        }
        sleep(Duration::from_millis(1)).await;
    }
    panic!("nothing was queued");
}

#[tokio::test(flavor = "multi_thread")]
async fn h7_a_batch_refused_halfway_reports_each_task() {
    let redis = redis_in_memory().await;
    redis.fail_save().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    let client = client_of(&server).await;
    for (why, [refuse, take]) in REFUSALS {
        let mut seen = false;
        for round in 0..20 {
            let pool = format!("{why}-{round}");
            let tasks: Vec<_> =
                (0..TASKS).map(|task| large(&format!("d{task:04}"), "t", 2000)).collect();
            let (mut caller, request) = (client.clone(), batch(&pool, tasks));
            let again = request.clone();
            let call = tokio::spawn(async move { caller.enqueue_tasks(patient(request)).await });
            queued(&redis, &pool, 0).await;
            redis.command(refuse).await.unwrap();
            let answer = call.await.unwrap();
            redis.command(take).await.unwrap();
            let there = queued(&redis, &pool, 0).await;
            // Redis may deny a command after the first write of a script.
            seen |= why == "NOPERM" && answer.is_err();
            let results = match answer {
                Ok(answer) => answer.into_inner().results,
                // It is unknown which of the tasks are queued.
                Err(status) => {
                    assert_eq!(status.code(), Code::DeadlineExceeded, "{why}: {status:?}");
                    continue;
                }
            };
            let of = |wanted| results.iter().filter(|one| one.status() == wanted).count() as i64;
            let refused = of(EnqueueStatus::Unavailable);
            assert_eq!((of(EnqueueStatus::Enqueued), refused), (there, TASKS - there), "{why}");
            if refused == 0 {
                continue;
            }
            seen = true;
            // Refused tasks can be queued again; the other tasks are duplicates.
            let mut caller = client.clone();
            let second = caller.enqueue_tasks(patient(again)).await.unwrap().into_inner().results;
            for (first, second) in results.iter().zip(second) {
                let expected = match first.status() {
                    EnqueueStatus::Unavailable => EnqueueStatus::Enqueued,
                    _ => EnqueueStatus::Duplicate,
                };
                assert_eq!(second.status(), expected, "{why}");
            }
            break;
        }
        assert!(seen, "{why}: no batch was refused in the middle");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h7_a_batch_refused_as_a_whole_is_not_queued() {
    let redis = redis_in_memory().await;
    redis.fail_save().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    let mut client = client_of(&server).await;
    for (why, [refuse, take]) in REFUSALS {
        redis.command(refuse).await.unwrap();
        let tasks = (0..100).map(|task| large(&format!("d{task}"), "t", 100)).collect();
        let refused = client.enqueue_tasks(batch(why, tasks)).await.unwrap_err();
        redis.command(take).await.unwrap();
        let expected = if why == "NOPERM" { Code::DeadlineExceeded } else { Code::Unavailable };
        assert_eq!(refused.code(), expected, "{why}: {refused:?}");
        let key = format!("tollgate:{{admission:{why}}}:backlog");
        assert_eq!(redis.command(&["ZCARD", &key]).await.unwrap(), redis::Value::Int(0), "{why}");
    }
}

/// Commands by which scripts write.
const WRITES: [&str; 13] = [
    "set",
    "psetex",
    "del",
    "unlink",
    "pexpire",
    "pexpireat",
    "zadd",
    "zrem",
    "hset",
    "hdel",
    "rpush",
    "xadd",
    "incrby",
];

#[tokio::test(flavor = "multi_thread")]
async fn h7_a_call_denied_after_its_first_write_is_never_unavailable() {
    let redis = redis_in_memory().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    let mut client = client_of(&server).await;
    let mut locks = Keeper::to(&server).await.0;
    let mut unsure = 0;
    for write in WRITES {
        let before = redis.command(&["DBSIZE"]).await.unwrap();
        redis.command(&["ACL", "SETUSER", "default", &format!("-{write}")]).await.unwrap();
        let admitted = client.admit_task(patient(admit(write, "d", "t"))).await.err();
        let locked = locks.acquire_lock(patient(acquire(write, "owner"))).await.err();
        redis.command(&["ACL", "SETUSER", "default", "+@all"]).await.unwrap();
        let errors: Vec<Status> = admitted.into_iter().chain(locked).collect();
        let is_unavailable = errors.iter().any(|error| error.code() == Code::Unavailable);
        unsure += errors.iter().filter(|error| error.code() == Code::DeadlineExceeded).count();
        if is_unavailable {
            assert_eq!(redis.command(&["DBSIZE"]).await.unwrap(), before, "{write}: {errors:?}");
        }
    }
    assert!(unsure > 0, "no command was denied");
}

/// A plain script changes counts with SETRANGE. A user who lacks it was set up for an earlier version.
#[tokio::test(flavor = "multi_thread")]
async fn h7_checks_count_for_a_user_without_setrange() {
    let redis = redis_in_memory().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    client_of(&server).await;
    redis.command(&["ACL", "SETUSER", "default", "-setrange"]).await.unwrap();
    let mut rates = Rates::connect(server.address()).await.unwrap();
    for algorithm in [pb::Algorithm::FixedWindow, pb::Algorithm::TokenBucket] {
        let rule = rule([limit(3, Duration::from_secs(3600), algorithm)]);
        let key = algorithm.as_str_name();
        let checks = (0..5).map(|_| check(key, &rule)).collect();
        let checked = rates.check_rates(pb::CheckRatesRequest { checks }).await.unwrap();
        assert_eq!(checked.into_inner().results.iter().filter(|one| one.allowed).count(), 3);
        let refused = rates.check_rate(check(key, &rule)).await.unwrap().into_inner();
        assert!(!refused.allowed, "{key}: {refused:?}");
    }
}
