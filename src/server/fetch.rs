//! Fetches a document by https: GET without redirects, with bounded size and time.

use std::{fmt, future::poll_fn, path::Path, pin::Pin, sync::Arc, thread, time::Duration};

use bytes::Bytes;
use hyper::{
    Request, Response, StatusCode, Uri,
    body::{Body, Incoming},
    client::conn::http1,
    header,
};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{net::TcpStream, runtime, time::timeout};
use tokio_rustls::TlsConnector;

use super::input_file;

/// Time until the document must be complete.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest document, bytes.
const BYTES_MAX: usize = 1 << 20;

/// The authorities of which one must have signed the certificate of the server.
pub struct Authorities(TlsConnector);

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorities")
    }
}

impl Authorities {
    /// Reads the authorities in a file; without a file, those that the system trusts.
    pub fn read(file: Option<&Path>) -> Result<Authorities, String> {
        tls(file).map(Authorities)
    }
}

/// Fetches a document. Blocks the thread. The error is a reason without the URL.
pub fn fetch(url: &str, authorities: Authorities) -> Result<Vec<u8>, String> {
    let (url, Authorities(tls)) = (parse(url)?, authorities);
    let fetching = async { timeout(TIMEOUT, get(&url, tls)).await };
    // On another thread, because the thread of the caller may already have a runtime.
    let fetched = thread::scope(|scope| {
        let fetching = scope.spawn(|| {
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| {
                let fetched = runtime.block_on(fetching);
                // A lookup of the name may still run; nobody waits for it.
                runtime.shutdown_background();
                fetched
            })
        });
        fetching.join()
    });
    match fetched {
        Ok(Ok(Ok(document))) => document,
        Ok(Ok(Err(_))) => Err(format!("no complete answer within {TIMEOUT:?}")),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the fetch has failed".to_owned()),
    }
}

/// Parses an https URL. A URL with a user name or password is refused.
pub fn parse(url: &str) -> Result<Uri, String> {
    let expected = || "expected a URL such as \"https://issuer.example/keys\"".to_owned();
    let url: Uri = url.parse().map_err(|_| expected())?;
    let has_user = url.authority().is_some_and(|authority| authority.as_str().contains('@'));
    match url.scheme_str() == Some("https") && url.host().is_some() && !has_user {
        true => Ok(url),
        false => Err(expected()),
    }
}

/// The settings of a client that trusts the authorities in a file, or those of the system.
fn tls(ca: Option<&Path>) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        None => {
            let known = rustls_native_certs::load_native_certs();
            let _ = roots.add_parsable_certificates(known.certs);
        }
        Some(path) => {
            let pem = input_file::read(path).map_err(|error| error.to_string())?;
            for certificate in CertificateDer::pem_slice_iter(&pem) {
                let certificate = certificate.map_err(|error| error.to_string())?;
                roots.add(certificate).map_err(|error| error.to_string())?;
            }
        }
    }
    if roots.is_empty() {
        return Err("no authority to verify its certificate with".to_owned());
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn get(url: &Uri, tls: TlsConnector) -> Result<Vec<u8>, String> {
    let host = url.host().unwrap_or_default();
    // An IPv6 address stands in brackets.
    let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = url.port_u16().unwrap_or(443);
    let socket = TcpStream::connect((name.as_str(), port)).await;
    let socket = socket.map_err(|error| error.to_string())?;
    let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
    let stream = tls.connect(name, socket).await.map_err(|error| error.to_string())?;
    let failed = |error: hyper::Error| error.to_string();
    let (mut send, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path)
        .header(header::HOST, url.authority().map_or(host, |authority| authority.as_str()))
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, concat!("tollgate/", env!("CARGO_PKG_VERSION")))
        .body(String::new())
        .map_err(|error| error.to_string())?;
    let document = async {
        let response = send.send_request(request).await.map_err(failed)?;
        document(response).await
    };
    tokio::select! {
        document = document => document,
        Err(error) = connection => Err(failed(error)),
    }
}

/// Reads the document of an answer.
async fn document(response: Response<Incoming>) -> Result<Vec<u8>, String> {
    if response.status() != StatusCode::OK {
        return Err(format!("expected the status 200, got {}", response.status().as_u16()));
    }
    let (mut body, mut document) = (response.into_body(), Vec::new());
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let data: Bytes = frame.map_err(|error| error.to_string())?.into_data().unwrap_or_default();
        if document.len() + data.len() > BYTES_MAX {
            return Err(format!("expected at most {BYTES_MAX} bytes"));
        }
        document.extend_from_slice(&data);
    }
    Ok(document)
}
