//! Certificate authorities of tests, and servers and clients with their certificates.

use std::{fs, path::PathBuf, process::Stdio, sync::Arc, time::Duration};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
    SanType, SerialNumber, date_time_ymd,
};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tollgate_core::time::Clock;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Error, Identity};

use crate::support::{
    process::{Server, TempFolder, tollgate},
    world::Client,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// A certificate authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, PEM.
#[derive(Clone)]
pub struct Leaf {
    pub cert: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Returns a certificate for servers on this machine.
    pub fn server(&self) -> Leaf {
        self.sign(&Authority::server_params())
    }

    /// Returns the same certificate, but expired.
    pub fn expired(&self) -> Leaf {
        let mut params = Authority::server_params();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2020, 1, 2);
        self.sign(&params)
    }

    /// Returns the same certificate, but it expires after `seconds`.
    pub fn expiring(&self, seconds: u64) -> Leaf {
        let now = Clock::system().now().0 / 1_000_000;
        let mut params = Authority::server_params();
        let end = Duration::from_secs(now + seconds);
        params.not_after = date_time_ymd(1970, 1, 1) + end;
        self.sign(&params)
    }

    fn server_params() -> CertificateParams {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params
    }

    /// Returns a certificate of the client `spiffe://acme/NAME` and `NAME.acme.svc`, with a serial
    /// number.
    pub fn client(&self, name: &str, serial: u64) -> Leaf {
        let mut params = CertificateParams::new(vec![format!("{name}.acme.svc")]).unwrap();
        let uri = format!("spiffe://acme/{name}");
        params.subject_alt_names.push(SanType::URI(uri.try_into().unwrap()));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.serial_number = Some(SerialNumber::from(serial));
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Leaf {
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.0).unwrap();
        Leaf { cert: cert.pem(), key: key.serialize_pem() }
    }

    /// Returns a revocation list with these serial numbers.
    pub fn revocations(&self, serials: &[u64]) -> String {
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(2100, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.0).unwrap().pem().unwrap()
    }
}

/// A folder with the files of a server, and the server.
pub struct TlsServer {
    pub server: Server,
    pub files: Files,
}

/// A folder with certificates and `tollgate.toml`.
pub struct Files(TempFolder);

impl Files {
    /// Creates a folder with a certificate of a server.
    pub fn new(leaf: &Leaf) -> Files {
        let folder = TempFolder::new();
        fs::create_dir_all(folder.path()).unwrap();
        let files = Files(folder);
        files.write_leaf(leaf);
        files
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Replaces a file atomically, as a deployment does.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path("new"), text).unwrap();
        fs::rename(self.path("new"), self.path(name)).unwrap();
    }

    pub fn write_leaf(&self, leaf: &Leaf) {
        self.write("tls.crt", &leaf.cert);
        self.write("tls.key", &leaf.key);
    }

    /// Writes `tollgate.toml`: `[tls]` with the certificate, the key and more keys.
    pub fn configure(&self, more: &str) -> String {
        let (cert, key) = (self.text("tls.crt"), self.text("tls.key"));
        let more = more.replace("DIR", self.0.text());
        self.write("tollgate.toml", &format!("[tls]\ncert = {cert:?}\nkey = {key:?}\n{more}\n"));
        self.text("tollgate.toml")
    }

    /// Returns the log of the server.
    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Waits until the log contains a text `times` times.
    pub async fn logged(&self, text: &str, times: usize) {
        let logged = async {
            while self.log().matches(text).count() < times {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let result = tokio::time::timeout(PATIENCE, logged).await;
        result.unwrap_or_else(|_| panic!("`{text}` is not logged: {}", self.log()));
    }

    /// Starts a server with these arguments; its log goes to a file.
    pub async fn serve(self, arguments: &[&str]) -> TlsServer {
        let mut command = tollgate(&["serve"]);
        command.args(arguments).stderr(Stdio::from(fs::File::create(self.path("log")).unwrap()));
        TlsServer { server: Server::spawn_silent(command).await, files: self }
    }
}

impl TlsServer {
    /// Returns a server with `[tls]` of these keys; `DIR` stands for the folder.
    pub async fn start(leaf: &Leaf, more: &str) -> TlsServer {
        TlsServer::with(Files::new(leaf), more).await
    }

    /// Does the same with more files in the folder.
    pub async fn with(files: Files, more: &str) -> TlsServer {
        let config = files.configure(more);
        files.serve(&["--config", &config]).await
    }

    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.server.port)
    }

    /// Returns a channel on a new connection. `ca` contains the trusted authorities.
    pub async fn channel(&self, ca: &str, own: Option<&Leaf>) -> Result<Channel, Error> {
        let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca));
        if let Some(Leaf { cert, key }) = own {
            tls = tls.identity(Identity::from_pem(cert, key));
        }
        Endpoint::from_shared(self.url()).unwrap().tls_config(tls)?.connect().await
    }

    /// Returns a client on a new connection.
    pub async fn client(&self, ca: &str, own: Option<&Leaf>) -> Result<Client, Error> {
        self.channel(ca, own).await.map(Client::new)
    }

    /// Reloads the certificates by SIGHUP; waits until it is done.
    pub async fn reload(&self) {
        let times = self.files.log().matches(RELOADED).count() + 1;
        self.server.process.signal("-HUP");
        self.files.logged(RELOADED, times).await;
    }
}

/// The line of a successful reload.
pub const RELOADED: &str = "the configuration was reloaded";

impl TlsServer {
    /// Returns a TLS connection that offers these protocols.
    pub async fn raw(
        &self,
        ca: &str,
        protocols: &[&[u8]],
    ) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap();
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|it| it.to_vec()).collect();
        let socket = TcpStream::connect(("127.0.0.1", self.server.port)).await?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, socket).await
    }
}
