//! TLS, client certificate, token and namespace of a connection.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    task::{Context, Poll},
};

use tonic::{
    Code,
    body::Body,
    codegen::{
        Service,
        http::{HeaderMap, HeaderValue, Request, header::AUTHORIZATION},
    },
    transport::{Certificate, Channel, ClientTlsConfig, Identity},
};

use crate::Error;

/// Metadata that chooses one of the namespaces of a caller.
const NAMESPACE: &str = "x-tollgate-namespace";

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
    /// Namespace of every call, for a caller with several. `None` for the caller's own.
    pub namespace: Option<String>,
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

    /// Returns the metadata of every call. Reads the token.
    pub(crate) fn metadata(&self) -> Result<HeaderMap, Error> {
        let mut metadata = HeaderMap::new();
        if let Some(value) = self.authorization()? {
            metadata.insert(AUTHORIZATION, value);
        }
        if let Some(namespace) = &self.namespace {
            let value = HeaderValue::try_from(namespace);
            let value = value.map_err(|_| invalid("the namespace: expected visible ASCII"))?;
            metadata.insert(NAMESPACE, value);
        }
        Ok(metadata)
    }

    /// Reads the token.
    fn authorization(&self) -> Result<Option<HeaderValue>, Error> {
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

/// A channel whose calls send the token and the namespace.
#[derive(Debug, Clone)]
pub(crate) struct Authorized {
    pub(crate) channel: Channel,
    pub(crate) metadata: Arc<HeaderMap>,
}

impl Service<Request<Body>> for Authorized {
    type Response = <Channel as Service<Request<Body>>>::Response;
    type Error = <Channel as Service<Request<Body>>>::Error;
    type Future = <Channel as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.channel.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        for (name, value) in self.metadata.iter() {
            request.headers_mut().insert(name, value.clone());
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
