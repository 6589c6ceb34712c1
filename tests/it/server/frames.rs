//! Calls sent frame by frame: messages that are cut in many ways, and invalid messages.

use std::{pin::pin, time::Duration};

use futures_util::future::{Either, select};
use h2::{RecvStream, SendStream, client::SendRequest};
use prost::Message;
use tokio::{net::TcpStream, time::timeout};
use tollgate_client::pb::{self, AdmitDecision};
use tonic::{
    Code,
    codegen::http::{HeaderMap, Request},
};

use crate::support::{
    process::Server,
    world::{admit, complete},
};

const PATIENCE: Duration = Duration::from_secs(20);

type Headers<'a> = &'a [(&'static str, &'static str)];

/// A connection that sends frames exactly as given.
struct Peer {
    send: SendRequest<bytes::Bytes>,
    port: u16,
}

/// The answer to a call.
struct Answer {
    code: Code,
    messages: Vec<u8>,
    headers: HeaderMap,
}

impl Peer {
    async fn connect(server: &Server) -> Peer {
        let stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
        let (send, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Peer { send, port: server.port }
    }

    async fn begin(
        &self,
        method: &str,
        headers: Headers<'_>,
    ) -> (h2::client::ResponseFuture, SendStream<bytes::Bytes>) {
        let path = format!("http://127.0.0.1:{}/tollgate.v1.AdmissionService/{method}", self.port);
        let mut request = Request::post(path).header("content-type", "application/grpc");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut send = self.send.clone().ready().await.unwrap();
        send.send_request(request.body(()).unwrap(), false).unwrap()
    }

    /// Sends these frames and ends the stream.
    async fn call(&self, method: &str, headers: Headers<'_>, frames: &[&[u8]]) -> Answer {
        let (answer, mut body) = self.begin(method, headers).await;
        for (at, frame) in frames.iter().enumerate() {
            let is_last = at + 1 == frames.len();
            body.send_data(bytes::Bytes::copy_from_slice(frame), is_last).unwrap();
            // Each frame goes into a separate packet.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        if frames.is_empty() {
            body.send_trailers(HeaderMap::new()).unwrap();
        }
        heard(answer).await
    }
}

async fn heard(answer: h2::client::ResponseFuture) -> Answer {
    let answer = timeout(PATIENCE, answer).await.unwrap().unwrap();
    let (head, mut body): (_, RecvStream) = answer.into_parts();
    let mut messages = Vec::new();
    while let Some(data) = body.data().await {
        messages.extend_from_slice(&data.unwrap());
    }
    let trailers = body.trailers().await.unwrap().unwrap_or_else(|| head.headers.clone());
    let code = Code::from_bytes(trailers["grpc-status"].as_bytes());
    Answer { code, messages, headers: head.headers }
}

fn framed(flag: u8, message: &impl Message) -> Vec<u8> {
    let bytes = message.encode_to_vec();
    [&[flag][..], &(bytes.len() as u32).to_be_bytes(), &bytes].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_may_be_cut_into_any_frames() {
    let server = Server::start(&[]).await;
    let peer = Peer::connect(&server).await;
    let message = framed(0, &admit("pool", "device", "task"));
    let bytes: Vec<&[u8]> = message.chunks(1).collect();
    let cuts: [(Headers, &[&[u8]]); 8] = [
        (&[], &[&message]),
        // An empty frame ends the stream, as many clients send it.
        (&[], &[&message, b""]),
        (&[], &[b"", &message, b"", b""]),
        (&[], &[&message[..3], &message[3..7], &message[7..]]),
        (&[], &[&message[..5], &message[5..], b""]),
        (&[], &bytes),
        // Of two messages the first is answered, as tonic does.
        (&[], &[&message, &message]),
        (&[("grpc-encoding", "identity")], &[&message]),
    ];
    for (round, (headers, frames)) in cuts.into_iter().enumerate() {
        let answer = peer.call("AdmitTask", headers, frames).await;
        assert_eq!(answer.code, Code::Ok, "{frames:?}");
        assert_eq!(answer.headers["content-type"], "application/grpc");
        let admitted = pb::AdmitTaskResponse::decode(&answer.messages[5..]).unwrap();
        assert_eq!((answer.messages[0], admitted.decision()), (0, AdmitDecision::Admitted));
        assert_eq!(admitted.replayed, round > 0);
        let length = u32::from_be_bytes(answer.messages[1..5].try_into().unwrap());
        assert_eq!(length as usize + 5, answer.messages.len());
    }

    let (answer, mut body) = peer.begin("AdmitTask", &[]).await;
    body.send_data(bytes::Bytes::copy_from_slice(&message), false).unwrap();
    body.send_trailers(HeaderMap::new()).unwrap();
    assert_eq!(heard(answer).await.code, Code::Ok);

    // A method that tonic handles.
    let pool = framed(0, &pb::GetPoolRequest { pool: "pool".into() });
    let answer = peer.call("GetPool", &[], &[&pool]).await;
    let pool = pb::GetPoolResponse::decode(&answer.messages[5..]).unwrap().pool.unwrap();
    assert_eq!((answer.code, pool.usage.unwrap().in_use), (Code::Ok, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_message_is_refused_and_nothing_is_written() {
    let server = Server::start(&[]).await;
    let peer = Peer::connect(&server).await;
    let message = framed(0, &admit("pool", "device", "task"));
    let compressed = framed(1, &admit("pool", "device", "task"));
    let flag = framed(7, &admit("pool", "device", "task"));
    let longer = [&message[..4], &[message[4] + 1], &message[5..]].concat();
    let huge = [&[0, 0xff, 0xff, 0xff, 0xff][..], &message[5..]].concat();
    let nonsense = [0, 0, 0, 0, 3, 0xff, 0xff, 0xff];
    let deflate = [("grpc-encoding", "deflate")];
    let calls: [(Headers, &[&[u8]], Code); 10] = [
        (&[], &[&compressed], Code::Internal),
        (&[], &[&flag], Code::Internal),
        (&[], &[&message, &[0]], Code::Internal),
        (&[], &[&longer], Code::Internal),
        (&[], &[&message[..message.len() - 1]], Code::Internal),
        (&[], &[&huge], Code::ResourceExhausted),
        (&[], &[&nonsense], Code::InvalidArgument),
        (&[], &[b""], Code::Internal),
        (&[], &[], Code::Internal),
        (&deflate, &[&message], Code::Unimplemented),
    ];
    for (headers, frames, code) in calls {
        let answer = peer.call("AdmitTask", headers, frames).await;
        assert_eq!(answer.code, code, "{frames:?}");
        assert!(answer.messages.is_empty());
    }
    let answer = peer.call("AdmitTask", &[], &[&framed(0, &admit("pool", "", ""))]).await;
    assert_eq!(answer.code, Code::InvalidArgument);
    assert!(answer.headers.contains_key("grpc-status-details-bin"));

    // Two calls are cancelled before their streams end.
    for said in [&message[..9], &message] {
        let (_, mut body) = peer.begin("AdmitTask", &[]).await;
        body.send_data(bytes::Bytes::copy_from_slice(said), false).unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
        body.send_reset(h2::Reason::CANCEL);
    }

    let complete = framed(0, &complete("pool", "device", "task"));
    let answer = peer.call("CompleteTask", &[], &[&complete]).await;
    let completed = pb::CompleteTaskResponse::decode(&answer.messages[5..]).unwrap();
    assert_eq!(completed.verdict(), pb::CompleteVerdict::Unknown);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_with_an_incomplete_message_ends_by_its_deadline() {
    let server = Server::start(&[]).await;
    let peer = Peer::connect(&server).await;
    let message = framed(0, &admit("pool", "device", "task"));
    for method in ["AdmitTask", "GetPool"] {
        // No bytes, a part of the message, and the whole message without the end of the stream.
        for said in [0, 9, message.len()] {
            let begin = async |headers| {
                let (answer, mut body) = peer.begin(method, headers).await;
                body.send_data(bytes::Bytes::copy_from_slice(&message[..said]), false).unwrap();
                let answer = heard(answer).await;
                drop(body);
                answer
            };
            let (by_default, asked) = (begin(&[]), begin(&[("grpc-timeout", "50m")]));
            let (by_default, asked) = (pin!(by_default), pin!(asked));
            let Either::Right((answer, by_default)) = select(by_default, asked).await else {
                panic!("the default is longer than 50 ms");
            };
            for answer in [answer, by_default.await] {
                assert_eq!(answer.code, Code::DeadlineExceeded, "{said} bytes");
                assert!(answer.headers.contains_key("grpc-status-details-bin"));
            }
        }
    }
    let complete = framed(0, &complete("pool", "device", "task"));
    let answer = peer.call("CompleteTask", &[], &[&complete]).await;
    let completed = pb::CompleteTaskResponse::decode(&answer.messages[5..]).unwrap();
    assert_eq!(completed.verdict(), pb::CompleteVerdict::Unknown, "nothing was decided");
}
