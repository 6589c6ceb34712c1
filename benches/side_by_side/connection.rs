//! An HTTP/2 connection for unary gRPC calls.

use std::{io, net::SocketAddr};

use bytes::{Bytes, BytesMut};
use h2::client::{self, SendRequest};
use tokio::{net::TcpStream, task::AbortHandle};
use tonic::codegen::http::{HeaderMap, Request, Uri, uri::PathAndQuery};

use crate::call::Call;

/// Far more than all replies in flight need: flow control never delays them.
const WINDOW: u32 = 4 << 20;

/// Why a call has no reply.
#[derive(Debug)]
pub(crate) enum Failure {
    /// gRPC status and message.
    Status(u16, String),
    /// The connection broke, or the server violated the protocol.
    Broken(String),
}

/// gRPC status RESOURCE_EXHAUSTED.
pub(crate) const RESOURCE_EXHAUSTED: u16 = 8;

impl From<h2::Error> for Failure {
    fn from(error: h2::Error) -> Failure {
        Failure::Broken(error.to_string())
    }
}

/// A connection; clones share it.
#[derive(Clone)]
pub(crate) struct Connection {
    requests: SendRequest<Bytes>,
    authority: String,
    driver: AbortHandle,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> io::Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (requests, connection) = client::Builder::new()
            .initial_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .handshake(stream)
            .await
            .map_err(io::Error::other)?;
        // Its calls report why the connection ended.
        let driver = tokio::spawn(async { drop(connection.await) }).abort_handle();
        Ok(Connection { requests, authority: address.to_string(), driver })
    }

    /// Closes the connection for all clones.
    pub(crate) fn close(&self) {
        self.driver.abort();
    }

    /// Builds the request of a call without its body, once for many calls.
    pub(crate) fn request(&self, call: &Call) -> Request<()> {
        let uri = Uri::builder()
            .scheme("http")
            .authority(self.authority.as_str())
            .path_and_query(PathAndQuery::from_static(call.path));
        Request::post(uri.build().expect("all parts are there"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .expect("all parts are sound")
    }

    /// Makes a call; returns the message of a reply with status OK.
    pub(crate) async fn call(
        &mut self,
        request: Request<()>,
        body: Bytes,
    ) -> Result<Bytes, Failure> {
        let mut requests = self.requests.clone().ready().await?;
        let (response, mut stream) = requests.send_request(request, false)?;
        stream.send_data(body, true)?;
        let (head, mut body) = response.await?.into_parts();
        let mut received = Bytes::new();
        while let Some(chunk) = body.data().await {
            let chunk = chunk?;
            body.flow_control().release_capacity(chunk.len())?;
            received = if received.is_empty() {
                chunk
            } else {
                BytesMut::from_iter(received.iter().chain(&chunk)).freeze()
            };
        }
        match body.trailers().await? {
            Some(trailers) => status(&trailers)?,
            None => status(&head.headers)?,
        }
        Ok(received)
    }
}

fn status(headers: &HeaderMap) -> Result<(), Failure> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    match text("grpc-status") {
        Some("0") => Ok(()),
        None => Err(Failure::Broken("a reply without grpc-status".to_owned())),
        Some(code) => {
            let message = text("grpc-message").unwrap_or_default().to_owned();
            Err(Failure::Status(code.parse().unwrap_or(u16::MAX), message))
        }
    }
}
