//! The names of a caller in its client certificate.

/// The names in a verified client certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CertificateNames {
    /// URI names, such as SPIFFE IDs: `spiffe://acme/backend/eu`.
    pub uris: Vec<String>,
    /// DNS names, such as `backend.acme.svc`.
    pub dns: Vec<String>,
}
