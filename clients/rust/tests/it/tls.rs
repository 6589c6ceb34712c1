//! TLS, and certificates of clients.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType,
};
use tollgate_client::{Access, Error, Options};

use crate::support::{Server, free_port, temporary};

/// A folder that is removed at the end of its test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let folder = temporary(&format!("tollgate-client-tls-{}", free_port()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        let file = self.0.join(name);
        fs::write(&file, content).unwrap();
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: PathBuf,
}

impl Authority {
    fn new(folder: &Folder, name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let file = folder.write(&format!("{name}.crt"), &issuer.pem());
        Authority { issuer, file }
    }

    /// Writes a certificate and its key.
    fn sign(
        &self,
        folder: &Folder,
        name: SanType,
        usage: ExtendedKeyUsagePurpose,
    ) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![name];
        params.extended_key_usages = vec![usage];
        let cert = params.signed_by(&key, &self.issuer).unwrap().pem();
        let (cert_file, key_file) =
            (format!("{}.crt", free_port()), format!("{}.key", free_port()));
        (folder.write(&cert_file, &cert), folder.write(&key_file, &key.serialize_pem()))
    }

    fn server(&self, folder: &Folder) -> (PathBuf, PathBuf) {
        let name = SanType::DnsName("tollgate.test".try_into().unwrap());
        self.sign(folder, name, ExtendedKeyUsagePurpose::ServerAuth)
    }

    fn client(&self, folder: &Folder) -> (PathBuf, PathBuf) {
        let name = SanType::URI("spiffe://acme/backend".try_into().unwrap());
        self.sign(folder, name, ExtendedKeyUsagePurpose::ClientAuth)
    }
}

/// Starts a server that requires a certificate of its authority from its clients.
async fn server(folder: &Folder, authority: &Authority) -> Server {
    let (cert, key) = authority.server(folder);
    let quoted = |file: &Path| format!("{:?}", file.to_str().unwrap());
    let settings = format!(
        r#"
[tls]
cert = {}
key = {}
client_ca = {}
client_auth = "required"

[[caller]]
name = "backend"
mtls = "spiffe://acme/*"
allow = ["use", "read"]
"#,
        quoted(&cert),
        quoted(&key),
        quoted(&authority.file)
    );
    Server::with_settings(&settings).await
}

/// Makes a call over a new connection.
async fn call(server: &Server, access: Access, name: &str) -> Result<u64, Error> {
    let options = Options::new([&server.address]).access(access).server_name(name);
    let taken = options.open().await?.take("numbers", 1, 1, None, None).await?;
    Ok(taken.first)
}

#[tokio::test]
async fn client_and_server_verify_each_other() {
    let folder = Folder::new();
    let authority = Authority::new(&folder, "authority");
    let foreign = Authority::new(&folder, "foreign");
    let server = server(&folder, &authority).await;
    let access = |ca: &Authority, (cert, key): (PathBuf, PathBuf)| Access {
        ca: Some(ca.file.clone()),
        cert: Some(cert),
        key: Some(key),
        ..Access::default()
    };
    let client = authority.client(&folder);
    let known = access(&authority, client.clone());
    assert_eq!(call(&server, known.clone(), "tollgate.test").await, Ok(1));

    let without = Access { cert: None, key: None, ..known.clone() };
    for (what, access, name) in [
        ("no certificate of the client", without, "tollgate.test"),
        ("a foreign client", access(&authority, foreign.client(&folder)), "tollgate.test"),
        ("a foreign server", access(&foreign, client), "tollgate.test"),
        ("a server of another name", known.clone(), "other.test"),
    ] {
        let error = call(&server, access, name).await.unwrap_err();
        assert_eq!(error.code, "UNAVAILABLE", "{what}: {error}");
    }
    assert_eq!(call(&server, known, "tollgate.test").await, Ok(2), "the others took no value");
}

#[tokio::test]
async fn unusable_files_are_invalid() {
    let folder = Folder::new();
    let missing = Access { ca: Some(folder.0.join("missing.crt")), ..Access::default() };
    let broken = Access { ca: Some(folder.write("broken.crt", "broken")), ..Access::default() };
    for access in [missing, broken] {
        let error = Options::new(["127.0.0.1:1"]).access(access).open().await.unwrap_err();
        assert_eq!(error.code, "INVALID_ARGUMENT", "{error}");
    }
}
