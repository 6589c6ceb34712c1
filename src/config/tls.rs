//! `[tls]` of `tollgate.toml`, and its flags.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use serde::{Deserialize, Deserializer};

use super::{ConfigError, value::length};
use tollgate_core::time::Millis;
use tollgate_http::tls::{ClientFiles, TlsFiles};

/// Default of `max_connection_age` where clients have certificates: the connection of a revoked one
/// ends by then.
const CLIENT_CONNECTION_AGE: Duration = Duration::from_secs(3600);

/// TLS of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsOptions {
    /// The files.
    pub files: TlsFiles,
    /// Age at which a connection is closed gracefully. `None` for no limit.
    pub max_connection_age: Option<Duration>,
}

/// Flags of TLS.
#[derive(Debug, Clone, Default, Args)]
pub struct TlsFlags {
    /// Certificate of the server and its intermediates, PEM; the server requires TLS then
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TLS_CERT")]
    pub tls_cert: Option<PathBuf>,

    /// Private key of the certificate, PEM
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TLS_KEY")]
    pub tls_key: Option<PathBuf>,

    /// Authorities that sign client certificates, PEM
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TLS_CLIENT_CA")]
    pub tls_client_ca: Option<PathBuf>,

    /// Whether clients present a certificate [default: off]
    #[arg(long, value_name = "MODE", env = "TOLLGATE_TLS_CLIENT_AUTH")]
    pub tls_client_auth: Option<ClientAuth>,

    /// Revocation lists of the authorities, PEM
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TLS_CRL")]
    pub tls_crl: Option<PathBuf>,
}

/// Whether clients present a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientAuth {
    /// Certificates are not requested.
    Off,
    /// A certificate is verified if the client has one.
    Optional,
    /// Clients without a certificate are refused.
    Required,
}

/// `[tls]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TlsSection {
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    client_ca: Option<PathBuf>,
    client_auth: Option<ClientAuth>,
    crl: Option<PathBuf>,
    #[serde(default, deserialize_with = "max_connection_age")]
    max_connection_age: Option<Duration>,
}

impl TlsSection {
    /// Merges the section with the flags. `None` without a certificate. Fails if keys are missing.
    pub(super) fn options(self, flags: &TlsFlags) -> Result<Option<TlsOptions>, ConfigError> {
        let missing = |key: &str, what: &str| Err(ConfigError::new(format!("tls.{key}: {what}")));
        let cert = flags.tls_cert.clone().or(self.cert);
        let key = flags.tls_key.clone().or(self.key);
        let ca = flags.tls_client_ca.clone().or(self.client_ca);
        let crl = flags.tls_crl.clone().or(self.crl);
        let auth = flags.tls_client_auth.or(self.client_auth);
        let (cert, key) = match (cert, key) {
            (Some(cert), Some(key)) => (cert, key),
            (Some(_), None) => return missing("key", "expected the private key of tls.cert"),
            (None, Some(_)) => return missing("cert", "expected the certificate of tls.key"),
            (None, None) => {
                let others = [
                    ("client_ca", ca.is_some()),
                    ("client_auth", auth.is_some_and(|auth| auth != ClientAuth::Off)),
                    ("crl", crl.is_some()),
                    ("max_connection_age", self.max_connection_age.is_some()),
                ];
                return match others.into_iter().find(|(_, is_given)| *is_given) {
                    Some((other, _)) => missing(other, "requires tls.cert and tls.key"),
                    None => Ok(None),
                };
            }
        };
        let client = match (auth, ca) {
            (None, Some(_)) => {
                let expected =
                    "expected \"optional\" or \"required\" with tls.client_ca, or \"off\"";
                return missing("client_auth", expected);
            }
            (None | Some(ClientAuth::Off), _) => None,
            (Some(_), None) => return missing("client_ca", "tls.client_auth requires it"),
            (Some(auth), Some(ca)) => {
                Some(ClientFiles { ca, crl: crl.clone(), required: auth == ClientAuth::Required })
            }
        };
        if crl.is_some() && auth.is_none() {
            return missing("crl", "requires tls.client_ca and tls.client_auth");
        }
        let age = client.as_ref().map(|_| CLIENT_CONNECTION_AGE);
        Ok(Some(TlsOptions {
            max_connection_age: self.max_connection_age.or(age),
            files: TlsFiles { cert, key, client },
        }))
    }
}

fn max_connection_age<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Duration>, D::Error> {
    let bounds = Millis::from_secs(1)..=Millis::from_secs(30 * 24 * 3600);
    length(d, "tls.max_connection_age", bounds).map(|age| Some(age.duration()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(section: &str) -> Result<Option<TlsOptions>, String> {
        let section: TlsSection = toml::from_str(section).expect("a section");
        section.options(&TlsFlags::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn incomplete_sections_are_refused_and_the_error_names_the_key() {
        let pair = "cert = \"c\"\nkey = \"k\"\n";
        for (section, error) in [
            ("cert = \"c\"".to_owned(), "tls.key: expected"),
            ("key = \"k\"".to_owned(), "tls.cert: expected"),
            ("client_ca = \"a\"".to_owned(), "tls.client_ca: requires tls.cert"),
            ("client_auth = \"required\"".to_owned(), "tls.client_auth: requires tls.cert"),
            ("max_connection_age = \"1h\"".to_owned(), "tls.max_connection_age: requires"),
            (
                format!("{pair}client_auth = \"optional\""),
                "tls.client_ca: tls.client_auth requires",
            ),
            (format!("{pair}client_ca = \"a\""), "tls.client_auth: expected"),
            (format!("{pair}crl = \"l\""), "tls.crl: requires tls.client_ca"),
        ] {
            let found = options(&section).expect_err(&section);
            assert!(found.starts_with(error), "{section}: {found}");
        }
    }

    #[test]
    fn connections_have_a_maximum_age_where_clients_have_certificates() {
        let age = |rest: &str| {
            let section = format!("cert = \"c\"\nkey = \"k\"\n{rest}");
            options(&section).expect("complete").expect("TLS").max_connection_age
        };
        let client = "client_ca = \"a\"\nclient_auth = \"required\"\n";
        assert_eq!(age(""), None);
        assert_eq!(age("client_ca = \"a\"\nclient_auth = \"off\""), None);
        assert_eq!(age(client), Some(Duration::from_secs(3600)));
        assert_eq!(age("max_connection_age = \"5m\""), Some(Duration::from_secs(300)));
        assert_eq!(options(""), Ok(None));
        assert_eq!(options("client_auth = \"off\""), Ok(None));
    }
}
