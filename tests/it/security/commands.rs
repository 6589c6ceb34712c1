//! TLS and tokens of the client commands, and of the Rust client.

use std::{fs, process::Output};

use tollgate_client::{Access, Connection};

use crate::support::{
    certificates::{Authority, Files, Leaf, TlsServer},
    process::tollgate,
};

async fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = tollgate(arguments);
    command.envs(variables.iter().copied());
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns a server that requires client certificates, with the files of a client.
async fn start(ours: &Authority) -> TlsServer {
    let files = Files::new(&ours.server());
    files.write("ca.crt", &ours.pem());
    let Leaf { cert, key } = ours.client("backend", 1);
    files.write("client.crt", &cert);
    files.write("client.key", &key);
    TlsServer::with(files, "client_ca = \"DIR/ca.crt\"\nclient_auth = \"required\"").await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_client_command_calls_over_tls() {
    let ours = Authority::new("ours");
    let server = start(&ours).await;
    let [ca, cert, key] = ["ca.crt", "client.crt", "client.key"].map(|it| server.files.text(it));
    let url = server.url();
    let flags = ["--server", &url, "--tls-ca", &ca, "--tls-cert", &cert, "--tls-key", &key]
        .map(String::from);
    let variables = [
        ("TOLLGATE_SERVER", &*url),
        ("TOLLGATE_TLS_CA", &ca),
        ("TOLLGATE_TLS_CERT", &cert),
        ("TOLLGATE_TLS_KEY", &key),
    ];
    for (command, rest) in [
        ("next order", ""),
        ("rate user:7", ""),
        ("stock set tv 5", ""),
        ("lock nightly", "-- true"),
        ("top --once", ""),
        ("fleet --devices 2 --duration 100ms --task-duration 1ms..2ms", ""),
    ] {
        let words = command.split(' ');
        let mut with_flags: Vec<&str> = words.clone().chain(flags.iter().map(|it| &**it)).collect();
        with_flags.extend(rest.split_whitespace());
        let output = run(&with_flags, &[]).await;
        assert!(output.status.success(), "{command}: {}", errors(&output));

        let with_variables: Vec<&str> = words.chain(rest.split_whitespace()).collect();
        let output = run(&with_variables, &variables).await;
        assert!(output.status.success(), "{command}: {}", errors(&output));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_tls_say_what_to_do() {
    let ours = Authority::new("ours");
    let server = start(&ours).await;
    let [ca, cert] = ["ca.crt", "client.crt"].map(|it| server.files.text(it));
    let (url, plain) = (server.url(), server.server.address());
    let missing = server.files.text("missing");
    let cases: [(&[&str], &str); 5] = [
        (&["--server", &url], "--tls-ca"),
        (&["--server", &url, "--tls-ca", &missing], "missing: No such file"),
        (&["--server", &url, "--tls-ca", &ca, "--tls-cert", &cert], "both or none"),
        (&["--server", &url, "--tls-ca", &ca], "UNAVAILABLE: the server"),
        (&["--server", &plain, "--token-file", &missing], "missing: No such file"),
    ];
    for (flags, expected) in cases {
        let output = run(&[&["next", "order"], flags].concat(), &[]).await;
        assert_eq!(output.status.code(), Some(69), "{flags:?}: {}", errors(&output));
        assert!(errors(&output).contains(expected), "{flags:?}: {}", errors(&output));
    }
}

/// A client that reopens its connection reads its files again, so its certificate can rotate.
#[tokio::test(flavor = "multi_thread")]
async fn a_reopened_connection_has_the_new_certificate() {
    let (ours, next) = (Authority::new("ours"), Authority::new("next"));
    let server = start(&ours).await;
    let [ca, cert, key] = ["ca.crt", "client.crt", "client.key"].map(|it| server.files.path(it));
    server.files.write("roots.crt", &ours.pem());
    let roots = server.files.path("roots.crt");
    let access = Access { ca: Some(roots), cert: Some(cert), key: Some(key), ..Access::default() };
    let connection = Connection::open_with(&server.url(), &access).await.unwrap();
    connection.set_stock("tv", 1).await.unwrap();

    // From now on the server trusts another authority only.
    fs::write(ca, next.pem()).unwrap();
    server.reload().await;
    let refused = connection.reopen().await;
    let refused = match refused {
        Ok(connection) => connection.set_stock("tv", 2).await.is_err(),
        Err(_) => true,
    };
    assert!(refused);
    let Leaf { cert, key } = next.client("backend", 2);
    server.files.write("client.crt", &cert);
    server.files.write("client.key", &key);
    connection.reopen().await.unwrap().set_stock("tv", 3).await.unwrap();
}
