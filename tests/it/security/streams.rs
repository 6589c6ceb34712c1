//! A stream ends when the credentials or the rights of its caller end.

use std::time::Duration;

use tokio::time::timeout;
use tollgate_client::pb::{self, admission_service_client::AdmissionServiceClient};
use tonic::{Code, Request, Streaming, transport::Channel};

use super::{
    callers::{entry, start},
    rotation::reload,
};
use crate::support::{
    access::{Issuer, Token, jwks, reason},
    certificates::TlsServer,
};

/// The server ends such a stream within 10 s; a busy machine may take longer.
const PATIENCE: Duration = Duration::from_secs(60);

async fn watch(server: &TlsServer, bearer: &str) -> Streaming<pb::WatchPoolResponse> {
    let channel = Channel::from_shared(server.server.address()).unwrap().connect().await.unwrap();
    let mut client = AdmissionServiceClient::new(channel);
    let mut request = Request::new(pb::WatchPoolRequest { pool: "p".into(), after: None });
    request.metadata_mut().insert("authorization", bearer.parse().unwrap());
    client.watch_pool(request).await.unwrap().into_inner()
}

/// Waits for the end of a stream.
async fn ended(events: &mut Streaming<pb::WatchPoolResponse>) {
    let end = timeout(PATIENCE, events.message()).await.expect("the stream ends");
    let (code, reason, _) = reason(&end.unwrap_err());
    assert_eq!((code, &*reason), (Code::Unauthenticated, "CREDENTIALS_ENDED"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_when_its_jwt_expires() {
    let issuer = Issuer::new("one");
    let config = "[jwt]\nissuer = \"https://issuer.example\"\naudience = \"tollgate\"\n\
                  jwks = \"DIR/jwks.json\"\nalgorithms = [\"EdDSA\"]\n";
    let files = crate::support::certificates::Files::new(
        &crate::support::certificates::Authority::new("unused").server(),
    );
    files.write("jwks.json", &jwks(&[&issuer]));
    files.write("tollgate.toml", &config.replace("DIR/", &files.text("")));
    let path = files.text("tollgate.toml");
    let server = files.serve(&["--config", &path]).await;
    // Expired 50 s ago: with the permitted skew of 60 s, the token is valid for 10 s more.
    let mut claims = Issuer::claims("svc", -50);
    claims["tollgate"] = serde_json::json!([":read"]);
    let mut events = watch(&server, &issuer.bearer(&claims)).await;
    claims["exp"] = (crate::support::access::now() + 600).into();
    let mut longer = watch(&server, &issuer.bearer(&claims)).await;
    ended(&mut events).await;
    assert!(timeout(Duration::from_millis(100), longer.message()).await.is_err());

    // The key of the other token is removed from the key set.
    server.files.write("jwks.json", &jwks(&[&Issuer::new("two")]));
    reload(&server).await;
    ended(&mut longer).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_when_a_reload_removes_its_caller_or_right() {
    let (stays, goes, changes, renamed) = (Token::new(), Token::new(), Token::new(), Token::new());
    let first = [&stays, &goes, &changes, &renamed].map(|token| entry(&token.text[..8], token));
    let server = start(&first.concat().replace("name = \"-", "name = \"x")).await;
    let mut all = Vec::new();
    for token in [&stays, &goes, &changes, &renamed] {
        all.push(watch(&server, &token.bearer()).await);
    }
    let only_use = entry("c", &changes).replace("\"read\", ", "");
    let other_names = entry("d", &renamed) + "names = [\"p*\"]\n";
    let config = [entry("a", &stays), only_use, other_names].concat();
    server.files.write("tollgate.toml", &config);
    reload(&server).await;
    for events in &mut all[1..] {
        ended(events).await;
    }
    assert!(timeout(Duration::from_millis(100), all[0].message()).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn j11_a_changed_namespace_of_a_caller_is_applied_and_ends_its_streams() {
    let token = Token::new();
    let caller = |namespace: &str| {
        format!(
            "[[caller]]\nname = \"c\"\ntoken_sha256 = [\"{}\"]\nallow = [\"use\", \"read\"]\n\
             namespace = \"{namespace}\"\n",
            token.digest
        )
    };
    let server = start(&caller("acme")).await;
    let mut events = watch(&server, &token.bearer()).await;
    server.files.write("tollgate.toml", &caller("beta"));
    reload(&server).await;
    assert!(
        server.files.log().contains(r#"changed="caller[\"c\"].namespace"#),
        "{}",
        server.files.log()
    );
    ended(&mut events).await;
    let asked = |namespace: &'static str| {
        let (address, bearer) = (server.server.address(), token.bearer());
        async move {
            let channel = Channel::from_shared(address).unwrap().connect().await.unwrap();
            let mut client = AdmissionServiceClient::new(channel);
            let mut request = Request::new(pb::GetPoolRequest { pool: "p".into() });
            request.metadata_mut().insert("authorization", bearer.parse().unwrap());
            request.metadata_mut().insert("x-tollgate-namespace", namespace.parse().unwrap());
            client.get_pool(request).await.map(drop).map_err(|status| reason(&status).1)
        }
    };
    assert_eq!(asked("acme").await, Err("NAMESPACE_NOT_PERMITTED".to_owned()));
    assert_eq!(asked("beta").await, Ok(()));
}
