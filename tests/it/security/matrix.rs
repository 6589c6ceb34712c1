//! Calls every rpc with each kind of wrong credentials and of missing rights.

use prost::Message;
use serde_json::json;
use tollgate_client::pb;
use tonic::{Code, transport::Channel};

use crate::support::{
    access::{Call, Issuer, Token, calls, jwks, reason},
    certificates::{Authority, Files, Leaf, TlsServer},
    world::Undated,
};

/// A server with one caller for each kind of credentials and of rights.
struct Gate {
    server: TlsServer,
    ours: Authority,
    issuer: Issuer,
    admin: Token,
    /// The callers of [`LIMITED`], each with the name of its entry.
    limited: Vec<(&'static str, Token)>,
}

/// Callers that lack a permission, a service, a name or a namespace, each with its rights.
const LIMITED: [(&str, &str); 7] = [
    ("user", r#"allow = ["use"]"#),
    ("reader", r#"allow = ["read"]"#),
    ("manager", r#"allow = ["manage"]"#),
    ("sequences", "allow = [\"use\", \"read\", \"manage\"]\nservices = [\"sequence\"]"),
    ("named", "allow = [\"use\", \"read\", \"manage\"]\nnames = [\"ar:*\"]"),
    ("acme", "allow = [\"use\", \"read\", \"manage\"]\nnamespace = \"acme\""),
    ("anywhere", "allow = [\"use\", \"read\", \"manage\"]\nnamespace = \"*\""),
];

impl Gate {
    async fn open() -> Gate {
        let ours = Authority::new("ours");
        let files = Files::new(&ours.server());
        files.write("ca.crt", &ours.pem());
        files.write("ca.crl", &ours.revocations(&[7]));
        let (issuer, admin) = (Issuer::new("one"), Token::new());
        files.write("jwks.json", &jwks(&[&issuer]));
        let mut config = format!(
            r#"client_ca = "DIR/ca.crt"
client_auth = "optional"
crl = "DIR/ca.crl"
[jwt]
issuer = "https://issuer.example"
audience = "tollgate"
jwks = "DIR/jwks.json"
algorithms = ["EdDSA"]
[[caller]]
name = "admin"
token_sha256 = ["{}"]
allow = ["use", "read", "manage"]
[[caller]]
name = "certified"
mtls = "spiffe://acme/backend*"
allow = ["use", "read", "manage"]
[[caller]]
name = "services"
jwt = {{ claim = "sub", value = "svc-*" }}
allow = ["use", "read", "manage"]
"#,
            admin.digest
        );
        let limited = LIMITED.map(|(name, rights)| {
            let token = Token::new();
            config += &format!(
                "[[caller]]\nname = \"{name}\"\ntoken_sha256 = [\"{}\"]\n{rights}\n",
                token.digest
            );
            (name, token)
        });
        let server = TlsServer::with(files, &config).await;
        Gate { server, ours, issuer, admin, limited: limited.into() }
    }

    async fn channel(&self, own: Option<&Leaf>) -> Channel {
        self.server.channel(&self.ours.pem(), own).await.unwrap()
    }

    /// Returns the answers to all `read` calls in the default namespace and in `acme`. Equal
    /// answers show that nothing was written.
    async fn state(&self, channel: &Channel, name: &str) -> Vec<Result<Vec<u8>, Code>> {
        let mut answers = Vec::new();
        for caller in ["admin", "acme"] {
            let authorization = self.bearer(caller);
            for call in calls(name) {
                // The status has the time since the start.
                if call.permission() == "read" && !call.is_of_server() {
                    let answer = call.make(channel, &[("authorization", &authorization)]).await;
                    let answer = answer.map(|answer| undated(call.method, answer));
                    answers.push(answer.map_err(|status| status.code()));
                }
            }
        }
        answers
    }

    fn bearer(&self, caller: &str) -> String {
        if caller == "admin" {
            return self.admin.bearer();
        }
        self.limited.iter().find(|(name, _)| *name == caller).unwrap().1.bearer()
    }
}

/// Returns the answer to a call without the time that leases have left.
fn undated(method: &str, answer: Vec<u8>) -> Vec<u8> {
    match method {
        "ListLeases" => {
            let mut page = pb::ListLeasesResponse::decode(&*answer).unwrap();
            page.leases.iter_mut().for_each(|lease| lease.expires_in = None);
            page.encode_to_vec()
        }
        "ListLocks" => {
            let mut page = pb::ListLocksResponse::decode(&*answer).unwrap();
            page.locks.iter_mut().for_each(|lock| lock.lease = lock.lease.undated());
            page.encode_to_vec()
        }
        "GetLock" => {
            let mut lock = pb::GetLockResponse::decode(&*answer).unwrap();
            lock.lease = lock.lease.undated();
            lock.encode_to_vec()
        }
        _ => answer,
    }
}

/// Makes a call that must be denied. Returns its message and details for comparison.
async fn denied(
    call: &Call,
    channel: &Channel,
    metadata: &[(&str, &str)],
    expected: (Code, &str),
) -> (String, Vec<u8>) {
    let status = match call.make(channel, metadata).await {
        Ok(_) => panic!("{} was executed with {metadata:?}", call.path()),
        Err(status) => status,
    };
    let (code, why, _) = reason(&status);
    assert_eq!((code, &*why), expected, "{}: {status:?}", call.path());
    (status.message().to_owned(), status.details().to_vec())
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials_are_unauthenticated_in_every_rpc() {
    let gate = Gate::open().await;
    let channel = gate.channel(None).await;
    let before = gate.state(&channel, "ar:1").await;
    let good = Issuer::claims("svc-1", 300);
    let with = |claim: &str, value: serde_json::Value| {
        let mut claims = good.clone();
        claims[claim] = value;
        gate.issuer.bearer(&claims)
    };
    let expired = gate.issuer.bearer(&Issuer::claims("svc-1", -120));
    let early = with("nbf", json!(crate::support::access::now() + 300));
    let wrong = Token::new().bearer();
    let (stranger, forger) = (Issuer::new("two"), Issuer::new("one"));
    let mut tampered = gate.issuer.bearer(&good);
    tampered.pop();
    let cases: [(Option<&str>, &str); 14] = [
        (None, "CREDENTIALS_MISSING"),
        (Some(&wrong), "TOKEN_UNKNOWN"),
        (Some("Bearer x"), "TOKEN_UNKNOWN"),
        (Some("Basic dXNlcjpwYXNz"), "AUTHORIZATION_MALFORMED"),
        (Some("Bearer "), "AUTHORIZATION_MALFORMED"),
        (Some(""), "AUTHORIZATION_MALFORMED"),
        (Some(&expired), "JWT_EXPIRED"),
        (Some(&early), "JWT_NOT_YET_VALID"),
        (Some(&with("aud", json!("other"))), "JWT_AUDIENCE_WRONG"),
        (Some(&with("iss", json!("https://other"))), "JWT_ISSUER_WRONG"),
        (Some(&stranger.bearer(&good)), "JWT_KEY_UNKNOWN"),
        (Some(&forger.bearer(&good)), "JWT_INVALID"),
        (Some(&tampered), "JWT_INVALID"),
        (Some(&with("sub", json!("other"))), "CALLER_UNKNOWN"),
    ];
    for (authorization, reason) in cases {
        let metadata: Vec<_> = authorization.map(|it| ("authorization", it)).into_iter().collect();
        for (call, other) in calls("ar:1").iter().zip(calls("ar:2")) {
            let expected = (Code::Unauthenticated, reason);
            let one = denied(call, &channel, &metadata, expected).await;
            assert_eq!(one, denied(&other, &channel, &metadata, expected).await);
        }
    }
    // Two `authorization` values are refused, even if one of them is valid.
    let both = [("authorization", &*wrong), ("authorization", &gate.admin.bearer())];
    let malformed = (Code::Unauthenticated, "AUTHORIZATION_MALFORMED");
    denied(&calls("ar:1")[0], &channel, &both, malformed).await;
    assert_eq!(gate.state(&channel, "ar:1").await, before, "something was written");
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_identify_callers_and_foreign_ones_call_nothing() {
    let gate = Gate::open().await;
    let channel = gate.channel(None).await;
    let before = gate.state(&channel, "ar:1").await;
    // The authority is trusted, but no `[[caller]]` has the name in the certificate.
    let other = gate.channel(Some(&gate.ours.client("frontend", 1))).await;
    for call in calls("ar:1") {
        denied(&call, &other, &[], (Code::Unauthenticated, "CALLER_UNKNOWN")).await;
    }
    let foreign = Authority::new("foreign").client("backend", 1);
    let revoked = gate.ours.client("backend", 7);
    for leaf in [&foreign, &revoked] {
        // Under TLS 1.3 a client learns of its refusal after it has connected.
        if let Ok(channel) = gate.server.channel(&gate.ours.pem(), Some(leaf)).await {
            for call in calls("ar:1") {
                call.make(&channel, &[]).await.unwrap_err();
            }
        }
    }
    assert_eq!(gate.state(&channel, "ar:1").await, before, "something was written");
    let known = gate.channel(Some(&gate.ours.client("backend", 1))).await;
    for call in calls("ar:1") {
        let answer = call.make(&known, &[]).await;
        let code = answer.map_or_else(|status| status.code(), |_| Code::Ok);
        let is_denied = [Code::Unauthenticated, Code::PermissionDenied].contains(&code);
        assert!(!is_denied, "{}: {code:?}", call.path());
        // With a token, the certificate does not count.
        let wrong = Token::new().bearer();
        let expected = (Code::Unauthenticated, "TOKEN_UNKNOWN");
        denied(&call, &known, &[("authorization", &wrong)], expected).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_rights_are_denied_in_every_rpc() {
    let gate = Gate::open().await;
    let channel = gate.channel(None).await;
    // Under the first name there is an entry of every kind, under the second one there is none.
    let (there, missing) = ("x:1", "x:2");
    let admin = gate.bearer("admin");
    for call in calls(there) {
        let _ = call.make(&channel, &[("authorization", &admin)]).await;
    }
    let before = gate.state(&channel, there).await;
    let mut denials = 0;
    for (call, other) in calls(there).iter().zip(calls(missing)) {
        for (caller, _) in LIMITED {
            let authorization = gate.bearer(caller);
            let mut metadata = vec![("authorization", &*authorization)];
            let permission = (Code::PermissionDenied, "PERMISSION_MISSING");
            let expected = match caller {
                "user" if call.permission() != "use" => permission,
                "reader" if call.permission() != "read" => permission,
                "manager" if call.permission() != "manage" => permission,
                "sequences" if call.service != "SequenceService" => {
                    (Code::PermissionDenied, "SERVICE_NOT_PERMITTED")
                }
                "named" | "acme" if call.is_of_server() => {
                    (Code::PermissionDenied, "SERVICE_NOT_PERMITTED")
                }
                "named" if call.is_named() => (Code::PermissionDenied, "NAME_NOT_PERMITTED"),
                "acme" => {
                    metadata.push(("x-tollgate-namespace", "beta"));
                    (Code::PermissionDenied, "NAMESPACE_NOT_PERMITTED")
                }
                "anywhere" => {
                    metadata.push(("x-tollgate-namespace", "not a namespace"));
                    (Code::InvalidArgument, "NAMESPACE_MALFORMED")
                }
                _ => continue,
            };
            denials += 1;
            let one = denied(call, &channel, &metadata, expected).await;
            assert_eq!(one, denied(&other, &channel, &metadata, expected).await, "{caller}");
        }
    }
    assert!(denials > 5 * calls(there).len(), "{denials}");
    assert_eq!(gate.state(&channel, there).await, before, "something was written");
    let status = calls(there)[0].make(&channel, &[("authorization", &gate.bearer("reader"))]).await;
    let metadata = reason(&status.unwrap_err()).2;
    assert_eq!(metadata["permission"], "use");
}

#[tokio::test(flavor = "multi_thread")]
async fn granted_rights_are_sufficient() {
    let gate = Gate::open().await;
    let channel = gate.channel(None).await;
    let service = gate.issuer.bearer(&Issuer::claims("svc-1", 300));
    let mut claims = Issuer::claims("somebody", 300);
    claims["tollgate"] = json!(["acme:use", "acme:read", "beta:manage"]);
    let granted = gate.issuer.bearer(&claims);
    for call in calls("ar:1") {
        let mut allowed = vec![
            (gate.bearer("admin"), ""),
            (gate.bearer("anywhere"), "beta"),
            (service.clone(), ""),
        ];
        if call.is_of_server() {
            allowed.push(match call.permission() {
                "read" => (gate.bearer("reader"), ""),
                _ => (gate.bearer("manager"), ""),
            });
            all_may(&call, &channel, &allowed).await;
            let expected = (Code::PermissionDenied, "SERVICE_NOT_PERMITTED");
            denied(&call, &channel, &[("authorization", &*granted)], expected).await;
            continue;
        }
        allowed.extend([
            (gate.bearer("named"), ""),
            (gate.bearer("acme"), ""),
            (gate.bearer("acme"), "acme"),
        ]);
        allowed.extend(match call.permission() {
            "use" => [(gate.bearer("user"), ""), (granted.clone(), "acme")],
            "read" => [(gate.bearer("reader"), ""), (granted.clone(), "acme")],
            _ => [(gate.bearer("manager"), ""), (granted.clone(), "beta")],
        });
        all_may(&call, &channel, &allowed).await;
        let namespace = if call.permission() == "manage" { "acme" } else { "beta" };
        let metadata = [("authorization", &*granted), ("x-tollgate-namespace", namespace)];
        denied(&call, &channel, &metadata, (Code::PermissionDenied, "PERMISSION_MISSING")).await;
        let metadata = [("authorization", &*granted), ("x-tollgate-namespace", "gamma")];
        let expected = (Code::PermissionDenied, "NAMESPACE_NOT_PERMITTED");
        denied(&call, &channel, &metadata, expected).await;
    }
}

/// Makes a call with each of these credentials and namespaces; none of them may be denied.
async fn all_may(call: &Call, channel: &Channel, allowed: &[(String, &str)]) {
    for (authorization, namespace) in allowed {
        let mut metadata = vec![("authorization", &**authorization)];
        metadata.extend((!namespace.is_empty()).then_some(("x-tollgate-namespace", *namespace)));
        let answer = call.make(channel, &metadata).await;
        let code = answer.map_or_else(|status| status.code(), |_| Code::Ok);
        let is_denied = [Code::Unauthenticated, Code::PermissionDenied].contains(&code);
        assert!(!is_denied, "{} in `{namespace}`: {code:?}", call.path());
    }
}
