//! The backup of `docs/operations.md`, rehearsed: export, loss of everything, import.

use std::{fs, time::Duration};

use crate::support::{
    locks,
    process::{OwnRedis, Server, TempFolder, done},
    sequences,
    world::{Client, Locks, Sequences, admit, capacity, patient},
};
use tollgate_client::pb;

/// State of three capabilities: a full pool, a held lock, a sequence at 3.
async fn fill(server: &Server) {
    let mut client = server.client().await;
    // On Redis, the first calls may come before the server has connected.
    let configured = async {
        while client.configure_pool(patient(capacity("p", 2))).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), configured).await.expect("the store answers");
    for device in ["d1", "d2"] {
        let response = client.admit_task(patient(admit("p", device, "t"))).await.unwrap();
        assert_eq!(response.into_inner().decision(), pb::AdmitDecision::Admitted);
    }
    let mut lock = Locks::connect(server.address()).await.unwrap();
    let request = locks::leased(3600.0, locks::acquire("l", "owner"));
    let answer = lock.acquire_lock(patient(request)).await.unwrap().into_inner();
    locks::granted(&answer);
    let mut sequence = Sequences::connect(server.address()).await.unwrap();
    let request = sequences::many(3, sequences::next("s"));
    sequence.next_sequence(sequences::patient(request)).await.unwrap();
}

/// The state is the one that [`fill`] created, and continues.
async fn check(server: &Server) {
    let mut client: Client = server.client().await;
    let state = async {
        loop {
            let request = patient(pb::GetPoolRequest { pool: "p".into() });
            match client.get_pool(request).await {
                Ok(response) => return response.into_inner().pool.unwrap(),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let pool = tokio::time::timeout(Duration::from_secs(30), state).await.expect("it answers");
    let usage = pool.usage.unwrap();
    assert_eq!((usage.capacity, usage.in_use), (2, 2));
    let refused = client.admit_task(patient(admit("p", "d3", "t"))).await.unwrap().into_inner();
    assert_eq!(refused.decision(), pb::AdmitDecision::Full);

    let mut lock = Locks::connect(server.address()).await.unwrap();
    let other = lock.acquire_lock(patient(locks::acquire("l", "other"))).await.unwrap();
    assert_eq!(locks::refused(&other.into_inner()), "owner");
    let mut sequence = Sequences::connect(server.address()).await.unwrap();
    let next = sequence.next_sequence(sequences::patient(sequences::next("s"))).await.unwrap();
    assert_eq!(next.into_inner().first, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_directory_is_restored_from_an_export() {
    let folder = TempFolder::new();
    fs::create_dir_all(folder.path()).unwrap();
    let (data, export) =
        (format!("{}/data", folder.text()), format!("{}/backup.jsonl", folder.text()));
    let mut server = Server::start(&["--data-dir", &data]).await;
    fill(&server).await;
    server.process.signal("-TERM");
    assert_eq!(server.process.end(Duration::from_secs(30)).await, Some(0));

    done(&["export", "--data-dir", &data, "--output", &export]).await;
    fs::remove_dir_all(&data).unwrap();
    done(&["import", "--data-dir", &data, &export]).await;
    check(&Server::start(&["--data-dir", &data]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_is_restored_from_an_export() {
    let folder = TempFolder::new();
    fs::create_dir_all(folder.path()).unwrap();
    let export = format!("{}/backup.jsonl", folder.text());
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let mut server = Server::start(&["--engine", &redis.url()]).await;
    fill(&server).await;
    // In use during the export.
    done(&["export", "--engine", &redis.url(), "--output", &export]).await;
    server.process.signal("-TERM");
    assert_eq!(server.process.end(Duration::from_secs(30)).await, Some(0));

    redis.command(&["FLUSHALL"]).await.unwrap();
    done(&["import", "--engine", &redis.url(), &export]).await;
    check(&Server::start(&["--engine", &redis.url()]).await).await;
}
