//! Two servers on one Redis share the pools.

use std::time::Duration;

use pb::AdmitDecision;
use tokio::time::sleep;
use tollgate_client::pb;

use crate::support::{
    process::{OwnRedis, Server},
    world::{Client, admit, duration},
};

const LEASE: Duration = Duration::from_secs(5);

async fn ask(client: &mut Client, device: &str) -> Result<pb::AdmitTaskResponse, tonic::Status> {
    let request =
        pb::AdmitTaskRequest { lease_duration: Some(duration(LEASE)), ..admit("p", device, "t") };
    client.admit_task(request).await.map(tonic::Response::into_inner)
}

async fn servers(redis: &mut OwnRedis) -> [Server; 2] {
    redis.start().await;
    let url = redis.url();
    let servers =
        [Server::start(&["--engine", &url]).await, Server::start(&["--engine", &url]).await];
    for server in &servers {
        let mut client = server.client().await;
        while client.get_pool(pb::GetPoolRequest { pool: "p".into() }).await.is_err() {
            sleep(Duration::from_millis(20)).await;
        }
    }
    servers
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_share_the_capacity() {
    let mut redis = OwnRedis::prepare();
    let servers = servers(&mut redis).await;
    let mut callers = Vec::new();
    for caller in 0..40 {
        let mut client = servers[caller % 2].client().await;
        callers.push(tokio::spawn(async move {
            let mut admitted = 0;
            for device in 0..5 {
                let response = ask(&mut client, &format!("d{caller}-{device}")).await.unwrap();
                admitted += usize::from(response.decision() == AdmitDecision::Admitted);
            }
            admitted
        }));
    }
    let mut admitted = 0;
    for caller in callers {
        admitted += caller.await.unwrap();
    }
    assert_eq!(admitted, 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_under_load_loses_no_slot_beyond_a_lease() {
    let mut redis = OwnRedis::prepare();
    let [mut dying, living] = servers(&mut redis).await;
    let mut callers = Vec::new();
    for device in 0..60 {
        let (mut first, mut second) = (dying.client().await, living.client().await);
        callers.push(tokio::spawn(async move {
            let device = format!("d{device}");
            // Every call can be repeated, on any server.
            while ask(&mut first, &device).await.is_ok() {}
            let response = ask(&mut second, &device).await.unwrap();
            assert_eq!(response.decision(), AdmitDecision::Admitted, "{device}");
        }));
    }
    sleep(Duration::from_millis(50)).await;
    dying.process.0.kill().unwrap();
    for caller in callers {
        caller.await.unwrap();
    }
    // Each of the 60 tasks holds exactly one slot.
    let mut client = living.client().await;
    let full = ask(&mut client, "other").await.unwrap();
    assert_eq!(full.decision(), AdmitDecision::Full);
    assert_eq!(full.usage.unwrap().in_use, 60);
    // No task is completed. After the lease length all slots are free.
    sleep(LEASE).await;
    for device in 0..60 {
        let response = ask(&mut client, &format!("new{device}")).await.unwrap();
        assert_eq!(response.decision(), AdmitDecision::Admitted, "new{device}");
    }
}
