//! Pools with replica acknowledgement (`wait_replicas`), and the effect of a failover without it:
//! A14.

use std::{collections::HashSet, time::Duration};

use pb::{AdmitDecision, PoolEventKind};
use tollgate_client::pb;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::{
    events::watch::Events,
    support::{
        farm::eventually,
        pairs::Pair,
        queue::{batch, queued},
        world::{Client, admit, capacity, renew},
    },
};

const CAPACITY: usize = 20;
const WAITING: &str = "[[pool]]\nmatch = \"safe*\"\ncapacity = 20\nwait_replicas = 1\n\
                       wait_timeout = \"1s\"\ndenial_cache = \"0s\"\n";
const PLAIN: &str = "[[pool]]\nmatch = \"safe*\"\ncapacity = 20\n";

async fn ask(
    client: &Client,
    pool: &str,
    device: &str,
    task: &str,
) -> Result<pb::AdmitTaskResponse, Status> {
    let mut request = tonic::Request::new(admit(pool, device, task));
    request.set_timeout(Duration::from_secs(10));
    client.clone().admit_task(request).await.map(tonic::Response::into_inner)
}

fn reason(status: &Status) -> String {
    status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}

async fn in_use(client: &Client, pool: &str) -> u32 {
    let request = pb::GetPoolRequest { pool: pool.into() };
    let pool = client.clone().get_pool(request).await.unwrap().into_inner().pool;
    pool.unwrap().usage.unwrap().in_use
}

/// Makes one call for each device. Returns the devices that were admitted.
async fn admitted(client: &Client, devices: std::ops::Range<usize>) -> HashSet<String> {
    let mut admitted = HashSet::new();
    for device in devices {
        let device = format!("d{device}");
        match ask(client, "safe", &device, "t").await {
            Ok(answer) if answer.decision() == AdmitDecision::Admitted => {
                admitted.insert(device);
            }
            Ok(answer) => assert_eq!(answer.decision(), AdmitDecision::Full),
            Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status:?}"),
        }
    }
    admitted
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admission_without_replica_acknowledgement_is_revoked() {
    let pair = Pair::start(WAITING).await;
    let client = pair.client.clone();
    for pool in ["safe", "safe tiny"] {
        let first = ask(&client, pool, "d0", "t").await.unwrap();
        assert_eq!(first.decision(), AdmitDecision::Admitted);
    }
    client.clone().configure_pool(capacity("safe tiny", 1)).await.unwrap();
    let tasks = batch("safe", vec![queued("d2", "one")]);
    client.clone().enqueue_tasks(tasks).await.unwrap();
    let mut events = Events::watch(&client, "safe", Some("0")).await;

    pair.replica.signal("-STOP");
    let refused = ask(&client, "safe", "d1", "t").await.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::Unavailable, "UNCONFIRMED"));
    assert!(refused.message().contains("0 of 1 replicas"), "{refused:?}");
    assert!(refused.get_details_retry_info().is_some());
    let refused = ask(&client, "safe", "d2", "").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
    assert_eq!(in_use(&client, "safe").await, 1);
    // The repeated admission, the renewal and the setting stay in force: the error does not say
    // that they were undone.
    let repeat = ask(&client, "safe", "d0", "t").await.unwrap_err();
    assert_eq!((repeat.code(), &*reason(&repeat)), (Code::DeadlineExceeded, "UNCONFIRMED"));
    let renewal = client.clone().renew_task(renew("safe", "d0", "t")).await.unwrap_err();
    assert_eq!(renewal.code(), Code::DeadlineExceeded, "{renewal:?}");
    let configured = client.clone().configure_pool(capacity("safe", 20)).await.unwrap_err();
    assert_eq!(configured.code(), Code::DeadlineExceeded, "{configured:?}");
    // A refusal needs no acknowledgement.
    let full = ask(&client, "safe tiny", "d1", "t").await.unwrap();
    assert_eq!(full.decision(), AdmitDecision::Full);

    pair.replica.signal("-CONT");
    eventually("replicas acknowledge admissions again", async || {
        ask(&client, "safe", "d1", "t").await.is_ok()
    })
    .await;
    let dispatched = ask(&client, "safe", "d2", "").await.unwrap();
    assert_eq!(dispatched.task.unwrap().attempt, 1, "the revoked attempt was counted");
    assert_eq!(in_use(&client, "safe").await, 3);
    // Events report each revoked admission as EVICTED.
    let (mut held, mut evicted) = (HashSet::new(), 0);
    while held.len() < 3 {
        let event = events.next().await;
        match event.kind() {
            PoolEventKind::Admitted => assert!(held.insert(event.fencing_token)),
            PoolEventKind::Evicted => {
                assert!(held.remove(&event.fencing_token));
                evicted += 1;
            }
            _ => {}
        }
    }
    assert!(evicted >= 2, "{evicted}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a14_with_wait_replicas_a_failover_keeps_the_cap() {
    let mut pair = Pair::start(WAITING).await;
    let client = pair.client.clone();
    let mut holders = admitted(&client, 0..8).await;
    assert_eq!(holders.len(), 8);
    // The replica is cut off: from now on it receives no grant.
    pair.part();
    let calls = (8..20).map(|device| {
        let client = client.clone();
        tokio::spawn(async move { admitted(&client, device..device + 1).await })
    });
    for call in calls.collect::<Vec<_>>() {
        holders.extend(call.await.unwrap());
    }
    pair.fail_over().await;
    // The new primary has no replica until another one follows it.
    let (mut second, port) =
        (crate::support::process::OwnRedis::prepare(), pair.replica.port.to_string());
    second.start().await;
    second.command(&["REPLICAOF", "127.0.0.1", &port]).await.unwrap();
    eventually("replicas acknowledge admissions again", async || {
        ask(&client, "safe", "d0", "t").await.is_ok()
    })
    .await;
    holders.extend(admitted(&client, 20..60).await);
    assert_eq!(holders.len(), CAPACITY, "{holders:?}");
    assert_eq!(in_use(&client, "safe").await as usize, CAPACITY);
}

#[tokio::test(flavor = "multi_thread")]
async fn a14_without_wait_replicas_a_failover_admits_again_only_the_lost_number() {
    let mut pair = Pair::start(PLAIN).await;
    let client = pair.client.clone();
    let kept = admitted(&client, 0..8).await;
    pair.in_step().await;
    pair.part();
    let lost = admitted(&client, 8..30).await;
    assert_eq!((kept.len(), lost.len()), (8, CAPACITY - 8));
    pair.fail_over().await;
    let after = admitted(&client, 30..60).await;
    assert_eq!(after.len(), lost.len());
    // The holder of a lost lease learns that it is unknown.
    let device = lost.iter().next().unwrap();
    let renewal = client.clone().renew_task(renew("safe", device, "t")).await.unwrap();
    assert_eq!(renewal.into_inner().verdict(), pb::RenewVerdict::Unknown);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admission_is_revoked_after_its_call_has_ended() {
    let pair = Pair::start(WAITING).await;
    let client = pair.client.clone();
    assert!(ask(&client, "safe", "d0", "t").await.is_ok());
    pair.replica.signal("-STOP");
    // One call ends by its deadline, one is cancelled, and one waits until the end.
    let patient = client.clone();
    let patient = tokio::spawn(async move { ask(&patient, "safe", "d1", "t").await });
    let mut short = tonic::Request::new(admit("safe", "d2", "t"));
    short.metadata_mut().insert("grpc-timeout", "100m".parse().unwrap());
    let status = client.clone().admit_task(short).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
    let gone = client.clone();
    let gone = tokio::spawn(async move { ask(&gone, "safe", "d3", "t").await });
    eventually("the slot is granted", async || in_use(&client, "safe").await >= 2).await;
    gone.abort();
    assert_eq!(patient.await.unwrap().unwrap_err().code(), Code::Unavailable);
    eventually("all admissions without acknowledgement are revoked", async || {
        in_use(&client, "safe").await == 1
    })
    .await;
    pair.replica.signal("-CONT");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_frees_no_slot_within_its_grace() {
    let config = format!("{WAITING}lease_duration = \"100ms\"\nexpiry_grace = \"1h\"\n");
    let pair = Pair::start(&config).await;
    let client = pair.client.clone();
    let first = ask(&client, "safe", "d0", "t").await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    pair.replica.signal("-STOP");
    // The task gets its own slot again. The slot stays taken although no replica acknowledges.
    let again = ask(&client, "safe", "d0", "t").await.unwrap_err();
    assert_eq!((again.code(), &*reason(&again)), (Code::DeadlineExceeded, "UNCONFIRMED"));
    assert_eq!(in_use(&client, "safe").await, 1);
    pair.replica.signal("-CONT");
    eventually("the replica acknowledges the admission", async || {
        ask(&client, "safe", "d0", "t").await.is_ok()
    })
    .await;
    let last = ask(&client, "safe", "d0", "t").await.unwrap();
    assert!(last.lease.unwrap().fencing_token > first.lease.unwrap().fencing_token);
    assert_eq!(in_use(&client, "safe").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_call_waits_for_the_same_acknowledgement() {
    let config = WAITING.replace("\"1s\"", "\"3s\"");
    let pair = Pair::start(&config).await;
    let client = pair.client.clone();
    pair.replica.signal("-STOP");
    let asking = client.clone();
    let asked = tokio::spawn(async move { ask(&asking, "safe", "d0", "t").await });
    eventually("the slot is granted", async || in_use(&client, "safe").await == 1).await;
    // While the call waits for the replica, its connection breaks and the server repeats it.
    pair.break_connections().await;
    let status = asked.await.unwrap().expect_err(
        "the call succeeded although no replica \
        acknowledged it",
    );
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
    pair.replica.signal("-CONT");
    eventually("the replica acknowledges the admission", async || {
        ask(&client, "safe", "d0", "t").await.is_ok()
    })
    .await;
    assert_eq!(in_use(&client, "safe").await, 1);
}
