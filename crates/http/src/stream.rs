//! The bytes of a connection: plain or over TLS.

use std::{io, net::SocketAddr};

use tokio::{io::AsyncBufReadExt, net::TcpStream};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

/// The bytes of a connection: the socket itself, or the stream after a TLS handshake. TLS is boxed,
/// because its state takes more than 1 kB. A plain read costs one branch more than a read from the
/// socket, and vectored writes are passed through.
pub(super) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// Returns the address of the peer, unless the peer has closed the connection.
pub(super) fn peer(stream: &Stream) -> Option<SocketAddr> {
    let socket = match stream {
        Either::Left(socket) => socket,
        Either::Right(tls) => tls.get_ref().0,
    };
    socket.peer_addr().ok()
}

/// Waits for the first bytes and copies them; they stay readable. Returns their number, or 0 if the
/// peer has closed the connection.
pub(super) async fn peek(stream: &mut Stream, bytes: &mut [u8]) -> io::Result<usize> {
    match stream {
        Either::Left(socket) => socket.peek(bytes).await,
        Either::Right(tls) => {
            let first = tls.fill_buf().await?;
            let length = first.len().min(bytes.len());
            bytes[..length].copy_from_slice(&first[..length]);
            Ok(length)
        }
    }
}
