//! Restarts, floors, imports, commands and metrics after a loss.

use tokio::time::{Duration, sleep, timeout};
use tonic::Code;

use super::{PATIENCE, Wipe, is_lost, refused, says, sequences, store, value};
use crate::{
    admin::AdminServer,
    support::{
        process::{OwnRedis, Server, TempFile, TempFolder, done, run},
        sequences::{floor, next, try_next},
    },
};

async fn started() -> OwnRedis {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    redis
}

#[tokio::test(flavor = "multi_thread")]
async fn j2_a_first_start_on_an_empty_redis_is_no_loss() {
    let redis = started().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    assert_eq!(value(&sequences(&server).await, "order").await, 1);
    let (code, said) = store(&server, &["status"]).await;
    assert_eq!(code, Some(0));
    assert!(said.contains("\nloss   none"), "{said}");
    let (code, said) = store(&server, &["accept-loss"]).await;
    assert_eq!((code, &*said), (Some(0), "there is no loss to accept\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn j2_servers_that_start_together_on_an_empty_redis_see_no_loss() {
    let redis = started().await;
    let url = redis.url();
    let arguments = ["--engine", &url];
    let start = || Server::start(&arguments);
    let (a, b, c) = tokio::join!(start(), start(), start());
    for server in [&a, &b, &c] {
        value(&sequences(server).await, "order").await;
        // The marker is read again every second.
        sleep(Duration::from_millis(1500)).await;
        let (code, said) = store(server, &["status"]).await;
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("\nloss   none"), "{said}");
    }
}

/// As the previous version leaves it.
#[tokio::test(flavor = "multi_thread")]
async fn j2_data_without_a_marker_is_no_loss_for_a_server_that_starts() {
    let redis = started().await;
    let url = redis.url();
    let mut server = Server::start(&["--engine", &url]).await;
    assert_eq!(value(&sequences(&server).await, "order").await, 1);
    server.process.signal("-TERM");
    server.process.end(PATIENCE).await;
    redis.command(&["DEL", "tollgate:store"]).await.unwrap();

    let server = Server::start(&["--engine", &url]).await;
    let client = sequences(&server).await;
    assert_eq!(value(&client, "order").await, 2);
    assert_eq!(value(&client, "other").await, 1);
    says(&server, "\nloss   none").await;
    redis.command(&["FLUSHALL"]).await.unwrap();
    refused(&client, "order").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j2_the_embedded_engine_has_no_marker_and_no_loss() {
    let folder = TempFolder::new();
    let server = Server::start(&["--data-dir", folder.text()]).await;
    assert_eq!(value(&sequences(&server).await, "order").await, 1);
    let (code, said) = store(&server, &["status"]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("\nid ") && said.contains("\nloss   none"), "{said}");
    let (code, said) = store(&server, &["accept-loss"]).await;
    assert_eq!((code, &*said), (Some(0), "there is no loss to accept\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn j2_servers_that_start_after_the_loss_refuse_until_there_is_a_floor() {
    for wipe in [Wipe::Flush, Wipe::Delete, Wipe::Restart] {
        let mut redis = started().await;
        let mut first = Server::start(&["--engine", &redis.url()]).await;
        let client = sequences(&first).await;
        assert_eq!(value(&client, "order").await, 1);
        assert_eq!(value(&client, "order").await, 2);
        wipe.apply(&mut redis).await;
        refused(&client, "order").await;
        first.process.signal("-TERM");
        first.process.end(PATIENCE).await;

        let server = Server::start(&["--engine", &redis.url()]).await;
        let client = sequences(&server).await;
        refused(&client, "order").await;
        let status = try_next(&client, next("order")).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert!(status.message().contains("tollgate store accept-loss"), "{status:?}");
        // A floor that does not raise the first value proves nothing.
        let low = try_next(&client, floor(1, next("order"))).await.unwrap_err();
        assert!(is_lost(&low), "{low:?}");
        assert_eq!(try_next(&client, floor(100, next("order"))).await.unwrap().first, 100);
        assert_eq!(value(&client, "order").await, 101);
        refused(&client, "other").await;
        // So does the command of the operator.
        let address = server.address();
        done(&["sequence", "floor", "invoice", "500", "--server", &address]).await;
        assert_eq!(value(&client, "invoice").await, 500);

        let (code, said) = store(&server, &["status"]).await;
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("\nloss   refusing, 127.0.0.1:"), "{said}");
        let asked = run(&["store", "accept-loss", "--server", &server.address()]).await;
        assert_eq!(asked.status.code(), Some(64), "nobody can answer the question");
        refused(&client, "other").await;
        let accept = ["accept-loss", "--yes", "--output", "json"];
        let (code, said) = store(&server, &accept).await;
        assert_eq!(code, Some(0), "{said}");
        let accepted: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(accepted["losses"][0]["state"], "refusing");
        assert_eq!(value(&client, "other").await, 1);
        assert_eq!(value(&client, "order").await, 102);
        let (code, said) = store(&server, &["status"]).await;
        assert_eq!(code, Some(0));
        assert!(said.contains("\nloss   accepted, "), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn j2_an_import_restores_the_marker() {
    let mut redis = started().await;
    let folder = TempFolder::new();
    std::fs::create_dir_all(folder.path()).unwrap();
    let export = format!("{}/backup.jsonl", folder.text());
    let mut server = Server::start(&["--engine", &redis.url()]).await;
    let client = sequences(&server).await;
    for expected in 1..=3 {
        assert_eq!(value(&client, "order").await, expected);
    }
    let id = |said: &str| said.lines().find(|line| line.starts_with("id ")).unwrap().to_owned();
    let before = id(&store(&server, &["status"]).await.1);
    done(&["export", "--engine", &redis.url(), "--output", &export]).await;
    Wipe::Restart.apply(&mut redis).await;
    refused(&client, "order").await;
    server.process.signal("-TERM");
    server.process.end(PATIENCE).await;

    done(&["import", "--engine", &redis.url(), "--replace", &export]).await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    let client = sequences(&server).await;
    assert_eq!(value(&client, "order").await, 4);
    assert_eq!(value(&client, "other").await, 1);
    let (code, said) = store(&server, &["status"]).await;
    assert_eq!((code, id(&said)), (Some(0), before.clone()), "{said}");

    // An import into an empty Redis, without a server that remembers the loss.
    drop(server);
    Wipe::Restart.apply(&mut redis).await;
    done(&["import", "--engine", &redis.url(), &export]).await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    assert_eq!(value(&sequences(&server).await, "order").await, 4);
    assert_eq!(id(&store(&server, &["status"]).await.1), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn j2_with_continue_the_loss_is_reported_and_no_call_fails() {
    let mut redis = started().await;
    let config = TempFile::new("[redis]\non_store_loss = \"continue\"\n");
    let server = Server::start(&["--engine", &redis.url(), "--config", config.path()]).await;
    let client = sequences(&server).await;
    assert_eq!(value(&client, "order").await, 1);
    Wipe::Flush.apply(&mut redis).await;
    assert_eq!(value(&client, "order").await, 1);
    says(&server, "\nloss   continued, ").await;
    assert_eq!(store(&server, &["status"]).await.0, Some(1));
    assert_eq!(store(&server, &["accept-loss", "--yes"]).await.0, Some(0));
    says(&server, "\nloss   none").await;
    assert_eq!(value(&client, "order").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn j2_the_metric_of_every_server_shows_the_loss() {
    let redis = started().await;
    let url = redis.url();
    let servers = [
        AdminServer::start(&["--engine", &url]).await,
        AdminServer::start(&["--engine", &url]).await,
    ];
    for server in &servers {
        value(&sequences(&server.server).await, "order").await;
        assert_eq!(server.scrape().await.value("tollgate_store_lost"), 0.0);
    }
    redis.command(&["FLUSHALL"]).await.unwrap();
    // Without any call.
    for (lost, what) in [(1.0, "the loss"), (0.0, "its acceptance")] {
        for server in &servers {
            let is = |scrape: &crate::admin::Scrape| scrape.value("tollgate_store_lost") == lost;
            server.scrape_until(what, is).await;
        }
        assert_eq!(store(&servers[0].server, &["accept-loss", "--yes"]).await.0, Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn j2_a_loss_after_an_accepted_one_is_refused_again() {
    let redis = started().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    let client = sequences(&server).await;
    value(&client, "order").await;
    for _ in 0..2 {
        redis.command(&["FLUSHALL"]).await.unwrap();
        refused(&client, "order").await;
        assert_eq!(store(&server, &["accept-loss", "--yes"]).await.0, Some(0));
        let begun = async {
            while value(&client, "order").await != 1 {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, begun).await.expect("the sequence begins again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn j2_a_server_that_knows_the_store_id_detects_the_loss_by_itself() {
    let mut redis = started().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    value(&sequences(&server).await, "order").await;
    let said = store(&server, &["status"]).await.1;
    let id = said.lines().find_map(|line| line.strip_prefix("id     ")).unwrap().to_owned();
    drop(server);
    Wipe::Restart.apply(&mut redis).await;

    let config = TempFile::new(&format!("[redis]\nstore_id = \"{id}\"\n"));
    let server = Server::start(&["--engine", &redis.url(), "--config", config.path()]).await;
    let client = sequences(&server).await;
    refused(&client, "order").await;
    assert_eq!(store(&server, &["accept-loss", "--yes"]).await.0, Some(0));
    assert_eq!(value(&client, "order").await, 1);
    drop(server);
    let server = Server::start(&["--engine", &redis.url(), "--config", config.path()]).await;
    assert_eq!(value(&sequences(&server).await, "order").await, 2);

    let cluster = format!("redis+cluster://127.0.0.1:{}", redis.port);
    let checked = run(&["serve", "--engine", &cluster, "--config", config.path()]).await;
    assert_eq!(checked.status.code(), Some(78), "{checked:?}");
    assert!(String::from_utf8_lossy(&checked.stderr).contains("redis.store_id"), "{checked:?}");
}
