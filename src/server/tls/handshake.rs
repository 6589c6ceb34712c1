//! The handshake of a connection, within a limited time.

use std::{io::ErrorKind, sync::Arc, time::Duration};

use rustls::pki_types::CertificateDer;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tracing::field::display;
use webpki::EndEntityCert;

use super::Tls;
use crate::{
    grpc::CertificateNames,
    server::{
        http1::{self, Opening},
        stream::{self, Stream},
    },
};
use tollgate_telemetry::limits::ReachedLimit;
use tollgate_telemetry::line_pace::LinePace;

/// Lines about handshakes that fail.
static FAILED: LinePace = LinePace::new(1, Duration::from_secs(10));

/// A connection after its handshake.
pub(in crate::server) struct TlsConnection {
    pub(in crate::server) stream: Stream,
    /// The names in the verified certificate of the client, if it has presented one.
    pub(in crate::server) names: Option<Arc<CertificateNames>>,
}

impl Tls {
    /// Performs the handshake, at most for the time `within`. `None` if it failed; the peer got an
    /// answer then, if possible.
    pub(in crate::server) async fn accept(
        &self,
        socket: TcpStream,
        within: Duration,
    ) -> Option<TlsConnection> {
        let accepted = timeout(within, self.handshake(socket)).await;
        accepted.unwrap_or_else(|_| {
            ReachedLimit::HandshakeTime.record();
            None
        })
    }

    async fn handshake(&self, socket: TcpStream) -> Option<TlsConnection> {
        let mut plain = Stream::Left(socket);
        match http1::opening(&mut plain).await.ok()? {
            Opening::Tls => {}
            Opening::Closed => return None,
            opening => {
                http1::refuse(&mut plain, opening, true).await;
                return None;
            }
        }
        let Stream::Left(socket) = plain else { return None };
        let acceptor = TlsAcceptor::from(self.0.load().config.clone());
        match acceptor.accept(socket).into_fallible().await {
            Ok(stream) => {
                let names = names(&stream);
                Some(TlsConnection { stream: Stream::Right(Box::new(stream)), names })
            }
            Err((error, socket)) => {
                let mut plain = Stream::Left(socket);
                let peer = stream::peer(&plain).map(display);
                // A peer that closes early, such as a probe of the port, is no failure.
                if error.kind() != ErrorKind::UnexpectedEof
                    && let Some(suppressed) = FAILED.due()
                {
                    tracing::warn!(peer, %error, suppressed, "a TLS handshake has failed");
                }
                // The peer receives the alert.
                http1::close(&mut plain).await;
                None
            }
        }
    }
}

/// Returns the names in the certificate of the client, which the handshake has verified.
fn names(stream: &TlsStream<TcpStream>) -> Option<Arc<CertificateNames>> {
    let (_, session) = stream.get_ref();
    let certificate: &CertificateDer<'_> = session.peer_certificates()?.first()?;
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let owned = |name: &str| name.to_owned();
    Some(Arc::new(CertificateNames {
        uris: certificate.valid_uri_names().map(owned).collect(),
        dns: certificate.valid_dns_names().map(owned).collect(),
    }))
}
