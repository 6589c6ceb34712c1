//! Callers in the configuration, `tollgate token`, health, reflection, and callers with grpcurl.

use std::{env, process::Command};

use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::support::{
    access::{Token, calls, reason},
    certificates::{Authority, Files, TlsServer},
    process::{done, run},
};

/// Returns a server without TLS, with this configuration.
pub async fn start(config: &str) -> TlsServer {
    let files = Files::new(&Authority::new("unused").server());
    files.write("tollgate.toml", &config.replace("DIR", &files.text("")));
    let path = files.text("tollgate.toml");
    files.serve(&["--config", &path]).await
}

/// Returns a `[[caller]]` entry with all permissions.
pub fn entry(name: &str, token: &Token) -> String {
    let digest = &token.digest;
    format!(
        "[[caller]]\nname = \"{name}\"\ntoken_sha256 = [\"{digest}\"]\n\
         allow = [\"use\", \"read\", \"manage\"]\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_printed_token_is_accepted_by_its_digest() {
    let printed = done(&["token"]).await;
    let value = |key: &str| {
        let line = printed.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    let token = Token { text: value("token:"), digest: value("token_sha256:") };
    assert_ne!(done(&["token"]).await, printed);
    let server = start(&entry("one", &token)).await;
    server.files.write("token", &format!("{}\n", token.text));
    let (address, file) = (server.server.address(), server.files.text("token"));
    let output = run(&["next", "order", "--server", &address, "--token-file", &file]).await;
    assert!(output.status.success());
    let output = run(&["next", "order", "--server", &address]).await;
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("UNAUTHENTICATED"));
    // The log contains no token.
    assert!(!server.files.log().contains(&token.text));
}

#[tokio::test(flavor = "multi_thread")]
async fn health_needs_no_credentials_and_reflection_as_configured() {
    let token = Token::new();
    let entry = entry("one", &token);
    let open = "reflection = \"open\"\n";
    for (config, without, with) in [
        (String::new(), true, true),
        ("reflection = \"off\"\n".to_owned(), false, false),
        (entry.clone(), false, true),
        (format!("{open}{entry}"), true, true),
        (format!("reflection = \"callers\"\n{entry}"), false, true),
        (format!("reflection = \"off\"\n{entry}"), false, false),
    ] {
        let server = start(&config).await;
        let channel = tonic::transport::Endpoint::from_shared(server.server.address()).unwrap();
        let channel = channel.connect().await.unwrap();
        let mut health = HealthClient::new(channel.clone());
        health.check(HealthCheckRequest::default()).await.unwrap();
        let Ok(grpcurl) = env::var("TOLLGATE_TEST_GRPCURL") else { continue };
        let address = format!("127.0.0.1:{}", server.server.port);
        let header = format!("authorization: {}", token.bearer());
        for (headers, expected) in [(vec![], without), (vec!["-H", &header], with)] {
            let mut command = Command::new(&grpcurl);
            command.arg("-plaintext").args(headers).args([&address, "list"]);
            let output = tokio::task::spawn_blocking(move || command.output().unwrap());
            let listed = output.await.unwrap().status.success();
            assert_eq!(listed, expected, "{config}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn grpcurl_calls_with_an_authorization_header() {
    let Ok(grpcurl) = env::var("TOLLGATE_TEST_GRPCURL") else {
        println!("skipped: no TOLLGATE_TEST_GRPCURL");
        return;
    };
    let token = Token::new();
    let server = start(&entry("one", &token)).await;
    let address = format!("127.0.0.1:{}", server.server.port);
    let call = async |bearer: String| {
        let mut command = Command::new(&grpcurl);
        command.args(["-plaintext", "-H", &format!("authorization: {bearer}")]);
        command.args(["-d", r#"{"name":"n"}"#, &address]);
        command.arg("tollgate.v1.SequenceService/NextSequence");
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    };
    assert!(call(token.bearer()).await.status.success());
    let refused = call(Token::new().bearer()).await;
    assert!(!refused.status.success());
    let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(errors.contains("TOKEN_UNKNOWN") || errors.contains("Unauthenticated"), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_callers_serves_everybody() {
    let server = start("").await;
    let channel = tonic::transport::Endpoint::from_shared(server.server.address()).unwrap();
    let channel = channel.connect().await.unwrap();
    let wrong = Token::new().bearer();
    for call in calls("x") {
        let answer = call.make(&channel, &[("authorization", &wrong)]).await;
        if let Err(status) = answer {
            let code = reason(&status).0;
            assert!(![Code::Unauthenticated, Code::PermissionDenied].contains(&code), "{status:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_callers_are_refused_with_file_key_and_reason() {
    let (one, two) = (Token::new().digest, Token::new().digest);
    let weak = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let caller = |name: &str, more: &str| format!("[[caller]]\nname = \"{name}\"\n{more}\n");
    let token = |digest: &str| format!("token_sha256 = [\"{digest}\"]\nallow = [\"use\"]");
    let good = token(&one);
    let with = |more: &str| caller("a", &format!("{good}\n{more}"));
    let pair = |first: &str, second: &str| caller("a", first) + &caller("b", second);
    let mtls = |pattern: &str| format!("mtls = \"{pattern}\"\nallow = [\"use\"]");
    let jwt = |value: &str| {
        format!("jwt = {{ claim = \"sub\", value = \"{value}\" }}\nallow = [\"use\"]")
    };
    let section = |more: &str| format!("[jwt]\nissuer = \"i\"\naudience = \"a\"\n{more}\n");
    let section_of = |jwks: &str| section(&format!("jwks = \"{jwks}\"\nalgorithms = [\"ES256\"]"));
    let cases = [
        (caller("", &good), "caller[0].name", "1 to 64 characters"),
        (caller("a b", &good), "caller[0].name", "1 to 64 characters"),
        (caller("a", &good) + &caller("a", &token(&two)), "caller[1].name", "the same name"),
        (caller("a", "allow = [\"use\"]"), "caller[0].name", "token_sha256, mtls or jwt"),
        (caller("a", &token(&one[1..])), "caller[0].token_sha256", "64 hexadecimal digits"),
        (caller("a", &token(&"x".repeat(64))), "caller[0].token_sha256", "64 hexadecimal digits"),
        (caller("a", &token(weak)), "caller[0].token_sha256", "weak token"),
        (caller("a", &token(&"0".repeat(64))), "caller[0].token_sha256", "weak token"),
        (pair(&good, &good), "caller[1].token_sha256", "the caller `a` has the same digest"),
        (caller("a", &good.replace("\"use\"", "\"write\"")), "caller[0].allow", "\"write\": exp"),
        (caller("a", &good.replace("\"use\"", "")), "caller[0].allow", "expected"),
        (with("services = [\"rates\"]"), "caller[0].services", "\"rates\": expected"),
        (with("services = []"), "caller[0].services", "expected one or more of"),
        (with("names = []"), "caller[0].names", "permits no name"),
        (with("names = [\"\"]"), "caller[0].names", "never empty"),
        (with("names = [\"a\\n*\"]"), "caller[0].names", "control characters"),
        (with("names = [\"[a\"]"), "caller[0].names", "not a glob"),
        (with(&format!("names = [\"{}\"]", "x".repeat(257))), "caller[0].names", "longer than any"),
        (with("namespace = \"a/b\""), "caller[0].namespace", "1 to 64 bytes"),
        (with("role = \"x\""), "role", "unknown field"),
        (caller("a", &mtls("backend")), "caller[0].mtls", "expected a SPIFFE ID"),
        (caller("a", &mtls("spiffe://*/x")), "caller[0].mtls", "without a wildcard"),
        (caller("a", &mtls("spiffe://acme/[ab]")), "caller[0].mtls", "only `*` is a wildcard"),
        (caller("a", &mtls("dns:")), "caller[0].mtls", "no DNS name"),
        (caller("a", &mtls("dns:a/b")), "caller[0].mtls", "no DNS name"),
        (
            pair(&mtls("spiffe://acme/*"), &mtls("spiffe://acme/a/*")),
            "caller[1].mtls",
            "the caller `a` can have the same certificate",
        ),
        (caller("a", &mtls("spiffe://acme/a")), "caller[0].mtls", "requires tls.client_ca"),
        (caller("a", &jwt("x")), "caller[0].jwt", "requires the section [jwt]"),
        (
            section_of("DIR/jwks") + &pair(&jwt("a*"), &jwt("*b")),
            "caller[1].jwt",
            "can have the same JWT",
        ),
        (section_of("DIR/missing"), "jwt.jwks", "No such file"),
        (section_of("DIR/tls.crt"), "jwt.jwks", "not a JSON key set"),
        (section_of("http://issuer/jwks"), "jwt.jwks", "expected a URL such as \"https://"),
        (section_of("https://user:secret@issuer/"), "jwt.jwks", "expected a URL such as"),
        (
            section("jwks = \"x\"\njwks_ca = \"y\"\nalgorithms = [\"ES256\"]"),
            "jwt.jwks_ca",
            "https",
        ),
        (
            section("jwks = \"https://i/\"\njwks_refresh = \"2d\"\nalgorithms = [\"ES256\"]"),
            "jwt.jwks_refresh",
            "1s to 1day",
        ),
        (section("jwks = \"x\"\nalgorithms = []"), "jwt.algorithms", "expected one or more of"),
        (section("jwks = \"x\"\nalgorithms = [\"HS256\"]"), "jwt.algorithms", "\"HS256\""),
        (section("jwks = \"x\"\nalgorithms = [\"none\"]"), "jwt.algorithms", "\"none\""),
        ("reflection = \"callers\"".to_owned(), "reflection", "requires a [[caller]]"),
        ("reflection = \"maybe\"".to_owned(), "reflection", "unknown variant"),
    ];
    for (config, key, reason) in cases {
        let files = Files::new(&Authority::new("unused").server());
        let key_set = r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"1",
            "x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
            "y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;
        files.write("jwks", key_set);
        files.write("tollgate.toml", &config.replace("DIR/", &files.text("")));
        let path = files.text("tollgate.toml");
        let output = run(&["serve", "--listen", "127.0.0.1:0", "--config", &path]).await;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(78), "{config}: {errors}");
        for expected in [key, reason] {
            assert!(errors.contains(expected), "{config}: no `{expected}` in {errors}");
        }
        assert!(errors.contains("tollgate.toml"), "{config}: {errors}");
        for secret in [&one, weak, "user:secret"] {
            assert!(!errors.contains(secret), "{config}: {errors}");
        }
    }
}

/// If the configuration has a token in place of its digest, the error must not show the token.
#[tokio::test(flavor = "multi_thread")]
async fn errors_of_the_file_quote_no_token() {
    let token = Token::new();
    let text = &token.text;
    for value in [format!("\"{text}\""), format!("[\"{text}\", 5]"), format!("[\n\"{text}\", 5\n]")]
    {
        let config = format!("[[caller]]\nname = \"a\"\nallow = [\"use\"]\ntoken_sha256 = {value}");
        let files = Files::new(&Authority::new("unused").server());
        files.write("tollgate.toml", &config);
        let output = run(&["check-config", &files.text("tollgate.toml")]).await;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(78), "{errors}");
        assert!(!errors.contains(&token.text), "{errors}");
    }
}
