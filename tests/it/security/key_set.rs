//! Key sets that the server fetches from an https URL.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::sleep,
};
use tokio_rustls::TlsAcceptor;
use tonic::transport::Channel;

use super::rotation::call;
use crate::support::{
    access::{Issuer, jwks, reason},
    certificates::{Authority, Files, RELOADED, TlsServer},
    process::run,
};

/// Ends a document whose bytes are sent one after another, with pauses between them.
const SLOW: &str = "slow";

/// An https server that returns a key set.
struct KeyServer {
    port: u16,
    /// The whole HTTP response; if it is empty, the server sends none.
    answer: Arc<Mutex<String>>,
    /// The number of connections so far.
    connections: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl KeyServer {
    async fn start(ca: &Authority, answer: String) -> KeyServer {
        let leaf = ca.server();
        let chain = vec![CertificateDer::from_pem_slice(leaf.cert.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(leaf.key.as_bytes()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let answer = Arc::new(Mutex::new(answer));
        let (answers, connections) = (answer.clone(), Arc::<AtomicUsize>::default());
        let counted = connections.clone();
        let serving = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                let (acceptor, answer) = (acceptor.clone(), answers.lock().clone());
                tokio::spawn(serve(acceptor, socket, answer));
            }
        });
        KeyServer { port, answer, connections, serving }
    }

    /// Returns the section `[jwt]` with the URL of this server.
    fn section(&self) -> String {
        format!(
            "[jwt]\nissuer = \"https://issuer.example\"\naudience = \"tollgate\"\n\
             jwks = \"https://localhost:{}/keys\"\njwks_ca = \"DIR/keys-ca.pem\"\n\
             jwks_refresh = \"1s\"\nalgorithms = [\"EdDSA\"]\n",
            self.port
        )
    }
}

async fn serve(acceptor: TlsAcceptor, socket: TcpStream, answer: String) {
    let Ok(mut stream) = acceptor.accept(socket).await else { return };
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        request.push(byte);
    }
    let request = String::from_utf8(request).unwrap();
    assert!(request.starts_with("GET /keys HTTP/1.1\r\n"), "{request}");
    if answer.is_empty() {
        sleep(Duration::from_secs(60)).await;
    }
    let (length, pause) = if answer.ends_with(SLOW) {
        (1, Duration::from_millis(500))
    } else {
        (usize::MAX, Duration::ZERO)
    };
    for part in answer.as_bytes().chunks(length) {
        let _ = stream.write_all(part).await;
        sleep(pause).await;
    }
    let _ = stream.shutdown().await;
}

fn ok(document: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{document}", document.len())
}

/// Returns the files of a server with this `[jwt]` section.
fn files(ca: &Authority, section: &str) -> Files {
    let files = Files::new(&Authority::new("unused").server());
    files.write("keys-ca.pem", &ca.pem());
    files.write("tollgate.toml", &section.replace("DIR", &files.text(".")));
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_set_at_a_url_rotates_and_outlives_its_server() {
    let (old, new) = (Issuer::new("old"), Issuer::new("new"));
    let ca = Authority::new("keys");
    let keys = KeyServer::start(&ca, ok(&jwks(&[&old]))).await;
    let files = files(&ca, &keys.section());
    let path = files.text("tollgate.toml");
    let server: TlsServer = files.serve(&["--config", &path]).await;
    let channel = Channel::from_shared(server.server.address()).unwrap().connect().await.unwrap();
    let mut claims = Issuer::claims("svc", 600);
    claims["tollgate"] = serde_json::json!([":use"]);
    call(&channel, &old.bearer(&claims)).await.unwrap();

    *keys.answer.lock() = ok(&jwks(&[&new]));
    server.files.logged(RELOADED, 1).await;
    call(&channel, &new.bearer(&claims)).await.unwrap();
    let refused = call(&channel, &old.bearer(&claims)).await.unwrap_err();
    assert_eq!(reason(&refused).1, "JWT_KEY_UNKNOWN");

    *keys.answer.lock() = ok("{}");
    server.files.logged("not a JSON key set", 1).await;
    *keys.answer.lock() = "HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n".to_owned();
    server.files.logged("cannot fetch the key set", 1).await;
    keys.serving.abort();
    server.files.logged("cannot fetch the key set", 2).await;
    call(&channel, &new.bearer(&claims)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_does_not_start_without_its_key_set() {
    let (ours, foreign) = (Authority::new("keys"), Authority::new("foreign"));
    let issuer = Issuer::new("one");
    let redirect = "HTTP/1.1 302 Found\r\nlocation: http://localhost/\r\n\r\n".to_owned();
    let large = ok(&format!("{{\"keys\":[]{}}}", " ".repeat(1 << 20)));
    let cases = [
        (&foreign, ok(&jwks(&[&issuer])), "invalid peer certificate"),
        (&ours, redirect, "expected the status 200, got 302"),
        (&ours, large, "expected at most 1048576 bytes"),
        (&ours, ok("[]"), "not a JSON key set"),
        (&ours, "SSH-2.0-x\r\n".to_owned(), "invalid HTTP"),
        (&ours, String::new(), "no complete response within 10s"),
        (&ours, ok(SLOW), "no complete response within 10s"),
    ];
    for (trusted, answer, reason) in cases {
        let keys = KeyServer::start(&ours, answer).await;
        let files = files(trusted, &keys.section());
        let path = files.text("tollgate.toml");
        let output = run(&["serve", "--listen", "127.0.0.1:0", "--config", &path]).await;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(78), "{errors}");
        for expected in ["tollgate.toml: jwt.jwks = \"https://localhost:", reason] {
            assert!(errors.contains(expected), "no `{expected}` in {errors}");
        }
    }
}

/// A start fetches the key set once. Later a server of key sets that does not answer delays no
/// reload: the reload succeeds while the same fetch is still waiting.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_server_of_key_sets_delays_no_reload() {
    let (ca, issuer) = (Authority::new("keys"), Issuer::new("one"));
    let keys = KeyServer::start(&ca, ok(&jwks(&[&issuer]))).await;
    let often = keys.section();
    let files = files(&ca, &often.replace("\"1s\"", "\"1h\""));
    let path = files.text("tollgate.toml");
    let server = files.serve(&["--config", &path]).await;
    server.reload().await;
    let fetches = || keys.connections.load(Ordering::SeqCst);
    assert_eq!(fetches(), 1, "the start fetches once, and a reload does not fetch");

    *keys.answer.lock() = String::new();
    let folder = server.files.text(".");
    server.files.write("tollgate.toml", &often.replace("DIR", &folder));
    server.reload().await;
    let waits = async {
        while fetches() < 2 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waits).await.expect("the key set is fetched");
    server.reload().await;
    assert_eq!(fetches(), 2, "the reload waited for the fetch");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_authorities_is_reported_under_their_key() {
    let ca = Authority::new("keys");
    let keys = KeyServer::start(&ca, String::new()).await;
    for (text, reason) in [("no PEM", "no authority"), ("", "no authority")] {
        let files = files(&ca, &keys.section());
        files.write("keys-ca.pem", text);
        let path = files.text("tollgate.toml");
        let output = run(&["serve", "--listen", "127.0.0.1:0", "--config", &path]).await;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(78), "{errors}");
        for expected in ["jwt.jwks_ca = \"", "keys-ca.pem", reason, "(line 5)"] {
            assert!(errors.contains(expected), "no `{expected}` in {errors}");
        }
    }
}
