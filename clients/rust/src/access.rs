//! TLS, client certificate, token and namespace of a connection.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tonic::{
    Code,
    transport::{Certificate, ClientTlsConfig, Identity},
};

use crate::Error;

const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// The files with which a client proves who it is, and verifies the server. They are read when a
/// connection is opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Authorities that sign the certificate of the server, PEM. `None` means the authorities of
    /// the system. Plain `http` uses no authority and no certificate.
    pub ca: Option<PathBuf>,
    /// Client certificate, PEM.
    pub cert: Option<PathBuf>,
    /// Its private key, PEM.
    pub key: Option<PathBuf>,
    /// File with a token, which every call sends.
    pub token_file: Option<PathBuf>,
    /// Namespace of every call, for a caller with several. `None` means the caller's own.
    pub namespace: Option<String>,
}

impl Access {
    /// Reads the certificates.
    pub(crate) fn tls(&self) -> Result<ClientTlsConfig, Error> {
        let tls = match &self.ca {
            Some(ca) => {
                ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read_certificate(ca)?))
            }
            None => ClientTlsConfig::new().with_native_roots(),
        };
        match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => {
                Ok(tls.identity(Identity::from_pem(read_certificate(cert)?, read(key)?)))
            }
            (None, None) => Ok(tls),
            _ => Err(invalid("a client certificate and its key: expected both or none")),
        }
    }
}

/// Reads a file. The error names it.
fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|error| invalid(format!("{}: {error}", path.display())))
}

/// Reads a file with at least one certificate. Without one, the TLS library would trust nobody.
fn read_certificate(path: &Path) -> Result<Vec<u8>, Error> {
    let pem = read(path)?;
    if pem.windows(BEGIN.len()).any(|part| part == BEGIN) {
        Ok(pem)
    } else {
        Err(invalid(format!("{}: expected a certificate in PEM", path.display())))
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_needs_its_key() {
        let access = Access { cert: Some("client.crt".into()), ..Access::default() };
        assert!(access.tls().unwrap_err().message.contains("both or none"));
    }
}
