//! H4, H17: messages that are small on the wire and large in memory.

use std::{io::Write, time::Duration};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use h2::client::SendRequest;
use pb::{
    AdmitDecision, admission_service_client::AdmissionServiceClient,
    lock_service_client::LockServiceClient, rate_service_client::RateServiceClient,
    sequence_service_client::SequenceServiceClient, stock_service_client::StockServiceClient,
};
use prost::Message;
use tokio::{net::TcpStream, time::timeout};
use tollgate::grpc::client::pb;
use tonic::{
    Code, Status,
    codec::CompressionEncoding,
    codegen::http::{HeaderMap, Request},
    transport::Channel,
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_types::StatusExt;

use super::{
    bystander::Bystander,
    memory::{peak_of, resident, settles},
};
use crate::support::{
    process::Server,
    world::{admit, complete},
};

const PATIENCE: Duration = Duration::from_secs(20);
const ENQUEUE: &str = "/tollgate.v1.AdmissionService/EnqueueTasks";
const CHECKS: &str = "/tollgate.v1.RateService/CheckRates";
const CHECK: &str = "/tollgate.v1.RateService/CheckRate";
const MIB: usize = 1 << 20;

/// A protobuf field that holds `inside`, repeated `times` times.
fn field(tag: u8, inside: &[u8], times: usize) -> Vec<u8> {
    let mut one = vec![tag << 3 | 2];
    prost::encoding::encode_varint(inside.len() as u64, &mut one);
    [one.as_slice(), inside].concat().repeat(times)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A message in a gRPC frame.
fn framed(is_compressed: bool, message: &[u8]) -> Bytes {
    let length = (message.len() as u32).to_be_bytes();
    [&[u8::from(is_compressed)][..], &length, message].concat().into()
}

/// A connection that sends any bytes as messages.
#[derive(Clone)]
struct Peer(SendRequest<Bytes>, u16);

impl Peer {
    async fn of(server: &Server) -> Peer {
        let stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
        let (send, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Peer(send, server.port)
    }

    /// Calls `path` with a message. Returns the status.
    async fn call(&self, path: &str, encoding: &str, mut message: Bytes) -> Status {
        let request = Request::post(format!("http://127.0.0.1:{}{path}", self.1))
            .header("content-type", "application/grpc")
            .header("grpc-encoding", encoding)
            .header("grpc-timeout", "20S");
        let mut send = self.0.clone().ready().await.unwrap();
        let (answer, mut body) = send.send_request(request.body(()).unwrap(), false).unwrap();
        while !message.is_empty() {
            body.reserve_capacity(message.len());
            let capacity = std::future::poll_fn(|cx| body.poll_capacity(cx)).await;
            // The server may have answered already, and takes no more data.
            let Some(Ok(capacity)) = capacity else { break };
            let part = message.split_to(capacity.min(message.len()));
            if body.send_data(part, message.is_empty()).is_err() {
                break;
            }
        }
        let (head, mut body) = timeout(PATIENCE, answer).await.unwrap().unwrap().into_parts();
        let mut received = 0;
        while let Some(data) = body.data().await {
            let length = data.unwrap().len();
            let _ = body.flow_control().release_capacity(length);
            received += length;
        }
        let trailers: HeaderMap = body.trailers().await.unwrap().unwrap_or(head.headers);
        let status = Status::from_header_map(&trailers).unwrap();
        eprintln!("{path}: {} bytes, {status:?}", received);
        status
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h4_elements_are_counted_before_they_are_decoded() {
    let server = Server::start(&[]).await;
    let bystander = Bystander::start(&server.address()).await;
    let peer = Peer::of(&server).await;
    let warm = peer.call(CHECK, "identity", framed(false, &field(9, b"x", 50_000))).await;
    assert_eq!(warm.code(), Code::InvalidArgument);
    let idle = resident(&server);

    let rule = |rule: &[u8]| [field(1, b"key", 1), field(3, rule, 1)].concat();
    let limits = rule(&field(1, &[], MIB / 2 - 16));
    let durations = rule(&field(2, &field(3, &[], MIB / 2 - 32), 1));
    let attacks = [
        (ENQUEUE, field(2, &[], 2_000_000), "tasks must be 1 to 1000 tasks"),
        (CHECKS, field(1, &[], MIB / 2), "checks must be 1 to 100 checks"),
        (CHECK, limits.clone(), "rule.limits must be at most 8 limits"),
        (CHECK, rule(&field(2, &[], MIB / 2 - 16)), "rule.tiers must be at most 8 tiers"),
        (CHECK, durations, "rule.tiers[0].ban_durations must be at most 16 ban_durations"),
        (CHECKS, field(1, &limits[..], 1), "checks[0].rule.limits must be at most 8 limits"),
    ];
    let (most, ()) = peak_of(&server, async {
        for _ in 0..3 {
            for (path, message, violation) in &attacks {
                let message = framed(false, message);
                assert!(message.len() <= 4 * MIB + 5 && message.len() > MIB - 64);
                let refused = peer.call(path, "identity", message).await;
                assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
                assert_eq!(refused.message(), *violation);
                let details = refused.get_error_details();
                let bad = &details.bad_request().unwrap().field_violations;
                assert_eq!(bad.len(), 1, "{bad:?}");
            }
        }
    })
    .await;
    eprintln!("elements: {most} bytes, idle {idle}");
    // One message of 4 MiB at a time, with three copies of it in memory.
    assert!(most < idle + 16 * MIB, "{most} bytes, idle {idle}");
    bystander.finish().await;
    settles(&server, idle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h4_the_largest_allowed_batch_is_accepted() {
    let server = Server::start(&[]).await;
    let mut client = server.client().await;
    let task = |number: usize| pb::QueuedTask {
        device_id: format!("device-{number}"),
        task_id: "task".to_owned(),
        payload: vec![b'x'; 4000].into(),
        ..pb::QueuedTask::default()
    };
    let tasks = (0..1000).map(task).collect();
    let request = pb::EnqueueTasksRequest { pool: "pool".to_owned(), tasks };
    assert!(request.encoded_len() > 3 * MIB);
    let results = client.enqueue_tasks(request).await.unwrap().into_inner().results;
    let queued = |result: &pb::EnqueueResult| result.status() == pb::EnqueueStatus::Enqueued;
    assert_eq!((results.len(), results.iter().all(queued)), (1000, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_every_service_accepts_gzip() {
    let server = Server::start(&[]).await;
    let bystander = Bystander::start(&server.address()).await;
    let channel = Channel::from_shared(server.address()).unwrap().connect().await.unwrap();
    let gzip = CompressionEncoding::Gzip;
    let mut admission = AdmissionServiceClient::new(channel.clone()).send_compressed(gzip);
    for (task, length) in [("short", 5), ("long", 250)] {
        let device = "d".repeat(length);
        let admitted = admission.admit_task(admit("pool", &device, task)).await.unwrap();
        assert_eq!(admitted.get_ref().decision(), AdmitDecision::Admitted);
        admission.complete_task(complete("pool", &device, task)).await.unwrap();
    }
    let watch = pb::WatchPoolRequest { pool: "pool".to_owned(), ..Default::default() };
    admission.watch_pool(watch).await.unwrap();

    let get = pb::GetLockRequest { name: "lock".to_owned() };
    LockServiceClient::new(channel.clone()).send_compressed(gzip).get_lock(get).await.unwrap();
    let list = pb::ListPoliciesRequest {};
    let mut rates = RateServiceClient::new(channel.clone()).send_compressed(gzip);
    rates.list_policies(list).await.unwrap();
    let next = pb::NextSequenceRequest { name: "name".to_owned(), ..Default::default() };
    let mut sequences = SequenceServiceClient::new(channel.clone()).send_compressed(gzip);
    sequences.next_sequence(next).await.unwrap();
    let set = pb::SetStockRequest { sku: "sku".to_owned(), on_hand: Some(5) };
    let mut stocks = StockServiceClient::new(channel.clone()).send_compressed(gzip);
    stocks.set_stock(set).await.unwrap();
    let check = HealthCheckRequest { service: String::new() };
    HealthClient::new(channel).send_compressed(gzip).check(check).await.unwrap();

    // Reflection: a request for `file_containing_symbol` (field 4).
    let peer = Peer::of(&server).await;
    let symbol = super::messages::gzip(&field(4, b"tollgate.v1.LockService", 1));
    for version in ["v1", "v1alpha"] {
        let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        let listed = peer.call(&path, "gzip", framed(true, &symbol)).await;
        assert_eq!(listed.code(), Code::Ok, "{listed:?}");
    }
    bystander.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_a_gzip_bomb_is_refused_within_bounds() {
    let server = Server::start(&[]).await;
    let bystander = Bystander::start(&server.address()).await;
    let peer = Peer::of(&server).await;
    let small = [field(1, b"pool", 1), field(9, &[0; 1000], 1)].concat();
    let warm = peer.call(ENQUEUE, "gzip", framed(true, &gzip(&small))).await;
    assert_eq!(warm.message(), "tasks must be 1 to 1000 tasks");
    // 64 MiB that compress to 64 KiB. `tasks` below shows its elements only after decompression.
    let bomb = framed(true, &gzip(&vec![0; 64 * MIB]));
    // The allocator of each thread keeps some memory of its first bomb, so idle memory is measured
    // later.
    let warm = Peer::of(&server).await;
    for peer in [&peer, &warm] {
        peer.call(ENQUEUE, "gzip", bomb.clone()).await;
    }
    let idle = resident(&server);
    let tasks = framed(true, &gzip(&field(2, &[], 2_000_000)));
    assert!(bomb.len() < MIB / 8 && tasks.len() < MIB / 16);
    let attack = async {
        let services = ["Admission", "Rate", "Lock", "Sequence", "Stock"]
            .map(|service| format!("/tollgate.v1.{service}Service/"))
            .into_iter()
            .zip(["EnqueueTasks", "CheckRates", "GetLock", "NextSequence", "GetStock"])
            .map(|(service, method)| format!("{service}{method}"));
        let paths = services.chain([
            "/tollgate.v1.AdmissionService/WatchPool".to_owned(),
            "/grpc.health.v1.Health/Check".to_owned(),
        ]);
        for path in paths {
            let calls = (0..4).map(|_| peer.call(&path, "gzip", bomb.clone()));
            for refused in futures_util::future::join_all(calls).await {
                assert_eq!(refused.code(), Code::OutOfRange, "{path}: {refused:?}");
                let details = refused.get_error_details();
                assert_eq!(details.error_info().unwrap().reason, "MESSAGE_TOO_LARGE");
            }
        }
        let refused = peer.call(ENQUEUE, "gzip", tasks.clone()).await;
        assert_eq!(refused.message(), "tasks must be 1 to 1000 tasks");
    };
    let (most, ()) = peak_of(&server, attack).await;
    eprintln!("bombs: {most} bytes, idle {idle}");
    assert!(most < idle + super::memory::BUDGET, "{most} bytes, idle {idle}");
    bystander.finish().await;
    settles(&server, idle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_invalid_gzip_is_an_invalid_argument() {
    let server = Server::start(&[]).await;
    let peer = Peer::of(&server).await;
    let message = admit("pool", "device", "task").encode_to_vec();
    let path = "/tollgate.v1.AdmissionService/AdmitTask";
    let torn = gzip(&message);
    for broken in [&message[..], &torn[..torn.len() - 9], b""] {
        let refused = peer.call(path, "gzip", framed(true, broken)).await;
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
        let details = refused.get_error_details();
        assert_eq!(details.error_info().unwrap().reason, "MESSAGE_NOT_GZIP");
    }
    // Any other compression is refused, and the error names it.
    let refused = peer.call(path, "zstd", framed(true, &message)).await;
    assert_eq!(refused.code(), Code::Unimplemented);
    assert!(refused.message().contains("zstd"), "{refused:?}");
    // An uncompressed message may follow a header that announces gzip.
    let plain = peer.call(path, "gzip", framed(false, &message)).await;
    assert_eq!(plain.code(), Code::Ok, "{plain:?}");
}
