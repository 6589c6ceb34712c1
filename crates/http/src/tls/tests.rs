//! The names of a client after its handshake, and the jitter of the maximum age.

use std::fs;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    SanType,
};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use super::*;
use crate::identity::CertificateNames;

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Returns the names that the server sees for a client with this certificate.
async fn seen(params: Option<CertificateParams>) -> Option<Arc<CertificateNames>> {
    let authority = authority();
    let folder = std::env::temp_dir().join(format!("tollgate-http-names-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let key = KeyPair::generate().unwrap();
    let params_of_server = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let files = TlsFiles {
        cert: write("crt", params_of_server.signed_by(&key, &authority).unwrap().pem()),
        key: write("key", key.serialize_pem()),
        client: Some(ClientFiles { ca: write("ca", authority.pem()), crl: None, required: false }),
    };
    let age = Some(Duration::from_secs(100));
    let tls = Tls::new(TlsContents::load(&files, |path| fs::read(path)).build(age).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();

    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let mut config = match params {
        None => builder.with_no_client_auth(),
        Some(mut params) => {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            let key = KeyPair::generate().unwrap();
            let chain = vec![params.signed_by(&key, &authority).unwrap().der().clone()];
            let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let (socket_of_server, _) = listener.accept().await.unwrap();
    let (client, server) = tokio::join!(
        connector.connect(name, socket),
        tls.accept(socket_of_server, Duration::from_secs(10), "Echo")
    );
    let client = client.unwrap();
    assert_eq!(client.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    fs::remove_dir_all(folder).unwrap();
    server.expect("the handshake is complete").names
}

#[tokio::test]
async fn the_names_of_a_verified_certificate_are_known() {
    let mut params = CertificateParams::new(vec!["backend.acme.svc".to_owned()]).unwrap();
    for uri in ["spiffe://acme/backend/eu", "https://acme.example/x"] {
        params.subject_alt_names.push(SanType::URI(uri.try_into().unwrap()));
    }
    let names = seen(Some(params)).await.expect("a certificate");
    assert_eq!(names.uris, ["spiffe://acme/backend/eu", "https://acme.example/x"]);
    assert_eq!(names.dns, ["backend.acme.svc"]);
    let nameless = seen(Some(CertificateParams::default())).await.expect("a certificate");
    assert_eq!(*nameless, CertificateNames::default());
    assert_eq!(seen(None).await, None);
}

#[test]
fn connections_that_open_together_end_apart() {
    for random in [0.0, 0.5, 1.0] {
        let age = jittered(Duration::from_secs(100), random);
        assert_eq!(age.as_secs_f64().round(), 90.0 + 20.0 * random);
    }
}
