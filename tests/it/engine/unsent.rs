//! Calls that wait on the server to be sent: while Redis hangs, after their deadline, and after
//! their callers have disconnected.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::sleep;
use tollgate_client::pb;
use tonic::{Code, Request};
use tonic_health::pb::health_check_response::ServingStatus;

use crate::server::service::await_health;
use crate::support::{
    farm::eventually,
    process::{OwnRedis, Server},
    wire::Wire,
    world::{Client, admit},
};

async fn served(redis: &OwnRedis) -> (Server, Client) {
    let server = Server::start(&["--engine", &redis.url()]).await;
    let client = server.client().await;
    eventually("the store answers", async || {
        client.clone().admit_task(admit("warm", "d", "t")).await.is_ok()
    })
    .await;
    (server, client)
}

/// Returns the devices that hold a lease.
async fn holders(client: &Client) -> BTreeSet<String> {
    let request = pb::ListLeasesRequest { pool: "p".into(), ..Default::default() };
    let leases = client.clone().list_leases(request).await.unwrap().into_inner().leases;
    leases.into_iter().map(|lease| lease.device_id).collect()
}

fn timed(device: &str, timeout: Duration) -> Request<pb::AdmitTaskRequest> {
    let mut request = Request::new(admit("p", device, "t"));
    request.set_timeout(timeout);
    request
}

/// A call that fails with UNAVAILABLE was never executed. If Redis hangs, the errors of unsent
/// calls name that cause, and not the deadline.
#[tokio::test(flavor = "multi_thread")]
async fn unsent_calls_of_a_hanging_redis_are_unavailable_and_not_executed() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let (_server, client) = served(&redis).await;
    redis.signal("-STOP");
    let mut calls = Vec::new();
    for number in 0..40 {
        let (mut client, device) = (client.clone(), format!("d{number}"));
        calls.push(tokio::spawn(async move {
            let answer = client.admit_task(timed(&device, Duration::from_secs(60))).await;
            (device, answer.map(|_| ()))
        }));
        // Each call becomes a separate batch: more batches than may be in flight.
        sleep(Duration::from_millis(5)).await;
    }
    let (mut unsent, mut unsure) = (BTreeSet::new(), 0);
    for call in calls {
        let (device, answer) = call.await.unwrap();
        let status = answer.unwrap_err();
        match status.code() {
            Code::Unavailable => {
                let whys = ["no answer to PING", "cannot connect: "];
                assert!(whys.iter().any(|why| status.message().contains(why)), "{status:?}");
                unsent.insert(device);
            }
            code => {
                assert_eq!(code, Code::DeadlineExceeded, "{status:?}");
                unsure += 1;
            }
        }
    }
    assert!(unsent.len() > 20 && unsure > 0, "{} unsent, {unsure} unsure", unsent.len());
    redis.signal("-CONT");
    eventually("the store answers", async || {
        client.clone().admit_task(admit("warm", "d", "t")).await.is_ok()
    })
    .await;
    let holders = holders(&client).await;
    assert!(unsent.is_disjoint(&holders), "{unsent:?} and {holders:?}");
}

/// Calls wait for a slow new connection as long as the store answers its probe.
#[tokio::test(flavor = "multi_thread")]
async fn calls_wait_for_a_connection_that_takes_long() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let wire = Wire::to(redis.port).await;
    let url = format!("redis://127.0.0.1:{}", wire.port);
    let server = Server::start(&["--engine", &url]).await;
    await_health(&server, "", ServingStatus::Serving).await;
    wire.start_slowly(Duration::from_secs(2));
    let mut client = server.client().await;
    let admitted = client.admit_task(timed("d", Duration::from_secs(60))).await.unwrap();
    assert_eq!(admitted.get_ref().decision(), pb::AdmitDecision::Admitted);
}

/// A call is never sent after its deadline, or after its caller has disconnected.
#[tokio::test(flavor = "multi_thread")]
async fn calls_past_their_deadline_or_without_a_caller_are_not_sent() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let (_server, client) = served(&redis).await;
    redis.signal("-STOP");
    let call = |device: String, timeout: Duration| {
        let mut client = client.clone();
        tokio::spawn(async move { client.admit_task(timed(&device, timeout)).await })
    };
    // As many calls as may be in flight.
    let mut held = Vec::new();
    for number in 0..8 {
        held.push(call(format!("held {number}"), Duration::from_secs(60)));
        sleep(Duration::from_millis(5)).await;
    }
    let late: Vec<_> =
        (0..20).map(|number| call(format!("late {number}"), Duration::from_millis(50))).collect();
    for call in late {
        assert!(call.await.unwrap().is_err());
    }
    let gone = call("gone".to_owned(), Duration::from_secs(60));
    sleep(Duration::from_millis(50)).await;
    gone.abort();
    sleep(Duration::from_millis(50)).await;
    redis.signal("-CONT");
    for call in held {
        // Redis hung for too short a time to count as unreachable.
        call.await.unwrap().unwrap();
    }
    let holders = holders(&client).await;
    let expected = (0..8).map(|number| format!("held {number}")).collect();
    assert_eq!(holders, expected);
}
