//! Configurations of TLS that are refused at start.

use crate::support::{
    certificates::{Authority, Files},
    process::run,
};

#[tokio::test(flavor = "multi_thread")]
async fn bad_files_are_refused_with_key_file_and_reason() {
    let (ours, foreign) = (Authority::new("ours"), Authority::new("foreign"));
    let leaf = ours.server();
    let client = "client_ca = \"DIR/ca.crt\"\nclient_auth = \"required\"";
    let with_crl = format!("{client}\ncrl = \"DIR/ca.crl\"");
    let other_key = foreign.server().key;
    let expired = ours.expired();
    // Files to replace (`-` removes one), keys of [tls], and what the error names.
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a str, &'a str);
    let cases: &[Case] = &[
        (&[("tls.crt", "-")], "", "tls.cert = ", "No such file"),
        (&[("tls.key", "-")], "", "tls.key = ", "No such file"),
        (&[("tls.crt", "")], "", "tls.cert = ", "no PEM certificate in the file"),
        (&[("tls.crt", &leaf.key)], "", "tls.cert = ", "no PEM certificate in the file"),
        (&[("tls.key", "")], "", "tls.key = ", "no private key"),
        (&[("tls.key", &leaf.cert)], "", "tls.key = ", "no private key"),
        (&[("tls.key", &other_key)], "", "tls.key = ", "not the key of tls.cert"),
        (
            &[("tls.crt", &expired.cert), ("tls.key", &expired.key)],
            "",
            "tls.cert = ",
            "the certificate expired at 2020-01-02T00:00:00Z",
        ),
        (&[("ca.crt", "-")], client, "tls.client_ca = ", "No such file"),
        (&[("ca.crt", "no PEM")], client, "tls.client_ca = ", "no PEM certificate"),
        (&[("ca.crl", "-")], &with_crl, "tls.crl = ", "No such file"),
        (&[("ca.crl", "")], &with_crl, "tls.crl = ", "no PEM revocation list"),
        (&[], "client_auth = \"required\"", "tls.client_ca", "tls.client_auth requires it"),
        (&[], "client_ca = \"DIR/ca.crt\"", "tls.client_auth", "expected \"optional\""),
        (&[], "client_auth = \"maybe\"", "client_auth", "`off`, `optional`"),
        (&[], "max_connection_age = \"0s\"", "tls.max_connection_age", "1s to 30days"),
        (&[], "ca = \"x\"", "ca", "unknown field"),
    ];
    for (changes, more, key, reason) in cases {
        let files = Files::new(&leaf);
        files.write("ca.crt", &ours.pem());
        files.write("ca.crl", &ours.revocations(&[]));
        for (name, text) in *changes {
            match *text {
                "-" => std::fs::remove_file(files.path(name)).unwrap(),
                text => files.write(name, text),
            }
        }
        let config = files.configure(more);
        let output = run(&["serve", "--listen", "127.0.0.1:0", "--config", &config]).await;
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{changes:?} {more}: {errors}");
        assert!(errors.contains(key) && errors.contains(reason), "{changes:?} {more}: {errors}");
        assert!(!errors.contains("PRIVATE"), "{errors}");
        let is_of_file = changes.iter().all(|_| errors.contains(&files.text("")));
        assert!(is_of_file, "the error names no file: {errors}");
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_others_can_read_is_a_warning() {
    use std::{fs, os::unix::fs::PermissionsExt};

    use crate::support::certificates::TlsServer;

    let ours = Authority::new("ours");
    for (mode, warns) in [(0o644, true), (0o600, false)] {
        let files = Files::new(&ours.server());
        fs::set_permissions(files.path("tls.key"), fs::Permissions::from_mode(mode)).unwrap();
        let server = TlsServer::with(files, "").await;
        server.client(&ours.pem(), None).await.unwrap();
        let log = server.files.log();
        assert_eq!(log.contains("other users can access the private key"), warns, "{log}");
    }
}
