//! Answers peers that do not speak HTTP/2, or whose use of TLS does not match the port, with a line
//! of text.

use std::time::Duration;

use tokio::{
    io::{self, AsyncReadExt, AsyncWriteExt},
    time::timeout,
};
use tracing::field::display;

use crate::stream::{self, Stream};
use tollgate_telemetry::line_pace::LinePace;

/// The HTTP/2 connection preface.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The first byte of a TLS connection: a handshake record.
const HANDSHAKE: u8 = 22;

/// An empty SETTINGS frame.
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";

/// The type of the frame that starts a call.
const HEADERS: u8 = 1;
/// Maximum wait for the first call of a connection without TLS on a port with TLS.
const FIRST_CALL: Duration = Duration::from_millis(500);

/// Time within which a peer must read the answer.
const FAREWELL: Duration = Duration::from_secs(1);
/// Number of request bytes that are read and discarded, so that closing does not reset the answer.
const UNREAD_BYTES_MAX: u64 = 64 * 1024;

/// Limits the log lines about peers that use TLS where the server does not.
static TLS: LinePace = LinePace::new(1, Duration::from_secs(10));
/// Limits the log lines about peers that do not use TLS where the server requires it.
static PLAINTEXT: LinePace = LinePace::new(1, Duration::from_secs(10));

/// What a connection starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// The HTTP/2 preface.
    Http2,
    /// A TLS handshake.
    Tls,
    /// The peer has closed the connection without sending a byte.
    Closed,
    /// Neither.
    Other,
}

/// Peeks at the first bytes of a connection. The first byte of a preface is enough: the HTTP/2 code
/// handles a peer that sends only part of it.
pub(super) async fn opening(stream: &mut Stream) -> io::Result<Opening> {
    let mut first = [0; PREFACE.len()];
    let length = stream::peek(stream, &mut first).await?;
    Ok(match &first[..length] {
        [] => Opening::Closed,
        [HANDSHAKE, ..] => Opening::Tls,
        first if PREFACE.starts_with(first) => Opening::Http2,
        _ => Opening::Other,
    })
}

/// Answers a peer whose first bytes do not fit the port, and closes the connection. `is_tls` is
/// whether the port requires TLS. The answer names `program`.
pub(super) async fn reject(stream: &mut Stream, opening: Opening, is_tls: bool, program: &str) {
    log_mismatch(stream, opening, is_tls);
    // A peer that does not read the answer in time gets none.
    let answer = timeout(FAREWELL, async {
        match opening {
            Opening::Http2 => go_away(stream, program).await,
            _ => {
                let _request = stream.read(&mut [0; 4096]).await?;
                stream.write_all(text(program, is_tls).as_bytes()).await
            }
        }
    });
    if let Ok(Ok(())) = answer.await {
        close(stream).await;
    }
}

/// Returns the answer to peers that do not speak HTTP/2. `is_tls` is whether the port requires TLS.
fn text(program: &str, is_tls: bool) -> String {
    let (with, option) = if is_tls { ("with", "-cacert FILE") } else { ("without", "-plaintext") };
    format!(
        "HTTP/1.1 400 Bad Request\r\n\
         content-type: text/plain; charset=utf-8\r\n\
         connection: close\r\n\
         \r\n\
         {program} speaks gRPC over HTTP/2 {with} TLS. Call it with a gRPC client, \
         for instance `grpcurl {option}`.\n"
    )
}

/// Returns the answer to HTTP/2 without TLS on a port with TLS: a GOAWAY frame with the error
/// INADEQUATE_SECURITY and a text.
fn goaway(program: &str) -> Vec<u8> {
    let text = format!("this port of {program} requires TLS: use https");
    // The last stream and the error code take eight bytes.
    let length = u32::try_from(8 + text.len()).unwrap_or_default().to_be_bytes();
    [&length[1..], b"\x07\0\0\0\0\0", b"\0\0\0\0\0\0\0\x0c", text.as_bytes()].concat()
}

/// Rejects a connection without TLS on a port with TLS. The answer waits for the first call, which
/// then fails with the text: if the established connection ended before a call was assigned to it,
/// gRPC's C library would reconnect immediately in an endless loop.
async fn go_away(stream: &mut Stream, program: &str) -> io::Result<()> {
    stream.write_all(SETTINGS).await?;
    if let Ok(Err(error)) = timeout(FIRST_CALL, first_call(stream)).await {
        return Err(error);
    }
    stream.write_all(&goaway(program)).await
}

/// Reads until a call starts.
async fn first_call(stream: &mut Stream) -> io::Result<()> {
    let mut unread = stream.take(UNREAD_BYTES_MAX);
    unread.read_exact(&mut [0; PREFACE.len()]).await?;
    loop {
        let mut head = [0; 9];
        unread.read_exact(&mut head).await?;
        let [high, middle, low, kind, ..] = head;
        if kind == HEADERS {
            return Ok(());
        }
        let length = u32::from_be_bytes([0, high, middle, low]);
        io::copy(&mut (&mut unread).take(length.into()), &mut io::sink()).await?;
    }
}

/// Logs why the connection is closed.
fn log_mismatch(stream: &Stream, opening: Opening, is_tls: bool) {
    let peer = stream::peer(stream).map(display);
    match (opening, stream) {
        (Opening::Tls, _) if !is_tls => {
            if let Some(suppressed) = TLS.due() {
                tracing::warn!(
                    peer,
                    suppressed,
                    "a peer uses TLS on a port without TLS: call it with http, or configure [tls]"
                );
            }
        }
        (_, Stream::Left(_)) if is_tls => {
            if let Some(suppressed) = PLAINTEXT.due() {
                tracing::warn!(
                    peer,
                    suppressed,
                    "a peer does not use TLS on a port that requires it: call it with https"
                );
            }
        }
        _ => tracing::debug!(peer, "a peer does not speak HTTP/2; its connection is closed"),
    }
}

/// Closes the connection. First reads the data that the peer has sent, for at most a second,
/// because unread bytes would reset the connection and discard the last answer.
pub(super) async fn close(stream: &mut Stream) {
    let _ = timeout(FAREWELL, async {
        stream.shutdown().await?;
        io::copy(&mut stream.take(UNREAD_BYTES_MAX), &mut io::sink()).await
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goaway_frame_has_the_length_of_its_text() {
        let frame = goaway("Echo");
        let [high, middle, low, kind, ..] = frame[..] else { panic!("a frame") };
        assert_eq!(u32::from_be_bytes([0, high, middle, low]) as usize, frame.len() - 9);
        assert_eq!(kind, 7);
        assert!(frame.ends_with(b"this port of Echo requires TLS: use https"));
    }
}
