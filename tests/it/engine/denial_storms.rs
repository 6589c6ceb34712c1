//! Storms of refused calls, and slots that are freed through another server, on the test's own
//! Redis.

use std::time::Duration;

use pb::AdmitDecision;
use tollgate_client::pb;

use crate::{
    engine::{
        denials::LONG,
        round_trips::{calls, reset},
    },
    support::{
        process::{OwnRedis, Server, TempFile},
        rates::under,
        world::{Client, Rates, admit, complete},
    },
};

const MINUTE: Duration = Duration::from_secs(60);

/// Waits until the server has reached its Redis.
async fn ready(client: &mut Client) {
    while client.get_pool(pb::GetPoolRequest { pool: "p".into() }).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_refused_calls_costs_redis_almost_nothing() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    redis.hold_sweeper().await;
    let config = TempFile::new(LONG);
    let server = Server::start(&["--engine", &redis.url(), "--config", config.path()]).await;
    let mut client = server.client().await;
    ready(&mut client).await;
    client.admit_task(admit("p", "holder", "t")).await.unwrap();
    client.admit_task(admit("p", "refused", "t")).await.unwrap();
    let mut rates = Rates::connect(server.address()).await.unwrap();
    for _ in 0..2 {
        rates.check_rate(under("k", "long")).await.unwrap();
    }
    reset(&redis).await;
    for device in 0..500 {
        client.admit_task(admit("p", &format!("d{device}"), "t")).await.unwrap();
        rates.check_rate(under("k", "long")).await.unwrap();
    }
    let counted = calls(&redis).await;
    // The pool and the key may each ask the store once in 10 s; the loop may take longer than that.
    let asked = counted.get("evalsha").copied().unwrap_or(0);
    assert!(asked <= 20, "{counted:?}");
    let get = pb::GetPoolRequest { pool: "p".into() };
    let pool = client.get_pool(get).await.unwrap().into_inner().pool.unwrap();
    assert_eq!(pool.refused, 501);
    assert!((480..=500).contains(&pool.refused_cached), "{}", pool.refused_cached);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_freed_by_another_server_is_seen_within_the_bound() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let config = TempFile::new("[[pool]]\nmatch = \"*\"\ncapacity = 1\nlease_duration = \"1h\"\n");
    let start = ["--engine", &redis.url(), "--config", config.path()];
    let (here, there) = (Server::start(&start).await, Server::start(&start).await);
    let (mut here, mut there) = (here.client().await, there.client().await);
    ready(&mut here).await;
    ready(&mut there).await;
    for round in 0..10 {
        let (holder, next) = (format!("holder{round}"), format!("next{round}"));
        there.admit_task(admit("p", &holder, "t")).await.unwrap();
        let refused = here.admit_task(admit("p", &next, "t")).await.unwrap().into_inner();
        assert_eq!(refused.decision(), AdmitDecision::Full);
        there.complete_task(complete("p", &holder, "t")).await.unwrap();
        // The lease lasts 1 h: only the bound of the denial cache makes the server ask again.
        let asks = async {
            while here.admit_task(admit("p", &next, "t")).await.unwrap().into_inner().decision()
                != AdmitDecision::Admitted
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(MINUTE, asks).await.expect("the server never saw the free slot");
        there.complete_task(complete("p", &next, "t")).await.unwrap();
    }
}
