//! H2: messages that never become complete.

use std::time::Duration;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use tokio::{net::TcpStream, time::timeout};
use tonic::{Code, Status, codegen::http::Request};
use tonic_types::StatusExt;

use super::{
    bystander::Bystander,
    memory::{BUDGET, peak_of, resident, settles},
};
use crate::support::{
    process::{Server, TempFile},
    queue::{batch, queued},
};

const PATIENCE: Duration = Duration::from_secs(30);
const LARGE: usize = 4 << 20;
/// Length of a message that health and reflection accept.
const SMALL: usize = 60 << 10;
const CHECK: &str = "grpc.health.v1.Health/Check";
const WATCH: &str = "grpc.health.v1.Health/Watch";
const REFLECTION: &str = "grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const ADMIT: &str = "tollgate.v1.AdmissionService/AdmitTask";
const ENQUEUE: &str = "tollgate.v1.AdmissionService/EnqueueTasks";

/// A client that respects the flow-control windows of the server.
struct Peer {
    send: SendRequest<Bytes>,
    port: u16,
}

impl Peer {
    async fn connect(server: &Server) -> Peer {
        let stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
        let (send, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Peer { send, port: server.port }
    }

    /// Returns a call whose message lacks its last byte, and the stream that keeps it open.
    async fn unfinished(
        &self,
        path: &str,
        length: usize,
        deadline: Option<&str>,
    ) -> (ResponseFuture, h2::SendStream<Bytes>) {
        let mut request = Request::post(format!("http://127.0.0.1:{}/{path}", self.port))
            .header("content-type", "application/grpc");
        if let Some(deadline) = deadline {
            request = request.header("grpc-timeout", deadline);
        }
        let mut send = self.send.clone().ready().await.unwrap();
        let (answer, mut body) = send.send_request(request.body(()).unwrap(), false).unwrap();
        let mut message = vec![0; 4 + length];
        message[1..5].copy_from_slice(&(length as u32).to_be_bytes());
        body.send_data(message.into(), false).unwrap();
        (answer, body)
    }
}

/// Returns the status of a call.
async fn status(answer: ResponseFuture) -> Status {
    let answer = timeout(PATIENCE, answer).await.expect("the stream ends");
    let (head, mut body) = answer.expect("an answer").into_parts();
    if let Some(status) = Status::from_header_map(&head.headers) {
        return status;
    }
    while let Some(Ok(_)) = body.data().await {}
    let trailers = timeout(PATIENCE, body.trailers()).await.expect("the stream ends");
    Status::from_header_map(&trailers.unwrap().expect("trailers")).expect("a status")
}

fn reason(status: &Status) -> String {
    status.get_error_details().error_info().expect("a reason").reason.clone()
}

fn server_config() -> TempFile {
    TempFile::new("[limits]\nmessage_timeout = \"2s\"\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn h2_messages_that_lack_a_byte_are_bounded_and_end() {
    let file = server_config();
    let server = Server::start(&["--config", file.path()]).await;
    let bystander = Bystander::start(&server.address()).await;
    let idle = resident(&server);
    let peer = Peer::connect(&server).await;
    let mut calls = Vec::new();
    for number in 0..64 {
        let (path, deadline) = match number % 8 {
            0 => (CHECK, None),
            1 => (WATCH, Some("99999999S")),
            2 => (REFLECTION, None),
            3 => (ADMIT, Some("99999999H")),
            _ => (ENQUEUE, Some("99999999S")),
        };
        calls.push((path, LARGE, peer.unfinished(path, LARGE, deadline).await));
    }
    for (path, deadline) in [(CHECK, None), (WATCH, Some("99999999S")), (REFLECTION, None)] {
        calls.push((path, SMALL, peer.unfinished(path, SMALL, deadline).await));
    }
    let ended = async {
        let (mut late, mut refused) = (0, 0);
        for (path, length, (answer, body)) in calls {
            let status = status(answer).await;
            match (status.code(), reason(&status).as_str()) {
                (Code::DeadlineExceeded, "MESSAGE_INCOMPLETE") if length == SMALL => {}
                // A message that is too long for its service is refused by its prefix.
                (Code::ResourceExhausted, "MESSAGE_TOO_LARGE")
                    if length == LARGE && [CHECK, WATCH, REFLECTION].contains(&path) => {}
                (Code::DeadlineExceeded, "MESSAGE_INCOMPLETE")
                    if [ADMIT, ENQUEUE].contains(&path) =>
                {
                    late += 1
                }
                (Code::ResourceExhausted, "TOO_MANY_REQUEST_BYTES")
                    if [ADMIT, ENQUEUE].contains(&path) =>
                {
                    refused += 1;
                }
                _ => panic!("{path}, {length} bytes: {status:?}"),
            }
            drop(body);
        }
        (late, refused)
    };
    let (most, (late, refused)) = peak_of(&server, ended).await;
    eprintln!("{late} late, {refused} refused, {} MiB above idle", most.saturating_sub(idle) >> 20);
    assert!(late > 0 && refused > 0, "{late} late, {refused} refused");
    assert!(most < idle + BUDGET, "{} bytes above idle", most.saturating_sub(idle));
    bystander.finish().await;
    settles(&server, idle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h2_large_messages_of_one_connection_are_received_one_at_a_time() {
    let server = Server::start(&[]).await;
    let client = server.client().await;
    let mut calls = Vec::new();
    for number in 0..8 {
        let mut client = client.clone();
        calls.push(tokio::spawn(async move {
            let tasks = (0..60).map(|task| {
                let mut task = queued(&format!("d{number}"), &format!("t{task}"));
                task.payload = vec![b'x'; 65_000].into();
                task
            });
            let mut request = tonic::Request::new(batch("p", tasks.collect()));
            request.set_timeout(PATIENCE);
            client.enqueue_tasks(request).await
        }));
    }
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().into_inner().results.len(), 60);
    }
}
