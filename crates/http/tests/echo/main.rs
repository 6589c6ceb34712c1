//! Tests the transport with a service that is not part of Tollgate: a real server on loopback, and
//! real clients.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    missing_debug_implementations,
    unreachable_pub,
    reason = "tests"
)]

mod program;
mod server;
mod tls;

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::Body as _;
use prost::Message;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};
use tollgate_http::{TransportLimits, frame};
use tollgate_telemetry::limits::ReachedLimit;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use program::{LIST, MESSAGE_BYTES_MAX, SAY, Words};
use server::{PATIENCE, Server, WINDOW, send, words};

const LIMITS: TransportLimits = TransportLimits::DEFAULT;

fn count(counter: &AtomicUsize) -> usize {
    counter.load(Ordering::Relaxed)
}

/// Waits until a condition holds.
async fn eventually(condition: impl Fn() -> bool) {
    let poll = async {
        while !condition() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, poll).await.expect("the condition holds in time");
}

/// Returns the reason and the domain of an error.
fn reason(status: &Status) -> (String, String) {
    let info = status.get_details_error_info().expect("an ErrorInfo");
    (info.reason, info.domain)
}

fn named(reason: &str) -> (String, String) {
    (reason.to_owned(), "echo.example".to_owned())
}

#[tokio::test]
async fn a_message_in_one_frame_takes_the_fast_path_and_others_go_through_tonic() {
    let server = Server::start(LIMITS, None).await;
    let mut client = server.client().await;
    assert_eq!(client.say("hello").await.unwrap().payload, "hello");
    assert_eq!((count(&server.echo.fast), count(&server.echo.by_tonic)), (1, 0));

    // Longer than a frame, and longer than the threshold of a large request.
    for bytes in [20_000, 200_000] {
        let payload = Bytes::from(vec![7; bytes]);
        assert_eq!(client.say(payload.clone()).await.unwrap().payload, payload);
    }
    assert_eq!((count(&server.echo.fast), count(&server.echo.by_tonic)), (1, 2));

    // A listing has no fast path.
    assert_eq!(client.call(LIST, words("a", 0)).await.unwrap().payload, "a");
    assert_eq!((count(&server.echo.fast), count(&server.echo.by_tonic)), (1, 3));
    // The client has received the trailers, which follow the action.
    assert_eq!(count(&server.echo.sent), 4);
    eventually(|| count(&server.echo.ended) == 4).await;
}

#[tokio::test]
async fn compressed_messages_are_decompressed_on_both_paths() {
    let server = Server::start(LIMITS, None).await;
    let mut client = server.client().await.with_gzip();
    for bytes in [10, 100_000, MESSAGE_BYTES_MAX / 2] {
        let payload = Bytes::from(vec![7; bytes]);
        assert_eq!(client.say(payload.clone()).await.unwrap().payload, payload);
    }
    let (fast, by_tonic) = (count(&server.echo.fast), count(&server.echo.by_tonic));
    assert!(fast > 0 && fast + by_tonic == 3, "{fast} {by_tonic}");
    let error = client.say(vec![7; MESSAGE_BYTES_MAX + 1]).await.unwrap_err();
    assert_eq!(reason(&error), named("MESSAGE_TOO_LARGE"));
    assert!(error.message().contains("1 MiB is the maximum of Echo"), "{}", error.message());
}

#[tokio::test]
async fn errors_have_the_names_of_the_program() {
    let server = Server::start(LIMITS, None).await;
    let mut client = server.client().await;
    for path in ["/echo.Echo/Shout", "/hidden.Service/Call"] {
        let error = client.call(path, words("a", 0)).await.unwrap_err();
        assert_eq!((error.code(), reason(&error)), (Code::Unimplemented, named("RPC_UNKNOWN")));
    }
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.contains("\r\n\r\nEcho speaks gRPC over HTTP/2 without TLS."), "{answer}");
}

#[tokio::test]
async fn the_program_decides_rights_quotas_failures_and_spans() {
    let server = Server::start(LIMITS, None).await;
    let mut client = server.client().await;
    let mut stranger = words("a", 0);
    stranger.metadata_mut().insert("caller", "stranger".parse().unwrap());
    let denied = client.call(SAY, stranger).await.unwrap_err();
    assert_eq!(denied.code(), Code::PermissionDenied);
    assert_eq!((count(&server.echo.fast), server.echo.observed.lock().unwrap().len()), (0, 0));

    let mut poor = words("a", 0);
    poor.metadata_mut().insert("quota", "used-up".parse().unwrap());
    let rejected = client.call(SAY, poor).await.unwrap_err();
    assert_eq!(rejected.code(), Code::ResourceExhausted);

    let mut failing = words("fail", 0);
    failing.metadata_mut().insert("sampled", "yes".parse().unwrap());
    let failed = client.call(SAY, failing).await.unwrap_err();
    assert_eq!(failed.code(), Code::FailedPrecondition);
    let mut sampled = words("a", 0);
    sampled.metadata_mut().insert("sampled", "yes".parse().unwrap());
    client.call(SAY, sampled).await.unwrap();

    let echo = &server.echo;
    let failures = [Code::ResourceExhausted, Code::FailedPrecondition];
    assert_eq!(*echo.failures.lock().unwrap(), failures);
    assert_eq!(*echo.sampled.lock().unwrap(), [Code::FailedPrecondition, Code::Ok]);
    let observed = ["8", "9"].map(|code| Some(code.to_owned()));
    assert_eq!(*echo.observed.lock().unwrap(), [&observed[..], &[None]].concat());
}

#[tokio::test]
async fn a_message_must_be_complete_by_the_deadline_of_its_call() {
    let server = Server::start(LIMITS, None).await;
    let before = ReachedLimit::MessageTime.times();
    let answer = send(&mut server.raw().await, vec![0, 0, 0, 0, 9, 1], false).await;
    let status = Status::from_header_map(answer.headers()).unwrap();
    assert_eq!(
        (status.code(), reason(&status)),
        (Code::DeadlineExceeded, named("MESSAGE_INCOMPLETE"))
    );
    assert!(ReachedLimit::MessageTime.times() > before);
    assert_eq!(count(&server.echo.fast) + count(&server.echo.by_tonic), 0);
}

#[tokio::test]
async fn an_answer_that_nobody_reads_is_reset_and_its_action_is_not_run() {
    let limits = TransportLimits { answer_timeout: Duration::from_millis(200), ..LIMITS };
    let server = Server::start(limits, None).await;
    let before = ReachedLimit::AnswerTime.times();
    let payload = Bytes::from(vec![7; 2 * WINDOW as usize]);
    let message = frame(tonic::Response::new(Words { payload, delay_millis: 0 })).into_inner();
    let mut sender = server.raw().await;
    let answer = send(&mut sender, message, true).await;
    assert!(!answer.body().is_end_stream());
    eventually(|| count(&server.echo.ended) == 1).await;
    assert_eq!(count(&server.echo.sent), 0);
    assert!(ReachedLimit::AnswerTime.times() > before);
    // The connection still serves other calls.
    let short = Words { payload: "a".into(), delay_millis: 0 };
    let message = frame(tonic::Response::new(short)).into_inner();
    drop(answer);
    assert_eq!(send(&mut sender, message, true).await.status(), 200);
}

#[tokio::test]
async fn connections_and_calls_of_a_peer_are_limited() {
    let limits = TransportLimits { peer_connections: Some(2), peer_streams: 1, ..LIMITS };
    let server = Server::start(limits, None).await;
    let mut client = server.client().await;
    client.say("a").await.unwrap();
    let _second = server.client().await;
    let before = ReachedLimit::PeerConnections.times();
    let mut third = TcpStream::connect(server.address).await.unwrap();
    let read = timeout(PATIENCE, third.read(&mut [0; 1])).await.unwrap();
    assert!(matches!(read, Ok(0) | Err(_)), "the third connection is closed");
    assert!(ReachedLimit::PeerConnections.times() > before);

    // Eight calls of a connection are free.
    let calls = (0..12).map(|_| {
        let mut client = client.clone();
        tokio::spawn(async move { client.call(SAY, words("a", 500)).await })
    });
    let (mut answered, mut rejected) = (0, 0);
    for call in calls.collect::<Vec<_>>() {
        match call.await.unwrap() {
            Ok(_) => answered += 1,
            Err(error) => {
                assert_eq!(reason(&error), named("TOO_MANY_STREAMS"));
                rejected += 1;
            }
        }
    }
    assert!(answered >= 8 && rejected > 0, "{answered} {rejected}");
    // Guards of answered calls are dropped.
    eventually(|| std::sync::Arc::strong_count(&server.echo.in_flight) == 1).await;
}

#[tokio::test]
async fn a_drain_lets_calls_in_flight_finish() {
    let server = Server::start(LIMITS, None).await;
    let mut client = server.client().await;
    let slow = {
        let mut client = client.clone();
        tokio::spawn(async move { client.call(SAY, words("slow", 500)).await })
    };
    let echo = server.echo.clone();
    eventually(|| count(&echo.fast) == 1).await;
    server.stop().await;
    assert_eq!(slow.await.unwrap().unwrap().payload, "slow");
    assert!(client.say("late").await.is_err());
    assert_eq!(count(&echo.connections), 1);
}

/// The request body is encoded like an answer: a flag, a length, the message.
#[test]
fn a_frame_has_a_prefix_of_five_bytes() {
    let words = Words { payload: "abc".into(), delay_millis: 0 };
    let framed = frame(tonic::Response::new(words.clone())).into_inner();
    assert_eq!(framed[..5], [0, 0, 0, 0, 5]);
    assert_eq!(Words::decode(&framed[5..]).unwrap(), words);
}
