//! Tells a peer that does not speak HTTP/2 what this port is.

use std::{future::poll_fn, io::ErrorKind, pin::Pin, time::Duration};

use tokio::{io::AsyncWrite, net::TcpStream, time::timeout};

use super::connections::Connection;

/// The first bytes of a client that speaks HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// What every other peer is answered.
const ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    connection: close\r\n\
    \r\n\
    Tollgate speaks gRPC over HTTP/2 without TLS. Call it with a gRPC client, \
    for instance `grpcurl -plaintext`.\n";
/// How long a peer may take to read the answer.
const FAREWELL: Duration = Duration::from_secs(1);
/// What is read of a request that is not taken, so that closing does not reset the answer.
const UNREAD_BYTES_MAX: usize = 64 * 1024;

/// Waits for the first bytes of a connection and returns whether they begin HTTP/2. A peer
/// that closes, or says only a part of the preface, is left to HTTP/2.
pub(super) async fn is_http2(connection: &Connection) -> bool {
    let mut first = [0; PREFACE.len()];
    let peeked = connection.stream().peek(&mut first).await;
    peeked.is_ok_and(|length| PREFACE.starts_with(&first[..length]))
}

/// Answers a peer that speaks something else, and closes its connection.
pub(super) async fn refuse(mut connection: Connection) {
    tracing::debug!("a peer does not speak HTTP/2; its connection is closed");
    // Who does not take one line in time goes without it.
    let _ = timeout(FAREWELL, async {
        if read(connection.stream()).await.is_none() {
            return;
        }
        let stream = connection.stream();
        // The socket is fresh: a line fits in its buffer.
        if stream.writable().await.is_err() || stream.try_write(ANSWER).is_err() {
            return;
        }
        let _ = poll_fn(|cx| Pin::new(&mut connection).poll_shutdown(cx)).await;
        let mut unread = UNREAD_BYTES_MAX;
        while let Some(length @ 1..) = read(connection.stream()).await {
            unread = unread.saturating_sub(length);
            if unread == 0 {
                return;
            }
        }
    })
    .await;
}

/// Reads and forgets what a peer says; how many bytes. None when that fails.
async fn read(stream: &TcpStream) -> Option<usize> {
    let mut bytes = [0; 4096];
    loop {
        stream.readable().await.ok()?;
        match stream.try_read(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            read => return read.ok(),
        }
    }
}
