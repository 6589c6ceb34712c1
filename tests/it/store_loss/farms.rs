//! Sentinels that promote an empty replica; a Cluster with an emptied primary.

use super::{refused, sequences, store, value};
use crate::support::{
    farm::{Cluster, Watched, eventually},
    process::Server,
    sequences::{floor, next, try_next},
};

#[tokio::test(flavor = "multi_thread")]
async fn j2_an_empty_replica_promoted_by_sentinels_repeats_no_serial() {
    let mut farm = Watched::start(1).await;
    let server = Server::start(&["--engine", &farm.url()]).await;
    let client = sequences(&server).await;
    for expected in 1..=5 {
        assert_eq!(value(&client, "order").await, expected);
    }
    let replica = &farm.nodes[1];
    replica.command(&["CONFIG", "SET", "replica-read-only", "no"]).await.unwrap();
    replica.command(&["FLUSHALL"]).await.unwrap();
    farm.nodes[0].kill();
    eventually("the replica leads", async || farm.leads(1).await).await;
    refused(&client, "order").await;
    assert_eq!(store(&server, &["status"]).await.0, Some(1));
    assert_eq!(try_next(&client, floor(6, next("order"))).await.unwrap().first, 6);
    assert_eq!(store(&server, &["accept-loss", "--yes"]).await.0, Some(0));
    assert_eq!(value(&client, "other").await, 1);
}

fn names() -> Vec<String> {
    (0..30).map(|number| format!("s{number}")).collect()
}

impl Cluster {
    /// Returns the node that has a sequence.
    async fn has(&self, name: &str) -> usize {
        let key = format!("tollgate:{{sequence:{name}}}:counter");
        let slot = self.nodes[0].command(&["CLUSTER", "KEYSLOT", &key]).await.unwrap();
        self.owner(redis::from_redis_value(slot).unwrap()).await.0
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn j2_an_emptied_primary_of_a_cluster_refuses_its_sequences_only() {
    let farm = Cluster::start().await;
    let server = Server::start(&["--engine", &farm.url()]).await;
    let client = sequences(&server).await;
    for name in names() {
        assert_eq!(value(&client, &name).await, 1);
    }
    let emptied = farm.has("s0").await;
    farm.nodes[emptied].command(&["FLUSHALL"]).await.unwrap();
    let mut lost = 0;
    for name in names() {
        if farm.has(&name).await == emptied {
            refused(&client, &name).await;
            lost += 1;
        } else {
            assert_eq!(value(&client, &name).await, 2);
        }
    }
    assert!((1..30).contains(&lost), "{lost}");
    let (code, said) = store(&server, &["status"]).await;
    assert_eq!((code, said.matches("loss   refusing, ").count()), (Some(1), 1), "{said}");
    assert!(said.contains(&format!("127.0.0.1:{}, ", farm.nodes[emptied].port)), "{said}");
    assert_eq!(store(&server, &["accept-loss", "--yes"]).await.0, Some(0));
    assert_eq!(value(&client, "s0").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn j2_a_new_primary_and_moved_slots_are_no_loss() {
    let mut farm = Cluster::start().await;
    let server = Server::start(&["--engine", &farm.url()]).await;
    let client = sequences(&server).await;
    for name in names() {
        assert_eq!(value(&client, &name).await, 1);
    }
    let new = farm.add_primary().await;
    // The first slots of a node have its marker.
    let (first, _) = farm.owner(0).await;
    for slot in 0..3 {
        farm.migrate(slot, new).await;
    }
    for number in 0..30 {
        assert_eq!(value(&client, &format!("new {number}")).await, 1);
    }
    for name in names() {
        assert_eq!(value(&client, &name).await, 2);
    }
    farm.migrate(0, first).await;
    for number in 0..30 {
        assert_eq!(value(&client, &format!("newer {number}")).await, 1);
    }
    let (code, said) = store(&server, &["status"]).await;
    assert_eq!(code, Some(0), "{said}");
}
