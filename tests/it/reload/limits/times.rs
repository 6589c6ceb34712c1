//! Timeouts: a connection keeps those in force when it began.

use std::time::Duration;

use tokio::{
    io::AsyncReadExt,
    net::TcpStream,
    time::{sleep, timeout},
};

use super::Limited;
use crate::{
    hostile::wire::{Frame, Wire, data, headers},
    support::{
        certificates::{Authority, TlsServer},
        requests::admit,
    },
};

const ADMIT: &str = "/tollgate.v1.AdmissionService/AdmitTask";
const LONG: &str = "10m";
const SHORT: &str = "100ms";
/// The identifier of SETTINGS_INITIAL_WINDOW_SIZE.
const WINDOW: u16 = 4;
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection that is slow in one way.
enum Slow {
    /// It sends nothing.
    Silent(TcpStream),
    /// It has a call that does not end.
    Call(Wire),
}

impl Slow {
    async fn silent(port: u16) -> Slow {
        Slow::Silent(TcpStream::connect(("127.0.0.1", port)).await.unwrap())
    }

    /// The message of the call does not become complete.
    async fn unfinished(port: u16) -> Slow {
        let mut wire = Wire::connect(port, &[]).await;
        let stream = wire.open();
        let begin = [
            headers(stream, ADMIT, &[("grpc-timeout", "99999999S")]),
            data(stream, &[0, 0, 0, 1, 0], false),
        ];
        wire.send(&begin.concat()).await;
        Slow::Call(wire)
    }

    /// The client does not read the answer.
    async fn untaken(port: u16) -> Slow {
        let mut wire = Wire::connect(port, &[(WINDOW, 0)]).await;
        wire.call(ADMIT, &admit("untaken", "d", "t")).await;
        Slow::Call(wire)
    }

    /// Waits until the server ends it.
    async fn ends(&mut self) {
        match self {
            Slow::Silent(stream) => {
                let closed = async { while let Ok(1..) = stream.read(&mut [0; 64]).await {} };
                timeout(PATIENCE, closed).await.expect("the connection is closed");
            }
            Slow::Call(wire) => drop(wire.until(Frame::ends).await),
        }
    }

    fn has_ended(&mut self) -> bool {
        match self {
            Slow::Silent(stream) => stream.try_read(&mut [0; 64]).is_ok(),
            Slow::Call(wire) => wire.has_ended(),
        }
    }
}

/// A connection of each timeout is ended only by the short one.
async fn follow(key: &str, begin: impl AsyncFn(u16) -> Slow) {
    let limited = Limited::start(&format!("{key} = \"{LONG}\"")).await;
    let mut before = begin(limited.port()).await;
    // The server has accepted it before the reload.
    sleep(Duration::from_millis(200)).await;
    limited.set(&format!("{key} = \"{SHORT}\"")).await;
    begin(limited.port()).await.ends().await;
    limited.set(&format!("{key} = \"{LONG}\"")).await;
    let mut after = begin(limited.port()).await;
    // Several times the short timeout.
    sleep(Duration::from_millis(500)).await;
    assert!(!before.has_ended() && !after.has_ended(), "ended by a timeout of others: {key}");
    limited.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_connections_follow_preface_timeout() {
    follow("preface_timeout", Slow::silent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_connections_follow_message_timeout() {
    follow("message_timeout", Slow::unfinished).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_connections_follow_answer_timeout() {
    follow("answer_timeout", Slow::untaken).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_connections_follow_handshake_timeout() {
    let limits = |time| format!("[limits]\nhandshake_timeout = \"{time}\"");
    let server = TlsServer::start(&Authority::new("ours").server(), &limits(LONG)).await;
    let port = server.server.port;
    let mut before = Slow::silent(port).await;
    sleep(Duration::from_millis(200)).await;
    server.files.configure(&limits(SHORT));
    server.reload().await;
    Slow::silent(port).await.ends().await;
    server.files.configure(&limits(LONG));
    server.reload().await;
    let mut after = Slow::silent(port).await;
    sleep(Duration::from_millis(500)).await;
    assert!(!before.has_ended() && !after.has_ended());
}
