//! The number of servers on a Redis, as `tollgate status` and GetStatus report it.

use tollgate_client::pb::{
    GetStatusRequest, GetStatusResponse, admin_service_client::AdminServiceClient,
};

use crate::support::{
    farm::{Cluster, eventually},
    process::{OwnRedis, Server, TempFile, done},
};

async fn status(server: &Server) -> GetStatusResponse {
    let mut client = AdminServiceClient::connect(server.address()).await.unwrap();
    client.get_status(GetStatusRequest {}).await.unwrap().into_inner()
}

/// Waits until a server counts this many servers; 0 for an unknown number.
async fn counts(server: &Server, servers: u32) {
    let what = format!("{servers} servers");
    eventually(&what, async || status(server).await.servers == servers).await;
}

/// Waits until the number is known. Returns the first one.
async fn first_count(server: &Server) -> u32 {
    eventually("the number is known", async || status(server).await.servers != 0).await;
    status(server).await.servers
}

async fn printed(server: &Server) -> String {
    done(&["status", "--server", &server.address()]).await
}

/// Returns the number of PUBSUB commands that a Redis has answered.
async fn counted(redis: &OwnRedis) -> u64 {
    let stats = redis.info("commandstats").await;
    let line = stats.lines().find(|line| line.starts_with("cmdstat_pubsub"));
    let calls = line.and_then(|line| line.split_once("calls=")?.1.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

mod redis {
    use super::*;
    use crate::support::world::redis_url;

    #[tokio::test(flavor = "multi_thread")]
    async fn servers_with_the_same_key_prefix_are_counted() {
        let prefix = format!("servers-{}", std::process::id());
        let ours = TempFile::new(&format!("redis.key_prefix = '{prefix}'"));
        // Its channel begins like a channel of Tollgate.
        let theirs = TempFile::new(&format!("redis.key_prefix = '{prefix}:hints:other'"));
        let url = redis_url();
        let start = async |config: &TempFile| {
            Server::start(&["--engine", &url, "--config", config.path()]).await
        };
        let other = start(&theirs).await;
        counts(&other, 1).await;
        let one = start(&ours).await;
        assert_eq!(first_count(&one).await, 1);
        let two = start(&ours).await;
        counts(&one, 2).await;
        counts(&two, 2).await;
        assert!(printed(&two).await.contains("servers        2 on this Redis"));
        drop(one);
        counts(&two, 1).await;
        assert_eq!(status(&other).await.servers, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_is_unknown_without_the_rights_and_without_redis() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let user = ["ACL", "SETUSER", "gate", "on", ">secret", "~tollgate:*", "&tollgate:hints:*"];
    let rights = ["+@all", "-@dangerous", "+info", "-pubsub"];
    redis.command(&[&user[..], &rights].concat()).await.unwrap();
    let url = format!("redis://gate:secret@127.0.0.1:{}", redis.port);
    let server = Server::start(&["--engine", &url]).await;
    let refused = async |what: &str| {
        eventually(what, async || {
            let log = redis.command(&["ACL", "LOG"]).await.unwrap();
            format!("{log:?}").contains(what)
        })
        .await;
    };
    refused("pubsub").await;
    let answered = status(&server).await;
    assert_eq!((answered.servers, &*answered.readiness), (0, "ready"));
    assert!(printed(&server).await.contains("servers        unknown"));

    redis.command(&["ACL", "SETUSER", "gate", "+pubsub"]).await.unwrap();
    counts(&server, 1).await;
    redis.command(&["ACL", "SETUSER", "gate", "-pubsub"]).await.unwrap();
    counts(&server, 0).await;
    assert_eq!(status(&server).await.readiness, "ready");

    // Without the channels, servers cannot subscribe, and this one does not count itself.
    redis.command(&["ACL", "SETUSER", "gate", "+pubsub", "resetchannels"]).await.unwrap();
    let other = Server::start(&["--engine", &redis.url()]).await;
    counts(&other, 1).await;
    let before = counted(&redis).await;
    // Each of four servers gets one answer.
    eventually("both servers have counted", async || counted(&redis).await >= before + 4).await;
    assert_eq!([status(&server).await.servers, status(&other).await.servers], [0, 1]);

    redis.kill();
    counts(&other, 0).await;
    redis.start().await;
    counts(&other, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_are_counted_after_their_node_has_become_a_replica() {
    let farm = Cluster::start().await;
    let servers = [
        Server::start(&["--engine", &farm.url()]).await,
        Server::start(&["--engine", &farm.url()]).await,
    ];
    for server in &servers {
        counts(server, 2).await;
    }
    let subscribed = async |node: usize| {
        let channels = ["PUBSUB", "CHANNELS", "tollgate:hints:*"];
        let channels = farm.nodes[node].command(&channels).await.unwrap();
        ::redis::from_redis_value::<Vec<String>>(channels).unwrap().len()
    };
    let mut node = 0;
    while subscribed(node).await == 0 {
        node += 1;
    }
    let id = farm.nodes[node].command(&["CLUSTER", "MYID"]).await.unwrap();
    let id: String = ::redis::from_redis_value(id).unwrap();
    let replicas = farm.nodes[node].command(&["CLUSTER", "REPLICAS", &id]).await.unwrap();
    let replicas: Vec<String> = ::redis::from_redis_value(replicas).unwrap();
    let successor =
        farm.nodes.iter().find(|node| replicas[0].contains(&format!(":{}@", node.port)));
    successor.unwrap().command(&["CLUSTER", "FAILOVER"]).await.unwrap();
    eventually("no server subscribes on the replica", async || subscribed(node).await == 0).await;
    for server in &servers {
        counts(server, 2).await;
    }
}
