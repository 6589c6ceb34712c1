//! Calls over TLS, with and without client certificates.

use std::{
    env,
    process::{Command, Output},
};

use tollgate_client::pb::AdmitDecision;

use crate::support::{
    certificates::{Authority, Files, Leaf, TlsServer},
    process::{Server, tollgate},
    world::admit,
};

/// Makes a call on a new connection. Fails with the error of the connection or of the call: under
/// TLS 1.3 a refused client learns of the refusal after it has connected.
async fn call(server: &TlsServer, ca: &str, own: Option<&Leaf>) -> Result<(), String> {
    let mut client = server.client(ca, own).await.map_err(|error| format!("{error:?}"))?;
    let answer = client.admit_task(admit("p", "d", "t")).await;
    let answer = answer.map_err(|status| format!("{status:?}"))?.into_inner();
    assert_ne!(answer.decision(), AdmitDecision::Unspecified);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_over_tls_works_and_a_foreign_authority_is_refused() {
    let (ours, foreign) = (Authority::new("ours"), Authority::new("foreign"));
    let server = TlsServer::start(&ours.server(), "").await;
    call(&server, &ours.pem(), None).await.unwrap();
    let error = call(&server, &foreign.pem(), None).await.unwrap_err();
    assert!(error.contains("UnknownIssuer"), "{error}");
    server.files.logged("a TLS handshake has failed", 1).await;
    call(&server, &ours.pem(), None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_and_variables_select_the_files() {
    let ours = Authority::new("ours");
    let files = Files::new(&ours.server());
    files.write("ca.crt", &ours.pem());
    let (cert, key) = (files.text("tls.crt"), files.text("tls.key"));
    let ca = files.text("ca.crt");
    files.write("ca.crl", &ours.revocations(&[7]));
    let crl = files.text("ca.crl");
    let settings = [
        ("--tls-cert", "TOLLGATE_TLS_CERT", &*cert),
        ("--tls-key", "TOLLGATE_TLS_KEY", &key),
        ("--tls-client-ca", "TOLLGATE_TLS_CLIENT_CA", &ca),
        ("--tls-client-auth", "TOLLGATE_TLS_CLIENT_AUTH", "required"),
        ("--tls-crl", "TOLLGATE_TLS_CRL", &crl),
    ];
    let works = async |server: &TlsServer| {
        call(server, &ours.pem(), None).await.unwrap_err();
        call(server, &ours.pem(), Some(&ours.client("seven", 7))).await.unwrap_err();
        call(server, &ours.pem(), Some(&ours.client("eight", 8))).await.unwrap();
    };
    let mut command = tollgate(&["serve", "--listen", "127.0.0.1:0"]);
    command.envs(settings.map(|(_, variable, value)| (variable, value)));
    let server = TlsServer { server: Server::spawn(command).await, files };
    works(&server).await;
    let flags = settings.map(|(flag, _, value)| [flag, value]).concat();
    works(&server.files.serve(&flags).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_certificates_are_verified() {
    let (ours, foreign) = (Authority::new("ours"), Authority::new("foreign"));
    for (mode, without) in [("required", false), ("optional", true), ("off", true)] {
        let files = Files::new(&ours.server());
        files.write("ca.crt", &ours.pem());
        let config = format!("client_ca = \"DIR/ca.crt\"\nclient_auth = \"{mode}\"");
        let server = TlsServer::with(files, &config).await;
        let ca = ours.pem();
        call(&server, &ca, Some(&ours.client("backend", 1))).await.unwrap();
        assert_eq!(call(&server, &ca, None).await.is_ok(), without, "{mode}");
        let other = call(&server, &ca, Some(&foreign.client("backend", 1))).await;
        assert_eq!(other.is_ok(), mode == "off", "{mode}: {other:?}");
        // A certificate for servers does not identify a client.
        let other = call(&server, &ca, Some(&ours.server())).await;
        assert_eq!(other.is_ok(), mode == "off", "{mode}: {other:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_certificate_is_refused() {
    let ours = Authority::new("ours");
    let files = Files::new(&ours.server());
    files.write("ca.crt", &ours.pem());
    files.write("ca.crl", &ours.revocations(&[7]));
    let config = "client_ca = \"DIR/ca.crt\"\nclient_auth = \"required\"\ncrl = \"DIR/ca.crl\"";
    let server = TlsServer::with(files, config).await;
    let (seven, eight) = (ours.client("seven", 7), ours.client("eight", 8));
    call(&server, &ours.pem(), Some(&eight)).await.unwrap();
    call(&server, &ours.pem(), Some(&seven)).await.unwrap_err();
    server.files.logged("Revoked", 1).await;

    // A new list applies to new connections.
    server.files.write("ca.crl", &ours.revocations(&[7, 8]));
    server.reload().await;
    call(&server, &ours.pem(), Some(&eight)).await.unwrap_err();
    call(&server, &ours.pem(), Some(&ours.client("nine", 9))).await.unwrap();
}

/// Returns a server that requires client certificates. Also returns the paths of the authority, and
/// of the certificate and the key of a client.
async fn mutual() -> (TlsServer, [String; 3]) {
    let ours = Authority::new("ours");
    let files = Files::new(&ours.server());
    files.write("ca.crt", &ours.pem());
    let Leaf { cert, key } = ours.client("backend", 1);
    files.write("client.crt", &cert);
    files.write("client.key", &key);
    let config = "client_ca = \"DIR/ca.crt\"\nclient_auth = \"required\"";
    let server = TlsServer::with(files, config).await;
    let paths = ["ca.crt", "client.crt", "client.key"].map(|it| server.files.text(it));
    (server, paths)
}

async fn output(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// grpcurl uses grpc-go with the TLS library of Go.
#[tokio::test(flavor = "multi_thread")]
async fn grpcurl_calls_with_a_client_certificate() {
    let Ok(grpcurl) = env::var("TOLLGATE_TEST_GRPCURL") else {
        println!("skipped: no TOLLGATE_TEST_GRPCURL");
        return;
    };
    let (server, [ca, cert, key]) = mutual().await;
    let address = format!("127.0.0.1:{}", server.server.port);
    let method = "tollgate.v1.SequenceService/NextSequence";
    let call = async |arguments: &[&str]| {
        let mut command = Command::new(&grpcurl);
        command.args(arguments).args(["-d", r#"{"name":"n"}"#, &address, method]);
        output(command).await
    };
    let answered = call(&["-cacert", &ca, "-cert", &cert, "-key", &key]).await;
    assert!(answered.status.success(), "{}", String::from_utf8_lossy(&answered.stderr));
    assert!(!call(&["-cacert", &ca]).await.status.success());
    assert!(!call(&["-plaintext"]).await.status.success());
}

const PYTHON: &str = r#"
import sys
from tollgate import Retry, Tls, blocking
address, ca, *own = sys.argv[1:]
cert, key = own or (None, None)
tls = Tls(ca=ca, cert=cert, key=key)
with blocking.Connection(address, tls=tls, deadline=60, retry=Retry(attempts=1)) as tollgate:
    print(type(tollgate.pool("p").admit("d", "t")).__name__)
"#;

/// Python's grpcio uses the TLS library of gRPC's C core, as do clients in Ruby, PHP and C++.
#[tokio::test(flavor = "multi_thread")]
async fn python_calls_with_a_client_certificate() {
    let Ok(python) = env::var("TOLLGATE_TEST_PYTHON") else {
        println!("skipped: no TOLLGATE_TEST_PYTHON");
        return;
    };
    let (server, [ca, cert, key]) = mutual().await;
    let address = format!("localhost:{}", server.server.port);
    let call = async |files: &[&str]| {
        let mut command = Command::new(&python);
        command.args(["-c", PYTHON, &address]).args(files);
        output(command).await
    };
    let answered = call(&[&ca, &cert, &key]).await;
    let errors = String::from_utf8_lossy(&answered.stderr);
    assert_eq!(String::from_utf8_lossy(&answered.stdout).trim(), "Permit", "{errors}");
    assert!(!call(&[&ca]).await.status.success(), "a client without a certificate is refused");
}
