//! Fetches a document over https with a GET request: without redirects or proxies, and bounded in
//! size and time.

use std::{path::Path, sync::Arc, time::Duration};

use rustls::{
    RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};
use ureq::{
    Agent, Error,
    http::{StatusCode, Uri},
    tls::{Certificate, RootCerts, TlsConfig},
};

use super::input_file;

/// Time limit for the complete document, including the DNS lookup.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a document, bytes.
const BYTES_MAX: u64 = 1 << 20;

/// The authorities, one of which must have signed the certificate of the server.
#[derive(Debug)]
pub struct Authorities(RootCerts);

impl Authorities {
    /// Reads the authorities from a file, or those that the system trusts if there is no file.
    pub fn read(file: Option<&Path>) -> Result<Authorities, String> {
        let mut roots = RootCertStore::empty();
        let certificates = match file {
            None => {
                let certificates = rustls_native_certs::load_native_certs().certs;
                roots.add_parsable_certificates(certificates.iter().cloned());
                certificates
            }
            Some(path) => {
                let pem = input_file::read(path).map_err(|error| error.to_string())?;
                let certificates: Result<Vec<_>, _> =
                    CertificateDer::pem_slice_iter(&pem).collect();
                let certificates = certificates.map_err(|error| error.to_string())?;
                for certificate in &certificates {
                    roots.add(certificate.clone()).map_err(|error| error.to_string())?;
                }
                certificates
            }
        };
        if roots.is_empty() {
            return Err("found no authority to verify its certificate with".to_owned());
        }
        Ok(Authorities(RootCerts::from(
            certificates.iter().map(|it| Certificate::from_der(it).to_owned()),
        )))
    }
}

/// Fetches a document, blocking the thread. The error is the reason, without the URL.
pub fn fetch(url: &str, authorities: Authorities) -> Result<Vec<u8>, String> {
    let url = parse(url)?;
    let Authorities(roots) = authorities;
    let tls = TlsConfig::builder()
        .root_certs(roots)
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()));
    let agent: Agent = Agent::config_builder()
        .tls_config(tls.build())
        .https_only(true)
        .proxy(None)
        .max_redirects(0)
        .http_status_as_error(false)
        .timeout_global(Some(TIMEOUT))
        .user_agent(concat!("tollgate/", env!("CARGO_PKG_VERSION")))
        .accept("application/json")
        .accept_encoding("")
        .build()
        .into();
    let response = agent.get(url).call().map_err(|error| reason(&error))?;
    if response.status() != StatusCode::OK {
        return Err(format!("expected the status 200, got {}", response.status().as_u16()));
    }
    let body = response.into_body().into_with_config().limit(BYTES_MAX);
    body.read_to_vec().map_err(|error| reason(&error))
}

/// Parses an https URL. A URL with a user name or password is refused.
pub fn parse(url: &str) -> Result<Uri, String> {
    let expected = || "expected a URL such as \"https://issuer.example/keys\"".to_owned();
    let url: Uri = url.parse().map_err(|_| expected())?;
    let has_user = url.authority().is_some_and(|authority| authority.as_str().contains('@'));
    if url.scheme_str() == Some("https") && url.host().is_some() && !has_user {
        Ok(url)
    } else {
        Err(expected())
    }
}

/// Returns the reason of an error, without the URL.
fn reason(error: &Error) -> String {
    match error {
        Error::Timeout(_) => format!("no complete response within {TIMEOUT:?}"),
        Error::BodyExceedsLimit(_) => format!("expected at most {BYTES_MAX} bytes"),
        error => error.to_string(),
    }
}
