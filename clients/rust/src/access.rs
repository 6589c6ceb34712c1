//! TLS, client certificate and token of a connection.

use std::{
    fs,
    path::{Path, PathBuf},
    task::{Context, Poll},
};

use tonic::{
    Code,
    body::Body,
    codegen::{
        Service,
        http::{HeaderValue, Request, header::AUTHORIZATION},
    },
    transport::{Certificate, Channel, ClientTlsConfig, Identity},
};

use crate::Error;

/// The files with which a client proves who it is, and verifies the server. They are read when a
/// connection is opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Authorities that sign the certificate of the server, PEM. `None` for the authorities of the
    /// system. Plain `http` uses no authority and no certificate.
    pub ca: Option<PathBuf>,
    /// Client certificate, PEM.
    pub cert: Option<PathBuf>,
    /// Its private key, PEM.
    pub key: Option<PathBuf>,
    /// File with a token, which every call sends.
    pub token_file: Option<PathBuf>,
}

impl Access {
    /// Reads the certificates.
    pub(crate) fn tls(&self) -> Result<ClientTlsConfig, Error> {
        let tls = match &self.ca {
            Some(ca) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(ca)?)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => {
                Ok(tls.identity(Identity::from_pem(read(cert)?, read(key)?)))
            }
            (None, None) => Ok(tls),
            _ => Err(invalid("a client certificate and its key: expected both or none")),
        }
    }

    /// Reads the token.
    pub(crate) fn authorization(&self) -> Result<Option<HeaderValue>, Error> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let token = String::from_utf8(read(path)?).unwrap_or_default();
        let value = match token.trim() {
            "" => None,
            token => HeaderValue::try_from(format!("Bearer {token}")).ok(),
        };
        let mut value = value.ok_or_else(|| invalid(format!("{}: no token", path.display())))?;
        // Debug output does not show it.
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

/// Reads a file. The error names it.
fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|error| invalid(format!("{}: {error}", path.display())))
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::InvalidArgument, message)
}

/// A channel whose calls send the token.
#[derive(Debug, Clone)]
pub(crate) struct Authorized {
    pub(crate) channel: Channel,
    pub(crate) authorization: Option<HeaderValue>,
}

impl Service<Request<Body>> for Authorized {
    type Response = <Channel as Service<Request<Body>>>::Response;
    type Error = <Channel as Service<Request<Body>>>::Error;
    type Future = <Channel as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.channel.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(value) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, value.clone());
        }
        self.channel.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_without_its_line_break_and_never_shown() {
        let path = std::env::temp_dir().join(format!("tollgate-token-{}", std::process::id()));
        let access = Access { token_file: Some(path.clone()), ..Access::default() };
        for (text, expected) in [("s3cret\n", Some("Bearer s3cret")), ("\n", None), ("a\nb", None)]
        {
            fs::write(&path, text).unwrap();
            let value = access.authorization();
            assert!(!format!("{value:?}").contains("s3cret"), "{value:?}");
            match expected {
                Some(expected) => assert_eq!(value.unwrap().unwrap(), expected),
                None => assert!(value.unwrap_err().message.contains("no token")),
            }
        }
        fs::remove_file(&path).unwrap();
        assert!(access.authorization().unwrap_err().message.contains("No such file"));
        assert_eq!(Access::default().authorization(), Ok(None));
    }

    #[test]
    fn a_certificate_needs_its_key() {
        let access = Access { cert: Some("client.crt".into()), ..Access::default() };
        assert!(access.tls().unwrap_err().message.contains("both or none"));
    }
}
