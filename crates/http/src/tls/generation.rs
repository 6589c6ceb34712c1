//! A generation of certificates (certificate, key, authorities and revocation lists), which is
//! validated as a whole.

use std::{
    fmt::Display,
    fs,
    hash::{Hash, Hasher},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{
        CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime,
        pem::{self, PemObject},
    },
    server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier},
};
use webpki::{EndEntityCert, Error, KeyUsage};

use tollgate_telemetry::{metrics::configuration, unix_micros};

/// The protocol of gRPC, for ALPN.
const HTTP2: &[u8] = b"h2";

/// The files of TLS, PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of the server, then its intermediates.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The files that verify client certificates. `None` if clients need none.
    pub client: Option<ClientFiles>,
}

/// The files that verify client certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFiles {
    /// The authorities that sign client certificates.
    pub ca: PathBuf,
    /// Revocation lists of these authorities.
    pub crl: Option<PathBuf>,
    /// Whether clients without a certificate are rejected.
    pub required: bool,
}

/// A usable generation: the settings of new connections.
#[derive(Debug, Clone)]
pub struct TlsGeneration {
    pub(super) config: Arc<ServerConfig>,
    /// Age at which a connection ends gracefully, with a jitter of 10 %. `None` means no limit.
    pub(super) max_connection_age: Option<Duration>,
    /// The file of the private key.
    key: PathBuf,
    /// The expiry of the certificate, in seconds since the Unix epoch; `None` if it is not known.
    expiry: Option<u64>,
}

impl TlsGeneration {
    /// Records that the generation is in use. Logs a warning if other users can read its key.
    pub(super) fn record_use(&self) {
        configuration::record_certificate(self.expiry.unwrap_or_default());
        let mode = fs::metadata(&self.key).map(|metadata| metadata.permissions().mode());
        if mode.is_ok_and(|mode| mode & 0o077 != 0) {
            let file = self.key.display();
            tracing::warn!(%file, "other users can access the private key; use chmod 600");
        }
    }
}

/// Returns 90 % to 110 % of an age; `random` is 0 to 1.
pub(super) fn jittered(age: Duration, random: f64) -> Duration {
    age.mul_f64(0.9 + 0.2 * random)
}

/// The contents of the files.
#[derive(Debug)]
pub struct TlsContents {
    cert: TlsFile,
    key: TlsFile,
    client: Option<ClientContents>,
}

#[derive(Debug)]
struct ClientContents {
    ca: TlsFile,
    crl: Option<TlsFile>,
    required: bool,
}

impl TlsContents {
    /// Loads the files with `read`. For a file that cannot be read, the contents are the error.
    pub fn load(files: &TlsFiles, read: impl Fn(&Path) -> io::Result<Vec<u8>>) -> TlsContents {
        let load = |key, path: &Path| TlsFile { key, path: path.to_owned(), bytes: read(path) };
        let client = files.client.as_ref().map(|client| ClientContents {
            ca: load("client_ca", &client.ca),
            crl: client.crl.as_deref().map(|path| load("crl", path)),
            required: client.required,
        });
        TlsContents { cert: load("cert", &files.cert), key: load("key", &files.key), client }
    }

    /// Builds the generation. Fails if a file or the combination of files is not usable; the error
    /// names the key, the file and the reason.
    pub fn build(&self, max_connection_age: Option<Duration>) -> Result<TlsGeneration, String> {
        let (config, key) = (Arc::new(self.settings()?), self.key.path.clone());
        Ok(TlsGeneration { config, max_connection_age, key, expiry: self.expiry() })
    }

    /// Returns the files: configuration key, path and contents, which are `None` if the file cannot
    /// be read.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &Path, Option<&[u8]>)> {
        let client = self.client.as_ref();
        let all = [Some(&self.cert), Some(&self.key), client.map(|client| &client.ca)];
        let all = all.into_iter().chain([client.and_then(|client| client.crl.as_ref())]);
        all.flatten().map(|file| (file.key, &*file.path, file.bytes.as_deref().ok()))
    }

    /// Fails if the certificate of the server is expired or not yet valid. This is not part of
    /// [`TlsContents::build`], because a certificate that expires while in use must not block
    /// reloads of other keys.
    pub fn check_validity(&self) -> Result<(), String> {
        let chain: Vec<CertificateDer<'static>> = self.cert.parse_all("certificate")?;
        let checked = chain.first().map_or(Ok(()), check_validity);
        checked.map_err(|reason| self.cert.error(reason))
    }

    /// Returns the expiry of the server's certificate, in seconds since the Unix epoch; `None` if
    /// it cannot be read.
    fn expiry(&self) -> Option<u64> {
        let chain: Vec<CertificateDer<'static>> = self.cert.parse_all("certificate").ok()?;
        expiry(chain.first()?)
    }

    /// Builds the settings of connections.
    fn settings(&self) -> Result<ServerConfig, String> {
        let chain: Vec<CertificateDer<'static>> = self.cert.parse_all("certificate")?;
        let key = PrivateKeyDer::from_pem_slice(self.key.bytes()?);
        let key = key.map_err(|error| match error {
            pem::Error::NoItemsFound => self.key.error("no private key; it must not be encrypted"),
            error => self.key.error(error),
        })?;

        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| format!("tls: {error}"))?;
        let builder = match &self.client {
            None => builder.with_no_client_auth(),
            Some(client) => builder.with_client_cert_verifier(client.verifier()?),
        };
        let config = builder.with_single_cert(chain, key).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                self.key.error(format_args!("not the key of tls.cert: {error}"))
            }
            error => self.key.error(error),
        });
        let mut config = config?;
        config.alpn_protocols = vec![HTTP2.to_vec()];
        config.send_tls13_tickets = 1;
        if self.client.is_some() {
            // A resumed session would not check the expiry and revocation of the certificate.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(config)
    }
}

/// A file that cannot be read has a hash as well.
impl Hash for TlsContents {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let client = self.client.as_ref();
        let files = [Some(&self.cert), Some(&self.key), client.map(|client| &client.ca)];
        for file in files.into_iter().chain([client.and_then(|client| client.crl.as_ref())]) {
            file.map(|file| file.bytes.as_ref().map_err(io::Error::kind)).hash(hasher);
        }
    }
}

impl ClientContents {
    fn verifier(&self) -> Result<Arc<dyn ClientCertVerifier>, String> {
        let mut roots = RootCertStore::empty();
        for authority in self.ca.parse_all("certificate")? {
            roots.add(authority).map_err(|error| self.ca.error(error))?;
        }
        let provider = Arc::new(ring::default_provider());
        let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        if let Some(crl) = &self.crl {
            let lists: Vec<CertificateRevocationListDer<'static>> =
                crl.parse_all("revocation list")?;
            builder = builder.with_crls(lists);
        }
        if !self.required {
            builder = builder.allow_unauthenticated();
        }
        // The authorities were checked above, so an error concerns the lists.
        builder.build().map_err(|error| self.crl.as_ref().unwrap_or(&self.ca).error(error))
    }
}

/// A file: its key in `[tls]`, its path, and its bytes or the error of reading them.
#[derive(Debug)]
struct TlsFile {
    key: &'static str,
    path: PathBuf,
    bytes: io::Result<Vec<u8>>,
}

impl TlsFile {
    fn bytes(&self) -> Result<&[u8], String> {
        self.bytes.as_deref().map_err(|error| self.error(error))
    }

    fn error(&self, reason: impl Display) -> String {
        format!("tls.{} = \"{}\": {reason}", self.key, self.path.display())
    }

    /// Parses all items of a kind. Fails if there are none.
    fn parse_all<T: PemObject>(&self, kind: &str) -> Result<Vec<T>, String> {
        let items: Result<Vec<T>, _> = T::pem_slice_iter(self.bytes()?).collect();
        match items.map_err(|error| self.error(error))? {
            items if items.is_empty() => Err(self.error(format_args!("no PEM {kind} in the file"))),
            items => Ok(items),
        }
    }
}

/// Returns the expiry of a certificate, in seconds since the Unix epoch; `None` if it cannot be
/// read.
fn expiry(certificate: &CertificateDer<'_>) -> Option<u64> {
    let leaf = EndEntityCert::try_from(certificate).ok()?;
    // A check for the latest possible time fails, and its error contains the expiry.
    let (end, usage) = (UnixTime::since_unix_epoch(Duration::MAX), KeyUsage::server_auth());
    match leaf.verify_for_usage(&[], &[], &[], end, usage, None, None) {
        Err(Error::CertExpired { not_after, .. }) => Some(not_after.as_secs()),
        _ => None,
    }
}

/// Fails if the certificate is damaged, expired or not yet valid.
fn check_validity(certificate: &CertificateDer<'_>) -> Result<(), String> {
    let leaf = EndEntityCert::try_from(certificate).map_err(|error| error.to_string())?;
    let now = Duration::from_micros(unix_micros());
    let (now, usage) = (UnixTime::since_unix_epoch(now), KeyUsage::server_auth());
    // Validity is checked first. The later checks always fail, because this call passes no
    // authorities.
    match leaf.verify_for_usage(&[], &[], &[], now, usage, None, None) {
        Err(Error::CertExpired { not_after, .. }) => {
            Err(format!("the certificate expired at {}", shown(not_after)))
        }
        Err(Error::CertNotValidYet { not_before, .. }) => {
            Err(format!("the certificate is not valid before {}", shown(not_before)))
        }
        _ => Ok(()),
    }
}

fn shown(time: UnixTime) -> impl Display {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(time.as_secs()))
}
