//! Two servers under load while their Redis loses its data.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use pb::AdmitDecision;
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};
use tollgate_client::pb;
use tollgate_core::time::monotonic;

use super::{PATIENCE, Wipe, is_lost, says, sequences, store, value};
use crate::support::{
    locks::{acquire, leased},
    process::{OwnRedis, Server, TempFile},
    sequences::{next, try_next},
    world::{Locks, admit, renew},
};

const CAPACITY: usize = 4;
const LEASE: Duration = Duration::from_secs(3);
const CONFIG: &str = "[[pool]]\nmatch = \"*\"\ncapacity = 4\nlease_duration = \"3s\"\n";

/// What a caller was given.
#[derive(Default)]
struct Given {
    serials: Vec<u64>,
    /// When a lease certainly ran: from its answer until a lease duration after its call began.
    leases: Vec<(Instant, Instant)>,
    /// Whether a call ended with STORE_LOST.
    was_refused: bool,
}

/// Asks for serials and leases until `end`.
fn caller(server: &Server, number: usize, end: Arc<AtomicBool>) -> JoinHandle<Given> {
    let address = server.address();
    tokio::spawn(async move {
        let mut given = Given::default();
        let mut pools = crate::support::world::Client::connect(address.clone()).await.unwrap();
        let serials = crate::support::world::Sequences::connect(address).await.unwrap();
        for task in 0.. {
            if end.load(Ordering::SeqCst) && given.was_refused {
                break;
            }
            match try_next(&serials, next("order")).await {
                Ok(answer) => given.serials.push(answer.first),
                Err(status) => given.was_refused |= is_lost(&status),
            }
            let begin = monotonic();
            let request = admit("p", &format!("d{number}"), &format!("t{task}"));
            if let Ok(answer) = pools.admit_task(request).await
                && answer.into_inner().decision() == AdmitDecision::Admitted
            {
                given.leases.push((monotonic(), begin + LEASE));
            }
            sleep(Duration::from_millis(5)).await;
        }
        given
    })
}

/// Returns the largest number of leases that certainly ran at the same time.
fn most(leases: &[(Instant, Instant)]) -> usize {
    let at = |time: &Instant| leases.iter().filter(|(from, to)| from <= time && time < to).count();
    leases.iter().map(|(from, _)| at(from)).max().unwrap_or_default()
}

async fn loses_nothing_twice(wipe: Wipe) {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let (config, url) = (TempFile::new(CONFIG), redis.url());
    let arguments = ["--engine", &url, "--config", config.path()];
    let servers = [Server::start(&arguments).await, Server::start(&arguments).await];
    for server in &servers {
        value(&sequences(server).await, "order").await;
    }
    let end = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> =
        (0..8).map(|number| caller(&servers[number % 2], number, end.clone())).collect();
    let key = "tollgate:{sequence:order}:counter";
    let far = async {
        loop {
            let last = redis.command(&["HGET", key, "last"]).await.unwrap();
            if redis::from_redis_value::<Option<u64>>(last).unwrap().is_some_and(|last| last > 60) {
                return;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, far).await.expect("the callers get serials");
    wipe.apply(&mut redis).await;
    end.store(true, Ordering::SeqCst);

    let (mut serials, mut leases) = (Vec::new(), Vec::new());
    for caller in callers {
        let given = timeout(PATIENCE, caller).await.expect("each caller is refused").unwrap();
        serials.extend(given.serials);
        leases.extend(given.leases);
    }
    let distinct: HashSet<u64> = serials.iter().copied().collect();
    assert_eq!(distinct.len(), serials.len(), "a serial was repeated: {serials:?}");
    // New leases are granted only after those that were lost have ended.
    let mut pools = servers[0].client().await;
    let granted = async {
        loop {
            let begin = monotonic();
            let answer = pools.admit_task(admit("p", "later", "t")).await.unwrap().into_inner();
            if answer.decision() == AdmitDecision::Admitted {
                leases.push((monotonic(), begin + LEASE));
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, granted).await.expect("the hold ends");
    assert!(most(&leases) <= CAPACITY, "{} of {CAPACITY} leases run", most(&leases));

    let (code, said) = store(&servers[0], &["accept-loss", "--yes"]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with("accepted the loss of 127.0.0.1:"), "{said}");
    for server in &servers {
        let client = sequences(server).await;
        assert!(value(&client, "order").await <= 2, "it begins again");
    }
    says(&servers[1], "\nloss   accepted, ").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j2_flushall_under_load_repeats_no_serial_and_exceeds_no_capacity() {
    loses_nothing_twice(Wipe::Flush).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j2_a_redis_restarted_empty_under_load_repeats_no_serial_and_exceeds_no_capacity() {
    loses_nothing_twice(Wipe::Restart).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j2_a_lost_lease_is_registered_again_by_its_renewal() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let config = TempFile::new("[[pool]]\nmatch = \"*\"\ncapacity = 1\nlease_duration = \"60s\"\n");
    let server = Server::start(&["--engine", &redis.url(), "--config", config.path()]).await;
    value(&sequences(&server).await, "order").await;
    let mut client = server.client().await;
    let granted = client.admit_task(admit("p", "d1", "t")).await.unwrap().into_inner();
    let token = granted.lease.unwrap().fencing_token;
    redis.command(&["FLUSHALL"]).await.unwrap();
    let held = client.admit_task(admit("p", "d2", "t")).await.unwrap().into_inner();
    assert_eq!(held.decision(), AdmitDecision::Paused);
    let request = pb::RenewTaskRequest { fencing_token: Some(token), ..renew("p", "d1", "t") };
    let renewed = client.renew_task(request).await.unwrap().into_inner();
    assert_eq!(renewed.verdict(), pb::RenewVerdict::Renewed);
    let pool = client.get_pool(pb::GetPoolRequest { pool: "p".into() }).await.unwrap();
    let pool = pool.into_inner().pool.unwrap();
    assert_eq!(pool.usage.unwrap().in_use, 1);
    assert!(pool.hold_end_time.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn j2_after_a_loss_a_lock_has_a_greater_fencing_token() {
    for wipe in [Wipe::Flush, Wipe::Delete, Wipe::Restart] {
        let mut redis = OwnRedis::prepare();
        redis.start().await;
        let server = Server::start(&["--engine", &redis.url()]).await;
        value(&sequences(&server).await, "order").await;
        let mut locks = Locks::connect(server.address()).await.unwrap();
        let taken = locks.acquire_lock(leased(60.0, acquire("l", "a"))).await.unwrap();
        wipe.apply(&mut redis).await;
        let again = async {
            loop {
                match locks.acquire_lock(leased(60.0, acquire("l", "b"))).await {
                    Ok(answer) if answer.get_ref().lease.is_some() => return answer,
                    _ => sleep(Duration::from_millis(20)).await,
                }
            }
        };
        let again = timeout(PATIENCE, again).await.expect("the lock is free");
        let token = |answer: tonic::Response<pb::AcquireLockResponse>| {
            answer.into_inner().lease.unwrap().fencing_token
        };
        assert!(token(again) > token(taken), "{wipe:?}");
    }
}
