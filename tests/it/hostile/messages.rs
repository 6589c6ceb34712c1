//! H4: messages that are small on the wire and large in memory.

use std::{io::Write, time::Duration};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use h2::{
    SendStream,
    client::{ResponseFuture, SendRequest},
};
use prost::Message;
use tokio::{net::TcpSocket, time::timeout};
use tollgate_client::pb;
use tonic::{
    Code, Status,
    codegen::http::{HeaderMap, Request},
};
use tonic_types::StatusExt;

use super::{
    bystander::Bystander,
    memory::{peak_of, resident, settles},
};
use crate::support::process::Server;

const PATIENCE: Duration = Duration::from_secs(60);
pub const ENQUEUE: &str = "/tollgate.v1.AdmissionService/EnqueueTasks";
const CHECKS: &str = "/tollgate.v1.RateService/CheckRates";
const CHECK: &str = "/tollgate.v1.RateService/CheckRate";
pub const MIB: usize = 1 << 20;

/// Returns a protobuf field that contains `inside`, repeated `times` times.
pub fn field(tag: u8, inside: &[u8], times: usize) -> Vec<u8> {
    let mut one = vec![tag << 3 | 2];
    prost::encoding::encode_varint(inside.len() as u64, &mut one);
    [one.as_slice(), inside].concat().repeat(times)
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns a message in a gRPC frame.
pub fn framed(is_compressed: bool, message: &[u8]) -> Bytes {
    let length = (message.len() as u32).to_be_bytes();
    [&[u8::from(is_compressed)][..], &length, message].concat().into()
}

/// A connection that sends arbitrary bytes as messages.
#[derive(Clone)]
pub struct Peer(SendRequest<Bytes>, u16);

impl Peer {
    pub async fn connect(server: &Server) -> Peer {
        Peer::at([127, 0, 0, 1], server).await
    }

    /// Returns a peer that connects from this address.
    pub async fn at(address: [u8; 4], server: &Server) -> Peer {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((address, 0).into()).unwrap();
        let stream = socket.connect(([127, 0, 0, 1], server.port).into()).await.unwrap();
        let (send, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Peer(send, server.port)
    }

    /// Calls `path` with a message. Returns the status.
    pub async fn call(&self, path: &str, encoding: &str, message: Bytes) -> Status {
        self.call_within(path, encoding, message, "60S").await
    }

    /// Calls `path` with a message and a deadline.
    pub async fn call_within(
        &self,
        path: &str,
        encoding: &str,
        message: Bytes,
        deadline: &str,
    ) -> Status {
        self.begin(path, encoding, deadline).await.finish(message).await
    }

    /// Begins a call of `path`. Sends no part of its message.
    pub async fn begin(&self, path: &str, encoding: &str, deadline: &str) -> Begun {
        let request = Request::post(format!("http://127.0.0.1:{}{path}", self.1))
            .header("content-type", "application/grpc")
            .header("grpc-encoding", encoding)
            .header("grpc-timeout", deadline);
        let mut send = self.0.clone().ready().await.unwrap();
        let (answer, body) = send.send_request(request.body(()).unwrap(), false).unwrap();
        Begun { answer, body }
    }
}

/// A call whose message is not complete.
pub struct Begun {
    answer: ResponseFuture,
    pub body: SendStream<Bytes>,
}

impl Begun {
    /// Sends the rest of the message. Returns the status.
    pub async fn finish(self, mut message: Bytes) -> Status {
        let Begun { answer, mut body } = self;
        while !message.is_empty() {
            body.reserve_capacity(message.len());
            let capacity = std::future::poll_fn(|cx| body.poll_capacity(cx)).await;
            // The server may already have answered, and accepts no more data.
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
        eprintln!("{received} bytes, {status:?}");
        status
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h4_elements_are_counted_before_they_are_decoded() {
    let server = Server::start(&[]).await;
    let bystander = Bystander::start(&server.address()).await;
    let peer = Peer::connect(&server).await;
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
    // One message of 4 MiB at a time.
    assert!(most < idle + 3 * 4 * MIB, "{most} bytes, idle {idle}");
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
