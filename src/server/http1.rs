//! Answers peers that do not speak HTTP/2 with a line of text.

use std::{future::poll_fn, io::ErrorKind, pin::Pin, time::Duration};

use tokio::{io::AsyncWrite, net::TcpStream, time::timeout};

use super::connections::Connection;

/// The HTTP/2 connection preface.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The answer to every other peer.
const ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    connection: close\r\n\
    \r\n\
    Tollgate speaks gRPC over HTTP/2 without TLS. Call it with a gRPC client, \
    for instance `grpcurl -plaintext`.\n";
/// Time until a peer must have read the answer.
const FAREWELL: Duration = Duration::from_secs(1);
/// Number of request bytes that are read and discarded, so that closing does not reset the answer.
const UNREAD_BYTES_MAX: usize = 64 * 1024;

/// Peeks at the first bytes of a connection and returns whether they begin the HTTP/2 preface. The
/// HTTP/2 code handles a peer that closes or sends only a part of the preface.
pub(super) async fn is_http2(connection: &Connection) -> bool {
    let mut first = [0; PREFACE.len()];
    let peeked = connection.stream().peek(&mut first).await;
    peeked.is_ok_and(|length| PREFACE.starts_with(&first[..length]))
}

/// Sends the answer and closes the connection.
pub(super) async fn refuse(mut connection: Connection) {
    tracing::debug!("a peer does not speak HTTP/2; its connection is closed");
    // A peer that does not read the answer in time gets none.
    let _ = timeout(FAREWELL, async {
        if read(connection.stream()).await.is_none() {
            return;
        }
        let stream = connection.stream();
        // The socket is new, so the answer fits into its send buffer.
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

/// Reads and discards bytes; returns their number. `None` if the read fails.
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
