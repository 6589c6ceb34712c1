//! The measured servers: their configuration, and the message and headers of a call.

use std::{
    fs,
    path::{Path, PathBuf},
    process::id,
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use prost::Message;
use rcgen::{CertificateParams, KeyPair};
use ring::{
    digest::{SHA256, digest},
    rand::SystemRandom,
    signature::{Ed25519KeyPair, KeyPair as _},
};
use tollgate_client::{Against, pb};

use crate::process::{Process, serve_by};

const ADMIN: &str = "admin = \"127.0.0.1:0\"\n";
/// No collector answers there; without a sampled call, nothing is sent to it.
const UNSAMPLED: &str = "[otlp]\nendpoint = \"http://127.0.0.1:9\"\n";

/// What a server does besides its decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    Tls,
    Token,
    Namespace,
    /// Like `Namespace`, with limits on the namespace.
    Limited,
    Jwt,
    /// Without metrics and traces.
    Unobserved,
    Metrics,
    /// With metrics and an OTLP endpoint; no call is sampled.
    Traces,
}

impl Kind {
    /// Ways to authenticate callers. The first one is the baseline.
    pub(crate) const ACCESS: &[Kind] =
        &[Kind::Plain, Kind::Tls, Kind::Token, Kind::Namespace, Kind::Limited, Kind::Jwt];
    /// Ways to observe a server. The first one is the baseline.
    pub(crate) const TELEMETRY: &[Kind] = &[Kind::Unobserved, Kind::Metrics, Kind::Traces];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Kind::Plain => "plain text, no callers",
            Kind::Tls => "TLS",
            Kind::Token => "token",
            Kind::Namespace => "token of a namespace",
            Kind::Limited => "the same, with limits",
            Kind::Jwt => "JWT",
            Kind::Unobserved => "no metrics, no traces",
            Kind::Metrics => "metrics",
            Kind::Traces => "metrics, and traces without a sampled call",
        }
    }
}

/// A running server, and its folder.
pub(crate) struct Server {
    pub(crate) kind: Kind,
    pub(crate) url: String,
    /// The header with the credentials of the call.
    pub(crate) authorization: Option<String>,
    folder: PathBuf,
    process: Process,
}

impl Server {
    /// Starts a server of this kind on a free port, embedded or on the Redis of a port.
    pub(crate) fn start(program: &Path, kind: Kind, redis: Option<u16>) -> Server {
        let name = format!("tollgate-trust-{}-{kind:?}-{}", id(), redis.unwrap_or(0));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("message"), message()).unwrap();
        let (config, authorization) = configure(&folder, kind);
        let path = written(&folder, "tollgate.toml", &config);
        let engine =
            redis.map_or("embedded".to_owned(), |port| format!("redis://127.0.0.1:{port}"));
        let (process, url) = serve_by(program, ["--config", &path, "--engine", &engine]);
        let url = if kind == Kind::Tls { url.replace("http:", "https:") } else { url };
        Server { kind, url, authorization, folder, process }
    }

    /// Returns the path of a file in the folder. `message` is the message of each call; `beta` is
    /// the token of the caller in another namespace.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// CPU time of all threads of the server, in µs.
    pub(crate) fn cpu(&self) -> f64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.process.id())).unwrap();
        let nanos = tasks.map(|task| {
            let text = fs::read_to_string(task.unwrap().path().join("schedstat")).unwrap();
            text.split(' ').next().unwrap().parse::<u64>().unwrap()
        });
        nanos.sum::<u64>() as f64 / 1000.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn written(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Returns the configuration of a kind, and the credentials of a call.
fn configure(folder: &Path, kind: Kind) -> (String, Option<String>) {
    let bearer = |token: &str| Some(format!("authorization: Bearer {token}"));
    match kind {
        Kind::Plain => (String::new(), None),
        Kind::Unobserved => ("admin = \"off\"\n".to_owned(), None),
        Kind::Metrics => (ADMIN.to_owned(), None),
        Kind::Traces => (format!("{ADMIN}{UNSAMPLED}"), None),
        Kind::Tls => {
            let key = KeyPair::generate().unwrap();
            let names = vec!["localhost".to_owned()];
            let cert = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
            let cert = written(folder, "tls.crt", &cert.pem());
            let key = written(folder, "tls.key", &key.serialize_pem());
            (format!("[tls]\ncert = \"{cert}\"\nkey = \"{key}\"\n"), None)
        }
        Kind::Token => (caller("load", ""), bearer("token of load")),
        Kind::Namespace | Kind::Limited => {
            written(folder, "beta", "token of beta");
            let callers = caller("acme", "acme") + &caller("beta", "beta");
            let limits = "[[namespace]]\nmatch = \"*\"\nin_flight_max = 256\n";
            let limits = if kind == Kind::Limited { limits } else { "" };
            (callers + limits, bearer("token of acme"))
        }
        Kind::Jwt => {
            let pair = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
            let pair = Ed25519KeyPair::from_pkcs8(pair.as_ref()).unwrap();
            let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
            let key = text(pair.public_key().as_ref());
            let keys = format!(
                r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","kid":"1","x":"{key}"}}]}}"#
            );
            let keys = written(folder, "keys.json", &keys);
            #[allow(clippy::disallowed_methods, reason = "the expiry of a token")]
            let exp = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 86_400;
            let claims = format!(
                r#"{{"iss":"issuer","aud":"tollgate","sub":"load","exp":{exp},"tollgate":[":use"]}}"#
            );
            let signed = text(br#"{"alg":"EdDSA","kid":"1"}"#) + "." + &text(claims.as_bytes());
            let signature = text(pair.sign(signed.as_bytes()).as_ref());
            let config = format!(
                "[jwt]\nissuer = \"issuer\"\naudience = \"tollgate\"\njwks = \"{keys}\"\n\
                 algorithms = [\"EdDSA\"]\n\
                 [[caller]]\nname = \"load\"\njwt = {{ claim = \"sub\", value = \"load\" }}\n\
                 allow = [\"use\"]\n"
            );
            (config, bearer(&format!("{signed}.{signature}")))
        }
    }
}

/// Returns a caller with the token `token of NAME`.
fn caller(name: &str, namespace: &str) -> String {
    let digest = digest(&SHA256, format!("token of {name}").as_bytes());
    let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "[[caller]]\nname = \"{name}\"\ntoken_sha256 = [\"{digest}\"]\nallow = [\"use\"]\n\
         namespace = \"{namespace}\"\n"
    )
}

/// Returns a request against a limit that is never reached.
pub(crate) fn against() -> Against {
    let limit = pb::Limit {
        max: Some(1_000_000_000),
        window: Some(prost_types::Duration { seconds: 3600, nanos: 0 }),
        algorithm: pb::Algorithm::FixedWindow.into(),
        ..pb::Limit::default()
    };
    Against::Rule(pb::Rule { limits: vec![limit], ..pb::Rule::default() })
}

/// Returns the message of a call, with the gRPC prefix.
fn message() -> Vec<u8> {
    let call = pb::CheckRateRequest {
        key: "caller:17".to_owned(),
        against: Some(against()),
        ..pb::CheckRateRequest::default()
    };
    let bytes = call.encode_to_vec();
    [&[0][..], &(bytes.len() as u32).to_be_bytes(), &bytes].concat()
}
