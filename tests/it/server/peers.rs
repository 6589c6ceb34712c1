//! Limits on peers and calls, and hostile peers.

use std::time::Duration;

use pb::AdmitDecision;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};
use tollgate_client::pb;
use tonic::{Code, Request, transport::Channel};
use tonic_types::StatusExt;

use crate::support::{
    process::{MANY_CONNECTIONS, OwnRedis, Server, TempFile},
    world::{Client, admit, complete},
};

const PATIENCE: Duration = Duration::from_secs(20);

/// The first bytes of an HTTP/2 client: preface and empty SETTINGS.
const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

fn resident_bytes(server: &Server) -> usize {
    let path = format!("/proc/{}/statm", server.process.0.id());
    let pages = std::fs::read_to_string(path).unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_enforced_and_refusals_have_retry_info() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let file =
        TempFile::new("connections_max = 3\ndrain_timeout = \"1s\"\n[redis]\ncalls_max = 1\n");
    let mut server = Server::start(&["--engine", &redis.url(), "--config", file.path()]).await;
    let mut client = server.client().await;
    while client.admit_task(admit("p", "warm", "t")).await.is_err() {
        sleep(Duration::from_millis(20)).await;
    }

    // A call that Redis delays; the limit allows no second one.
    redis.command(&["CLIENT", "PAUSE", "600", "ALL"]).await.unwrap();
    let (mut first, mut second) = (client.clone(), client.clone());
    let (one, other) = tokio::join!(
        first.admit_task(admit("p", "d1", "t")),
        second.admit_task(admit("p", "d2", "t"))
    );
    let refused = one.err().or(other.err()).expect("one of two is refused");
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    let details = refused.get_error_details();
    assert!(details.retry_info().expect("RetryInfo in the details").retry_delay.is_some());

    // Two more connections are accepted, and the next is closed.
    let address = format!("127.0.0.1:{}", server.port);
    let mut peers = Vec::new();
    for _ in 0..3 {
        let mut peer = TcpStream::connect(&address).await.unwrap();
        let _ = peer.write_all(HELLO).await;
        peers.push(peer);
    }
    let mut taken = 0;
    for peer in &mut peers {
        let answer = timeout(PATIENCE, peer.read_exact(&mut [0; 9])).await.unwrap();
        taken += usize::from(answer.is_ok());
    }
    assert_eq!(taken, 2);
    drop(peers);

    // A call that outlasts the drain is dropped; the exit code is still 0.
    redis.command(&["CLIENT", "PAUSE", "20000", "ALL"]).await.unwrap();
    let stuck = tokio::spawn(async move {
        let mut request = tonic::Request::new(admit("p", "d3", "t"));
        request.set_timeout(PATIENCE);
        client.admit_task(request).await
    });
    sleep(Duration::from_millis(100)).await;
    server.process.signal("-TERM");
    assert_eq!(server.process.end(PATIENCE).await, Some(0));
    stuck.await.unwrap().unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_hostile_peers_do_not_affect_other_callers() {
    const IDLE: usize = 10_000;
    let _alone = MANY_CONNECTIONS.lock().await;
    rlimit::increase_nofile_limit(u64::MAX).unwrap();
    let config = TempFile::new("[limits]\npreface_timeout = \"2s\"\n");
    let server = Server::start(&["--config", config.path()]).await;
    let mut client = server.client().await;
    let address = format!("127.0.0.1:{}", server.port);
    let connect = || async { TcpStream::connect(&address).await.unwrap() };
    let works = async |client: &mut Client, task: &str| {
        let admitted = client.admit_task(admit("p", "d", task)).await.unwrap().into_inner();
        assert_eq!(admitted.decision(), AdmitDecision::Admitted);
        client.complete_task(complete("p", "d", task)).await.unwrap();
    };
    works(&mut client, "before").await;

    // Peers that send nothing, or only half of the preface, are closed after a while.
    let mut mute = connect().await;
    let mut half = connect().await;
    half.write_all(&HELLO[..10]).await.unwrap();

    // Garbage closes its own connection.
    for garbage in [&[0xff; 4096][..], b"GET / HTTP/1.1\r\n\r\n", &[0; 24]] {
        let mut peer = connect().await;
        let _ = peer.write_all(garbage).await;
        let mut rest = Vec::new();
        let _ = timeout(PATIENCE, peer.read_to_end(&mut rest)).await.expect("closed");
    }

    let before = resident_bytes(&server);
    let mut idle = Vec::with_capacity(IDLE);
    for _ in 0..IDLE {
        let mut peer = connect().await;
        peer.write_all(HELLO).await.unwrap();
        idle.push(peer);
    }
    for peer in &mut idle {
        // The server's SETTINGS: it has accepted the connection.
        timeout(PATIENCE, peer.read_exact(&mut [0; 9])).await.unwrap().unwrap();
    }
    works(&mut client, "idle").await;
    let each = resident_bytes(&server).saturating_sub(before) / IDLE;
    assert!(each < 40_000, "{each} bytes for each idle connection");

    // Large messages are refused while they arrive.
    for round in 0..20 {
        let request =
            pb::CompleteTaskRequest { result: vec![0; 5 << 20].into(), ..complete("p", "d", "t") };
        let refused = server.client().await.complete_task(request).await.unwrap_err();
        assert_ne!(refused.code(), Code::Ok);
        works(&mut client, &format!("large{round}")).await;
    }

    for peer in [&mut mute, &mut half] {
        let mut rest = Vec::new();
        let closed = timeout(PATIENCE, peer.read_to_end(&mut rest)).await;
        closed.expect("a mute peer is closed").ok();
    }
    works(&mut client, "after").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_method_is_unimplemented() {
    let server = Server::start(&[]).await;
    let channel = Channel::from_shared(server.address()).unwrap().connect().await.unwrap();
    for path in [
        "/tollgate.v1.AdmissionService/Nothing",
        "/tollgate.v1.AdmissionService/x/AdmitTask",
        "/tollgate.v1.Nothing/AdmitTask",
        "/",
        "/x",
    ] {
        let mut grpc = tonic::client::Grpc::new(channel.clone());
        grpc.ready().await.unwrap();
        let codec =
            tonic_prost::ProstCodec::<pb::AdmitTaskRequest, pb::AdmitTaskResponse>::default();
        let path = path.parse().unwrap();
        let answer = grpc.unary(Request::new(admit("p", "d", "t")), path, codec).await;
        assert_eq!(answer.unwrap_err().code(), Code::Unimplemented);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_a_peer_without_preface_is_closed_after_the_configured_time() {
    let start = async |time: &str| {
        let config = TempFile::new(&format!("[limits]\npreface_timeout = \"{time}\"\n"));
        Server::start(&["--config", config.path()]).await
    };
    let (patient, server) = (start("10m").await, start("100ms").await);
    // Peers send nothing, or half of the preface. Those of the patient server connect first.
    for sent in [0, 10] {
        let mut stays = TcpStream::connect(("127.0.0.1", patient.port)).await.unwrap();
        stays.write_all(&HELLO[..sent]).await.unwrap();
        let mut peer = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
        peer.write_all(&HELLO[..sent]).await.unwrap();
        let closed = timeout(PATIENCE, peer.read_to_end(&mut Vec::new())).await;
        closed.expect("the peer is closed").ok();
        stays.write_all(&HELLO[sent..]).await.unwrap();
        timeout(PATIENCE, stays.read_exact(&mut [0; 9])).await.unwrap().unwrap();
    }
}
