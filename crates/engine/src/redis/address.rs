//! The URL of the store: which Redis, and which topology.
//!
//! | URL | store |
//! |---|---|
//! | `redis://[user:password@]host:port[/db]` | one Redis |
//! | `redis+unix:///path[?db=1&user=…&pass=…]` | one Redis, over a Unix socket |
//! | `redis+sentinel://[user:password@]host:port[,host:port…]/name[/db]` | the primary that Sentinels name |
//! | `redis+cluster://[user:password@]host:port[,host:port…]` | the primaries of a Cluster |
//!
//! `rediss` in place of `redis` means TLS. User and password are those of the data nodes; Sentinels
//! have their own in the configuration.

use std::{fmt, sync::Arc};

use redis::{
    ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError,
    TlsCertificates, TlsMode,
    sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType},
};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

/// The forms of the URL, for error messages.
pub const FORMS: &str = "`redis://[user:password@]host:port[/db]`, `redis+unix:///path`, \
    `redis+sentinel://[user:password@]host:port[,host:port]/name[/db]` or \
    `redis+cluster://[user:password@]host:port[,host:port]`; rediss for TLS";

const SENTINEL_PORT: u16 = 26379;

/// Certificates for TLS, as PEM.
#[derive(Debug, Clone, Default)]
pub struct Certificates {
    /// The certificate authority of the store; `None` for the authorities that the system trusts.
    pub authority: Option<Vec<u8>>,
    /// The client certificate and its key, if the store requires one.
    pub own: Option<(Vec<u8>, Vec<u8>)>,
}

/// A password, which `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// The user for Sentinels. Their users are separate from those of the data nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SentinelUser {
    /// The name; `None` for the default user.
    pub name: Option<String>,
    /// The password.
    pub password: Option<String>,
}

/// A parsed URL.
pub(super) enum Address {
    /// One Redis.
    Single(Endpoint),
    /// The primary that Sentinels name, and the TLS settings of the data nodes.
    Sentinel(SentinelClient, Option<Arc<ClientConfig>>),
    /// A Cluster, with the nodes to ask for its slots.
    Cluster(Vec<Endpoint>),
}

/// The address, user and TLS settings of a node.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    pub(super) info: ConnectionInfo,
    /// `None` without TLS.
    pub(super) tls: Option<Arc<ClientConfig>>,
}

impl Address {
    /// Parses a URL. The error says which part is wrong, without the password. `password` applies
    /// to the data nodes.
    pub(super) fn parse(
        url: &str,
        password: Option<&Password>,
        certificates: &Certificates,
        sentinel: &SentinelUser,
    ) -> Result<Address, String> {
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| format!("expected `embedded` or {FORMS}"))?;
        let (plain, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        if !matches!(plain, "redis" | "rediss" | "valkey" | "valkeys") {
            return Err(format!("expected `embedded` or {FORMS}"));
        }
        let has_tls = kind != "unix" && matches!(plain, "rediss" | "valkeys");
        let tls = has_tls.then(|| parse_tls(certificates)).transpose()?;
        match kind {
            "sentinel" => {
                let builder = parse_sentinel(plain, rest, password, sentinel)?;
                let builder = match tls {
                    Some(_) => with_tls(builder, certificates),
                    None => builder,
                };
                let client = builder.build().map_err(told)?;
                Ok(Address::Sentinel(client, tls))
            }
            "cluster" => parse_cluster(plain, rest, password, tls.as_ref()),
            "" | "unix" => {
                let info = with(password, url.into_connection_info().map_err(told)?);
                Ok(Address::Single(Endpoint { info, tls }.checked()?))
            }
            _ => Err(format!("expected `embedded` or {FORMS}")),
        }
    }
}

impl Endpoint {
    /// Rejects a URL that asks for unverified certificates.
    fn checked(self) -> Result<Endpoint, String> {
        match self.info.addr() {
            ConnectionAddr::TcpTls { insecure: true, .. } => {
                Err("expected no #insecure: certificates are always verified".to_owned())
            }
            _ => Ok(self),
        }
    }

    /// Returns the same user and TLS settings for another node.
    pub(super) fn at(&self, host: &str, port: u16) -> Endpoint {
        let addr = match self.info.addr() {
            ConnectionAddr::TcpTls { insecure, .. } => ConnectionAddr::TcpTls {
                host: host.to_owned(),
                port,
                insecure: *insecure,
                tls_params: None,
            },
            _ => ConnectionAddr::Tcp(host.to_owned(), port),
        };
        Endpoint { info: self.info.clone().set_addr(addr), tls: self.tls.clone() }
    }

    /// Returns the host of the node; empty for a Unix socket.
    pub(super) fn host(&self) -> &str {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host,
            _ => "",
        }
    }
}

/// Splits `[user:password@]host:port[,host:port…]/path` into one URL for each host, with the user
/// and without the path, and the path.
fn split<'a>(
    scheme: &str,
    rest: &'a str,
    port: u16,
) -> Result<(Vec<ConnectionInfo>, &'a str), String> {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (format!("{user}@"), hosts),
        None => (String::new(), authority),
    };
    let infos = hosts.split(',').map(|host| {
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        let port = if has_port { String::new() } else { format!(":{port}") };
        format!("{scheme}://{user}{host}{port}").into_connection_info().map_err(told)
    });
    Ok((infos.collect::<Result<_, _>>()?, path))
}

/// Returns the same connection with this password, if any.
fn with(password: Option<&Password>, info: ConnectionInfo) -> ConnectionInfo {
    match password {
        None => info,
        Some(Password(password)) => {
            let settings = info.redis_settings().clone().set_password(password);
            info.set_redis_settings(settings)
        }
    }
}

/// Parses the rest of a `redis+sentinel` URL.
fn parse_sentinel(
    scheme: &str,
    rest: &str,
    password: Option<&Password>,
    user: &SentinelUser,
) -> Result<SentinelClientBuilder, String> {
    let (infos, path) = split(scheme, rest, SENTINEL_PORT)?;
    let (name, db) = path.split_once('/').unwrap_or((path, "0"));
    if name.is_empty() {
        return Err("expected the name of the primary in the Sentinels: …/name".to_owned());
    }
    let db: i64 = db.parse().map_err(|_| "expected a database number: …/name/0".to_owned())?;
    // The user in the URL is the one for the data nodes.
    let data = infos.first().map(|info| with(password, info.clone()).redis_settings().clone());
    let data = data.unwrap_or_default();
    let sentinels = infos.into_iter().map(|info| info.addr().clone());
    let builder = SentinelClientBuilder::new(sentinels, name, SentinelServerType::Master);
    let mut builder = builder.map_err(told)?.set_client_to_redis_db(db);
    if let Some(name) = data.username() {
        builder = builder.set_client_to_redis_username(name);
    }
    if let Some(password) = data.password() {
        builder = builder.set_client_to_redis_password(password);
    }
    if let Some(name) = &user.name {
        builder = builder.set_client_to_sentinel_username(name);
    }
    if let Some(password) = &user.password {
        builder = builder.set_client_to_sentinel_password(password);
    }
    Ok(builder)
}

/// Makes Sentinels and data nodes use TLS.
fn with_tls(builder: SentinelClientBuilder, certificates: &Certificates) -> SentinelClientBuilder {
    let Certificates { authority, own } = certificates.clone();
    let client_tls =
        own.map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
    let certificates = TlsCertificates { client_tls, root_cert: authority };
    builder
        .set_client_to_redis_tls_mode(TlsMode::Secure)
        .set_client_to_redis_certificates(certificates.clone())
        .set_client_to_sentinel_tls_mode(TlsMode::Secure)
        .set_client_to_sentinel_certificates(certificates)
}

/// Parses the rest of a `redis+cluster` URL. A Cluster has only database 0.
fn parse_cluster(
    scheme: &str,
    rest: &str,
    password: Option<&Password>,
    tls: Option<&Arc<ClientConfig>>,
) -> Result<Address, String> {
    let (infos, path) = split(scheme, rest, 6379)?;
    if !matches!(path, "" | "0") {
        return Err("expected no database number: a Cluster has only database 0".to_owned());
    }
    let seed = |info| Endpoint { info: with(password, info), tls: tls.cloned() }.checked();
    infos.into_iter().map(seed).collect::<Result<_, _>>().map(Address::Cluster)
}

/// Builds the TLS settings that all connections share.
fn parse_tls(certificates: &Certificates) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    match &certificates.authority {
        None => {
            let known = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(known.certs);
        }
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| format!("tls_ca: {error}"))?;
                roots.add(certificate).map_err(|error| format!("tls_ca: {error}"))?;
            }
        }
    }
    if roots.is_empty() {
        return Err("no certificate authority to verify Redis with: set redis.tls_ca".to_owned());
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let config = match &certificates.own {
        None => config.with_no_client_auth(),
        Some((cert, key)) => {
            let chain: Result<_, _> = CertificateDer::pem_slice_iter(cert).collect();
            let chain = chain.map_err(|error| format!("tls_cert: {error}"))?;
            let key =
                PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("tls_key: {error}"))?;
            let config = config.with_client_auth_cert(chain, key);
            config.map_err(|error| format!("tls_cert, tls_key: {error}"))?
        }
    };
    Ok(Arc::new(config))
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn told(error: RedisError) -> String {
    error.to_string()
}
