//! The TLS handshake of a connection, within a limited time.

use std::{io::ErrorKind, sync::Arc, time::Duration};

use rustls::pki_types::CertificateDer;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tracing::field::display;
use webpki::EndEntityCert;

use super::Tls;
use crate::{
    http1::{self, Opening},
    identity::CertificateNames,
    stream::{self, Stream},
};
use tollgate_telemetry::{limits::ReachedLimit, line_pace::LinePace};

/// Limits the log lines about failed handshakes.
static FAILED: LinePace = LinePace::new(1, Duration::from_secs(10));

/// A connection after its handshake.
pub(crate) struct TlsConnection {
    pub(crate) stream: Stream,
    /// The names in the verified certificate of the client, if it has presented one.
    pub(crate) names: Option<Arc<CertificateNames>>,
}

impl Tls {
    /// Performs the handshake within the time `within`. Returns `None` if it failed; the peer was
    /// then sent an answer that names the program, if possible.
    pub(crate) async fn accept(
        &self,
        socket: TcpStream,
        within: Duration,
        program: &str,
    ) -> Option<TlsConnection> {
        let accepted = timeout(within, self.handshake(socket, program)).await;
        accepted.unwrap_or_else(|_| {
            ReachedLimit::HandshakeTime.record();
            None
        })
    }

    async fn handshake(&self, socket: TcpStream, program: &str) -> Option<TlsConnection> {
        let mut plain = Stream::Left(socket);
        match http1::opening(&mut plain).await.ok()? {
            Opening::Tls => {}
            Opening::Closed => return None,
            opening => {
                http1::reject(&mut plain, opening, true, program).await;
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
                // A peer that closes early, such as a port probe, is not a failure.
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
