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

use std::fmt;

use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError,
    TlsCertificates, TlsMode,
    sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType},
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

/// A password, which is not shown.
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
    Single(Client),
    /// The primary that Sentinels name.
    Sentinel(SentinelClient),
    /// A Cluster, with the nodes to ask for its slots.
    Cluster(Vec<Template>),
}

/// The user, TLS settings and address of a Cluster node.
#[derive(Debug, Clone)]
pub(super) struct Template {
    info: ConnectionInfo,
    certificates: TlsCertificates,
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
        let certificates = TlsCertificates {
            client_tls: certificates
                .own
                .clone()
                .map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key }),
            root_cert: certificates.authority.clone(),
        };
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| format!("expected `embedded` or {FORMS}"))?;
        let (plain, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        if !matches!(plain, "redis" | "rediss" | "valkey" | "valkeys") {
            return Err(format!("expected `embedded` or {FORMS}"));
        }
        match kind {
            "sentinel" => parse_sentinel(plain, rest, password, certificates, sentinel),
            "cluster" => parse_cluster(plain, rest, password, &certificates),
            "" | "unix" => {
                let info = with(password, url.into_connection_info().map_err(told)?);
                Template { info, certificates }.client().map(Address::Single).map_err(told)
            }
            _ => Err(format!("expected `embedded` or {FORMS}")),
        }
    }
}

impl Template {
    /// A client for the node.
    pub(super) fn client(&self) -> Result<Client, RedisError> {
        match self.info.addr() {
            ConnectionAddr::TcpTls { .. } => {
                Client::build_with_tls(self.info.clone(), self.certificates.clone())
            }
            _ => Client::open(self.info.clone()),
        }
    }

    /// The same user and TLS settings for another node.
    pub(super) fn at(&self, host: &str, port: u16) -> Template {
        let addr = match self.info.addr() {
            ConnectionAddr::TcpTls { insecure, .. } => ConnectionAddr::TcpTls {
                host: host.to_owned(),
                port,
                insecure: *insecure,
                tls_params: None,
            },
            _ => ConnectionAddr::Tcp(host.to_owned(), port),
        };
        Template { info: self.info.clone().set_addr(addr), certificates: self.certificates.clone() }
    }

    /// The host of the node; empty for a Unix socket.
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

/// The same connection with this password, if any.
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
    certificates: TlsCertificates,
    user: &SentinelUser,
) -> Result<Address, String> {
    let (infos, path) = split(scheme, rest, SENTINEL_PORT)?;
    let (name, db) = path.split_once('/').unwrap_or((path, "0"));
    if name.is_empty() {
        return Err("expected the name of the primary in the Sentinels: …/name".to_owned());
    }
    let db: i64 = db.parse().map_err(|_| "expected a database number: …/name/0".to_owned())?;
    let is_tls = infos.iter().any(|info| matches!(info.addr(), ConnectionAddr::TcpTls { .. }));
    // The user of the URL is that of the data nodes.
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
    if is_tls {
        builder = builder
            .set_client_to_redis_tls_mode(TlsMode::Secure)
            .set_client_to_redis_certificates(certificates.clone())
            .set_client_to_sentinel_tls_mode(TlsMode::Secure)
            .set_client_to_sentinel_certificates(certificates);
    }
    builder.build().map(Address::Sentinel).map_err(told)
}

/// Parses the rest of a `redis+cluster` URL. A Cluster has only database 0.
fn parse_cluster(
    scheme: &str,
    rest: &str,
    password: Option<&Password>,
    certificates: &TlsCertificates,
) -> Result<Address, String> {
    let (infos, path) = split(scheme, rest, 6379)?;
    if !matches!(path, "" | "0") {
        return Err("expected no database number: a Cluster has only database 0".to_owned());
    }
    let certificates = || certificates.clone();
    let template = |info| Template { info: with(password, info), certificates: certificates() };
    let seeds: Vec<_> = infos.into_iter().map(template).collect();
    seeds.iter().try_for_each(|seed| seed.client().map(drop)).map_err(told)?;
    Ok(Address::Cluster(seeds))
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn told(error: RedisError) -> String {
    error.to_string()
}
