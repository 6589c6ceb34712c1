//! J20 and J21: Redis refuses some or all writes because it has no memory left.

use std::time::Duration;

use tokio::time::sleep;
use tollgate_client::pb;
use tonic::Code;

use super::AdminServer;
use crate::support::{
    farm::eventually,
    process::OwnRedis,
    world::{Client, admit, capacity, seconds},
};

/// Returns a server with admin pages on its own Redis, and a client.
async fn site() -> (OwnRedis, AdminServer, Client) {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let server = AdminServer::start(&["--engine", &redis.url()]).await;
    server.up().await;
    let client = server.server.client().await;
    (redis, server, client)
}

/// Makes Redis refuse all writes, or accept them.
async fn refuse(redis: &OwnRedis, refuse: bool) {
    let most = if refuse { "1" } else { "0" };
    redis.command(&["CONFIG", "SET", "maxmemory", most]).await.unwrap();
}

async fn ready(server: &AdminServer) -> u16 {
    server.get("/readyz").await.0
}

/// Whether Redis refuses the write of a call.
async fn is_refused(client: &Client, device: &str) -> bool {
    match client.clone().admit_task(admit("p", device, "t")).await {
        Ok(_) => false,
        Err(failed) => {
            assert_eq!(failed.code(), Code::Unavailable, "{failed:?}");
            true
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn j20_a_refused_write_ends_readiness_immediately() {
    let (redis, server, client) = site().await;
    assert_eq!(ready(&server).await, 200);
    refuse(&redis, true).await;
    assert!(is_refused(&client, "d").await);
    refuse(&redis, false).await;
    // Later writes succeed. The server does not wait for a probe to be refused, too.
    assert_eq!(ready(&server).await, 503);
    eventually("the server is ready again", async || ready(&server).await == 200).await;
    assert!(!is_refused(&client, "d").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn j20_writes_that_hover_at_the_limit_do_not_count_as_recovery() {
    let (redis, server, client) = site().await;
    let mut answers = Vec::new();
    for round in 0..6 {
        refuse(&redis, true).await;
        assert!(is_refused(&client, &format!("d{round}")).await);
        refuse(&redis, false).await;
        // Long enough for several probes.
        for _ in 0..8 {
            answers.push(ready(&server).await);
            sleep(Duration::from_millis(100)).await;
        }
    }
    assert!(answers.iter().all(|status| *status == 503), "{answers:?}");
    eventually("the server is ready again", async || ready(&server).await == 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j21_expiries_that_redis_refused_to_write_are_not_counted() {
    const LEASES: u32 = 20;
    let (redis, server, client) = site().await;
    client.clone().configure_pool(capacity("p", LEASES)).await.unwrap();
    for device in 0..LEASES {
        let lease_duration = Some(seconds(1.0));
        let request = admit("p", &format!("holder {device}"), "t");
        let request = pb::AdmitTaskRequest { lease_duration, ..request };
        client.clone().admit_task(request).await.unwrap();
    }
    refuse(&redis, true).await;
    eventually("the leases have ended", async || {
        let request = pb::GetPoolRequest { pool: "p".into() };
        let pool = client.clone().get_pool(request).await.unwrap().into_inner().pool.unwrap();
        pool.usage.unwrap().in_use == 0
    })
    .await;
    // Each call first removes expired leases.
    for device in 0..10 {
        assert!(is_refused(&client, &format!("d{device}")).await);
    }
    let counted = |scrape: &super::Scrape| scrape.value("tollgate_leases_expired_total");
    assert_eq!(counted(&server.scrape().await), 0.0);
    refuse(&redis, false).await;
    let all = f64::from(LEASES);
    let scrape = server.scrape_until("all are counted", |scrape| counted(scrape) >= all).await;
    assert_eq!(counted(&scrape), all);
}
