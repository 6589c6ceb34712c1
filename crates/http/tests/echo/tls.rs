//! TLS, and the replacement of its certificates.

use std::{fs, path::PathBuf, process, sync::Arc};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};
use tollgate_http::{
    TransportLimits, frame,
    tls::{Tls, TlsContents, TlsFiles, TlsGeneration},
};
use tonic::Response;

use crate::{
    program::Words,
    server::{Server, raw, send},
};

/// A certificate authority, and the server certificate that it has signed.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn generation(&self, name: &str) -> TlsGeneration {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let cert = params.signed_by(&key, &self.0).unwrap();
        let folder = std::env::temp_dir().join(format!("tollgate-echo-{name}-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |file: &str, text: String| -> PathBuf {
            let path = folder.join(file);
            fs::write(&path, text).unwrap();
            path
        };
        let (cert, key) = (write("cert", cert.pem()), write("key", key.serialize_pem()));
        let files = TlsFiles { cert, key, client: None };
        let contents = TlsContents::load(&files, |path| fs::read(path));
        let generation = contents.build(None).unwrap();
        fs::remove_dir_all(folder).unwrap();
        generation
    }

    /// Connects a client that trusts this authority only.
    async fn connect(&self, server: &Server) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let socket = TcpStream::connect(server.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, socket).await
    }
}

#[tokio::test]
async fn new_connections_use_replaced_certificates() {
    let message = || {
        let words = Words { payload: "a".into(), delay_millis: 0 };
        frame(Response::new(words)).into_inner()
    };
    let (first, second) = (Authority::new(), Authority::new());
    let tls = Tls::new(first.generation("first"));
    let server = Server::start(TransportLimits::DEFAULT, Some(tls.clone())).await;
    let mut open = raw(first.connect(&server).await.unwrap()).await;
    assert_eq!(send(&mut open, message(), true).await.status(), 200);

    tls.replace(second.generation("second"));
    assert!(first.connect(&server).await.is_err());
    let mut new = raw(second.connect(&server).await.unwrap()).await;
    assert_eq!(send(&mut new, message(), true).await.status(), 200);
    assert_eq!(send(&mut open, message(), true).await.status(), 200, "open connections continue");
}
