//! Connections to Redis: Sentinels, a Cluster, a Unix socket, TLS, a user. Also Redis servers that
//! are refused.

use std::{process::Command, time::Duration};

use tokio::time::{sleep, timeout};
use tollgate_client::pb;
use tonic::Code;

use crate::support::{
    farm::{Cluster, Watched},
    process::{OwnRedis, Server, TempFile, free_port, tollgate},
    world::{Client, admit, complete},
};

const PATIENCE: Duration = Duration::from_secs(20);

/// Returns a client of a server, after the server has reached its store.
async fn served(server: &Server) -> Client {
    let mut client = server.client().await;
    let mut probe = admit("probe", "d", "t");
    loop {
        match client.admit_task(probe).await {
            Ok(_) => return client,
            Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status:?}"),
        }
        sleep(Duration::from_millis(20)).await;
        probe = admit("probe", "d", "t");
    }
}

/// Checks admissions in 40 pools, which are spread over many hash slots, and their listing.
async fn works(server: &Server) {
    let mut client = served(server).await;
    for number in 0..40 {
        let pool = format!("pool {number}");
        let admitted = client.admit_task(admit(&pool, "d", "t")).await.unwrap().into_inner();
        assert_eq!(admitted.decision(), pb::AdmitDecision::Admitted);
        let completed = client.complete_task(complete(&pool, "d", "t")).await.unwrap().into_inner();
        assert_eq!(completed.verdict(), pb::CompleteVerdict::Completed);
        client.admit_task(admit(&pool, "d", "another")).await.unwrap();
    }
    let request = pb::ListPoolsRequest { page_size: Some(100), ..Default::default() };
    let pools = client.list_pools(request).await.unwrap().into_inner().pools;
    let ours = pools.iter().filter(|pool| pool.pool.starts_with("pool ")).count();
    assert_eq!(ours, 40, "{pools:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_finds_the_primary_through_sentinels() {
    let farm = Watched::start(1).await;
    let server = Server::start(&["--engine", &farm.url()]).await;
    works(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_a_cluster_share_the_pools() {
    let farm = Cluster::start().await;
    let server = Server::start(&["--engine", &farm.url()]).await;
    works(&server).await;
    for node in &farm.nodes {
        let keys = node.info("db0").await;
        assert!(keys.is_some(), "the pools are spread over all nodes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unix_socket_a_user_a_database_and_a_prefix() {
    let mut redis = OwnRedis::prepare();
    let socket = redis.path("redis.sock");
    redis.start_with(&["--unixsocket", &socket]).await;
    let user = ["ACL", "SETUSER", "gate", "on", ">pa ss%@", "~gate:*", "&gate:hints:*"];
    let rights = ["+@all", "-@dangerous", "+info"];
    redis.command(&[&user[..], &rights].concat()).await.unwrap();
    let config = TempFile::new("redis.key_prefix = 'gate'");
    for url in [
        format!("redis+unix://{socket}?db=3&user=gate&pass=pa%20ss%25%40"),
        format!("redis://gate:pa%20ss%25%40@127.0.0.1:{}/3", redis.port),
    ] {
        let server = Server::start(&["--engine", &url, "--config", config.path()]).await;
        works(&server).await;
        assert!(text(redis.command(&["INFO", "keyspace"]).await).contains("db3:keys="));
        assert!(!text(redis.command(&["INFO", "keyspace"]).await).contains("db0:keys="));
        // A server that is still running would recognise a loss.
        drop(server);
        redis.command(&["FLUSHALL"]).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_with_a_private_authority_and_a_client_certificate() {
    let mut redis = OwnRedis::prepare();
    let (ca, key, cert) = (redis.path("ca.pem"), redis.path("key.pem"), redis.path("cert.pem"));
    let (ca_key, request) = (redis.path("ca.key"), redis.path("request.pem"));
    let names = redis.path("names.cnf");
    std::fs::write(&names, "subjectAltName = DNS:localhost, IP:127.0.0.1").unwrap();
    let new = ["req", "-newkey", "rsa:2048", "-nodes", "-subj"];
    openssl(&[&new[..], &["/CN=authority", "-x509", "-keyout", &ca_key, "-out", &ca]].concat());
    openssl(&[&new[..], &["/CN=localhost", "-keyout", &key, "-out", &request]].concat());
    let sign = ["x509", "-req", "-in", &request, "-CA", &ca, "-CAkey", &ca_key];
    openssl(&[&sign[..], &["-CAcreateserial", "-extfile", &names, "-out", &cert]].concat());
    let port = free_port().to_string();
    let files = ["--tls-ca-cert-file", &ca, "--tls-cert-file", &cert, "--tls-key-file", &key];
    redis.start_with(&[&["--tls-port", &port], &files[..]].concat()).await;
    let url = format!("rediss://localhost:{port}");

    let trusting = format!("redis.tls_ca = '{ca}'");
    let ours = TempFile::new(&format!("{trusting}\n[redis]\ntls_cert = '{cert}'"));
    let refused = tollgate(&["serve", "--engine", &url, "--config", ours.path()]).output().unwrap();
    assert_eq!(refused.status.code(), Some(78));

    let both = format!("[redis]\ntls_ca = '{ca}'\ntls_cert = '{cert}'\ntls_key = '{key}'\n");
    let ours = TempFile::new(&both);
    let server = Server::start(&["--engine", &url, "--config", ours.path()]).await;
    works(&server).await;
    // Without a client certificate, or without trust in the certificate of Redis, the store is
    // unreachable.
    for lacking in [trusting.as_str(), ""] {
        let config = TempFile::new(lacking);
        let server = Server::start(&["--engine", &url, "--config", config.path()]).await;
        let mut client = server.client().await;
        let refused = client.admit_task(admit("p", "d", "t")).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
    }
}

fn openssl(arguments: &[&str]) {
    let done = Command::new("openssl").args(arguments).output().expect("openssl is installed");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn text(value: redis::RedisResult<redis::Value>) -> String {
    redis::from_redis_value(value.unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a15_a_redis_that_evicts_is_refused() {
    let mut redis = OwnRedis::prepare();
    redis.start_with(&["--maxmemory-policy", "allkeys-lru"]).await;
    let refused = tollgate(&["serve", "--listen", "127.0.0.1:0", "--engine", &redis.url()]);
    let refused = { refused }.output().unwrap();
    assert_eq!(refused.status.code(), Some(78));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("allkeys-lru") && said.contains("noeviction"), "{said}");
    // With `eviction = 'warn'` the policy only causes a warning.
    let config = TempFile::new("redis.eviction = 'warn'");
    let server = Server::start(&["--engine", &redis.url(), "--config", config.path()]).await;
    works(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a15_a_redis_that_evicts_after_a_restart_is_not_used() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    works(&server).await;
    redis.kill();
    redis.start_with(&["--maxmemory-policy", "volatile-ttl"]).await;
    let mut client = server.client().await;
    let told = async {
        loop {
            match client.admit_task(admit("p", "d", "t")).await {
                Err(status) if status.message().contains("volatile-ttl") => return status,
                _ => sleep(Duration::from_millis(20)).await,
            }
        }
    };
    assert_eq!(timeout(PATIENCE, told).await.unwrap().code(), Code::Unavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_node_as_a_single_redis_is_refused() {
    let farm = Cluster::start().await;
    let url = format!("redis://127.0.0.1:{}", farm.nodes[0].port);
    let server = Server::start(&["--engine", &url]).await;
    let mut client = server.client().await;
    let told = async {
        loop {
            for number in 0..10 {
                let asked = client.admit_task(admit(&format!("pool {number}"), "d", "t")).await;
                if asked.is_err_and(|status| status.message().contains("redis+cluster://")) {
                    return;
                }
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, told).await.expect("no error names redis+cluster://");
}

#[test]
fn wrong_urls_are_refused_with_the_expected_form() {
    for (url, said) in [
        ("redis", "redis+sentinel://"),
        ("http://localhost", "redis+cluster://"),
        ("redis://", "engine"),
        ("redis+sentinel://localhost", "name"),
        ("redis+sentinel://localhost/main/x", "database number"),
        ("redis+cluster://localhost/1", "no database number"),
        ("redis+ftp://localhost", "redis+cluster://"),
        ("redis://localhost:port", "engine"),
    ] {
        let refused = tollgate(&["serve", "--engine", url]).output().unwrap();
        assert_eq!(refused.status.code(), Some(64), "{url}");
        let text = String::from_utf8(refused.stderr).unwrap();
        assert!(text.contains(said), "{url}: {text}");
    }
}
