//! Callers of a server: tokens, issuers of JWT, and one call of every rpc.

use std::{collections::HashMap, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::{Buf, BufMut};
use prost::Message;
use ring::{
    rand::SystemRandom,
    signature::{Ed25519KeyPair, KeyPair},
};
use serde_json::{Value, json};
use tollgate::grpc::access::{Digest, generate};
use tollgate_client::pb;
use tollgate_core::time::Clock;
use tonic::{
    Code, Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    transport::Channel,
};
use tonic_types::StatusExt;

use crate::support::requests::*;

/// A new token, and the digest for the configuration.
pub struct Token {
    pub text: String,
    pub digest: String,
}

impl Token {
    pub fn new() -> Token {
        let text = generate().unwrap();
        let digest = Digest::compute(text.as_bytes()).hex();
        Token { text, digest }
    }

    pub fn bearer(&self) -> String {
        format!("Bearer {}", self.text)
    }
}

/// An issuer of JSON Web Tokens (JWT) with one key.
pub struct Issuer {
    kid: String,
    pair: Ed25519KeyPair,
}

pub const ISSUER: &str = "https://issuer.example";
pub const AUDIENCE: &str = "tollgate";

/// Returns the time in seconds since 1970.
pub fn now() -> u64 {
    Clock::system().now().0 / 1_000_000
}

impl Issuer {
    pub fn new(kid: &str) -> Issuer {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap();
        Issuer { kid: kid.to_owned(), pair }
    }

    /// Returns the key in a key set.
    pub fn jwk(&self) -> Value {
        let x = URL_SAFE_NO_PAD.encode(self.pair.public_key());
        json!({"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": self.kid, "x": x})
    }

    /// Claims that expire after this number of seconds. The server accepts them 60 s longer.
    pub fn claims(subject: &str, seconds: i64) -> Value {
        let exp = now().saturating_add_signed(seconds);
        json!({"iss": ISSUER, "aud": AUDIENCE, "sub": subject, "exp": exp})
    }

    /// Returns the value of `authorization` with a token of these claims.
    pub fn bearer(&self, claims: &Value) -> String {
        let header = json!({"alg": "EdDSA", "typ": "JWT", "kid": self.kid});
        let [header, claims] = [&header, claims].map(|it| URL_SAFE_NO_PAD.encode(it.to_string()));
        let message = format!("{header}.{claims}");
        let signature = URL_SAFE_NO_PAD.encode(self.pair.sign(message.as_bytes()));
        format!("Bearer {message}.{signature}")
    }
}

/// Returns a key set as JSON.
pub fn jwks(issuers: &[&Issuer]) -> String {
    let keys: Vec<Value> = issuers.iter().map(|issuer| issuer.jwk()).collect();
    json!({"keys": keys}).to_string()
}

/// A call of an rpc.
#[derive(Clone)]
pub struct Call {
    pub service: &'static str,
    pub method: &'static str,
    body: Vec<u8>,
}

impl Call {
    #[allow(clippy::needless_pass_by_value, reason = "most requests are made for the call")]
    pub fn new(service: &'static str, method: &'static str, request: impl Message) -> Call {
        Call { service, method, body: request.encode_to_vec() }
    }

    pub fn path(&self) -> String {
        format!("/tollgate.v1.{}/{}", self.service, self.method)
    }

    pub fn permission(&self) -> &'static str {
        const MANAGE: &str = "ConfigurePool EvictTask RequeueTask ResetRate Ban Unban SetSequenceFloor \
                              SetStock AddStock ReloadConfig AcceptStoreLoss";
        match self.method {
            method if MANAGE.split(' ').any(|it| it == method) => "manage",
            method if ["Get", "List", "Watch"].iter().any(|it| method.starts_with(it)) => "read",
            _ => "use",
        }
    }

    /// Whether the request names a pool, policy, key, sequence, lock or sku, and fails if its
    /// caller may not use it. Requests of a batch fail individually.
    pub fn is_named(&self) -> bool {
        let others = ["ListPools", "ListPolicies", "AdmitTasks", "CompleteTasks", "RenewTasks"];
        !others.contains(&self.method) && !self.is_walk() && !self.is_of_server()
    }

    /// Whether the call is a step of a walk through the store. Its first page can be empty.
    pub fn is_walk(&self) -> bool {
        ["ListLocks", "ListSequences", "ListStock"].contains(&self.method)
    }

    /// Whether the call is about the whole server, and not about a namespace.
    pub fn is_of_server(&self) -> bool {
        self.service == "AdminService"
    }

    /// Makes the call. Returns its first message; empty bytes for a watch.
    pub async fn make(
        &self,
        channel: &Channel,
        metadata: &[(&str, &str)],
    ) -> Result<Vec<u8>, Status> {
        let mut request = Request::new(tokio_stream::once(self.body.clone()));
        // Long, so that a busy machine does not matter.
        request.set_timeout(Duration::from_secs(30));
        for (key, value) in metadata {
            let key = tonic::metadata::MetadataKey::from_bytes(key.as_bytes()).unwrap();
            request.metadata_mut().append(key, value.parse().unwrap());
        }
        let mut client = Grpc::new(channel.clone());
        client.ready().await.map_err(|error| Status::unavailable(format!("{error:?}")))?;
        let path = self.path().parse().unwrap();
        let mut answer = client.streaming(request, path, Raw).await?.into_inner();
        if self.method.starts_with("Watch") {
            return Ok(Vec::new());
        }
        Ok(answer.message().await?.unwrap_or_default())
    }
}

/// Returns the reason in the details of an error, and its metadata.
pub fn reason(status: &Status) -> (Code, String, HashMap<String, String>) {
    let info = status.get_details_error_info();
    let (reason, metadata) = info.map(|info| (info.reason, info.metadata)).unwrap_or_default();
    (status.code(), reason, metadata)
}

/// Returns one call of every rpc about a name.
pub fn calls(name: &str) -> Vec<Call> {
    let name = || name.to_owned();
    let mut calls = admission(&name);
    calls.extend(rates(&name));
    calls.extend(others(&name));
    calls
}

fn admission(name: &dyn Fn() -> String) -> Vec<Call> {
    let (service, n) = ("AdmissionService", &*name());
    let tasks = vec![pb::QueuedTask {
        device_id: "d".into(),
        task_id: "queued".into(),
        ..pb::QueuedTask::default()
    }];
    vec![
        Call::new(service, "AdmitTask", admit(n, "d", "t")),
        Call::new(service, "CompleteTask", complete(n, "d", "t")),
        Call::new(service, "RenewTask", renew(n, "d", "t")),
        Call::new(
            service,
            "AdmitTasks",
            pb::AdmitTasksRequest { requests: vec![admit(n, "d", "t"), admit(n, "e", "t")] },
        ),
        Call::new(
            service,
            "CompleteTasks",
            pb::CompleteTasksRequest { requests: vec![complete(n, "d", "t")] },
        ),
        Call::new(
            service,
            "RenewTasks",
            pb::RenewTasksRequest { requests: vec![renew(n, "e", "t"), renew(n, "d", "t")] },
        ),
        Call::new(service, "EnqueueTasks", pb::EnqueueTasksRequest { pool: name(), tasks }),
        Call::new(
            service,
            "CancelTask",
            pb::CancelTaskRequest { pool: name(), device_id: "d".into(), task_id: "t".into() },
        ),
        Call::new(service, "GetPool", pb::GetPoolRequest { pool: name() }),
        Call::new(service, "ListPools", pb::ListPoolsRequest::default()),
        Call::new(
            service,
            "ListLeases",
            pb::ListLeasesRequest { pool: name(), ..pb::ListLeasesRequest::default() },
        ),
        Call::new(
            service,
            "ListTasks",
            pb::ListTasksRequest { pool: name(), state: 1, ..pb::ListTasksRequest::default() },
        ),
        Call::new(service, "WatchPool", pb::WatchPoolRequest { pool: name(), after: None }),
        Call::new(service, "ConfigurePool", capacity(n, 3)),
        Call::new(service, "EvictTask", evict(n, "d", "t")),
        Call::new(
            service,
            "RequeueTask",
            pb::RequeueTaskRequest { pool: name(), device_id: "d".into(), task_id: "t".into() },
        ),
    ]
}

fn rates(name: &dyn Fn() -> String) -> Vec<Call> {
    let service = "RateService";
    let rule = pb::Rule {
        limits: vec![pb::Limit {
            max: Some(2),
            window: Some(seconds(60.0)),
            ..pb::Limit::default()
        }],
        ..pb::Rule::default()
    };
    let check = pb::CheckRateRequest {
        key: name(),
        against: Some(pb::check_rate_request::Against::Rule(rule)),
        ..pb::CheckRateRequest::default()
    };
    let checks = vec![check.clone()];
    vec![
        Call::new(service, "CheckRate", check),
        Call::new(service, "CheckRates", pb::CheckRatesRequest { checks }),
        Call::new(service, "GetKey", pb::GetKeyRequest { key: "k".into(), policy: name() }),
        Call::new(
            service,
            "ListBans",
            pb::ListBansRequest { policy: name(), ..pb::ListBansRequest::default() },
        ),
        Call::new(service, "ListPolicies", pb::ListPoliciesRequest {}),
        Call::new(service, "WatchRates", pb::WatchRatesRequest { policy: name(), after: None }),
        Call::new(
            service,
            "ResetRate",
            pb::ResetRateRequest { key: name(), policy: String::new() },
        ),
        Call::new(
            service,
            "Ban",
            pb::BanRequest {
                key: name(),
                duration: Some(seconds(60.0)),
                ..pb::BanRequest::default()
            },
        ),
        Call::new(service, "Unban", pb::UnbanRequest { key: name(), policy: String::new() }),
    ]
}

fn others(name: &dyn Fn() -> String) -> Vec<Call> {
    let owner = || "owner".to_owned();
    let [sequence, lock, stock] = ["SequenceService", "LockService", "StockService"];
    let admin = "AdminService";
    let order = || "order".to_owned();
    vec![
        Call::new(
            sequence,
            "NextSequence",
            pb::NextSequenceRequest { name: name(), ..pb::NextSequenceRequest::default() },
        ),
        Call::new(sequence, "GetSequence", pb::GetSequenceRequest { name: name() }),
        Call::new(sequence, "ListSequences", pb::ListSequencesRequest::default()),
        Call::new(
            sequence,
            "SetSequenceFloor",
            pb::SetSequenceFloorRequest { name: name(), floor: Some(2) },
        ),
        Call::new(
            lock,
            "AcquireLock",
            pb::AcquireLockRequest {
                name: name(),
                owner: owner(),
                ..pb::AcquireLockRequest::default()
            },
        ),
        Call::new(
            lock,
            "RenewLock",
            pb::RenewLockRequest {
                name: name(),
                owner: owner(),
                ..pb::RenewLockRequest::default()
            },
        ),
        Call::new(
            lock,
            "ReleaseLock",
            pb::ReleaseLockRequest { name: name(), owner: owner(), fencing_token: None },
        ),
        Call::new(lock, "GetLock", pb::GetLockRequest { name: name() }),
        Call::new(lock, "ListLocks", pb::ListLocksRequest::default()),
        Call::new(
            stock,
            "ReserveStock",
            pb::ReserveStockRequest {
                sku: name(),
                order_id: order(),
                quantity: 1,
                ..pb::ReserveStockRequest::default()
            },
        ),
        Call::new(
            stock,
            "ConfirmReservation",
            pb::ConfirmReservationRequest { sku: name(), order_id: order() },
        ),
        Call::new(
            stock,
            "CancelReservation",
            pb::CancelReservationRequest { sku: name(), order_id: order() },
        ),
        Call::new(stock, "GetStock", pb::GetStockRequest { sku: name() }),
        Call::new(stock, "ListStock", pb::ListStockRequest::default()),
        Call::new(stock, "SetStock", pb::SetStockRequest { sku: name(), on_hand: Some(9) }),
        Call::new(
            stock,
            "AddStock",
            pb::AddStockRequest { sku: name(), delta: 1, ..pb::AddStockRequest::default() },
        ),
        Call::new(admin, "GetStatus", pb::GetStatusRequest {}),
        Call::new(admin, "ReloadConfig", pb::ReloadConfigRequest { dry_run: true }),
        Call::new(admin, "AcceptStoreLoss", pb::AcceptStoreLossRequest {}),
    ]
}

/// A codec that passes encoded messages through.
#[derive(Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut item = vec![0; buffer.remaining()];
        buffer.copy_to_slice(&mut item);
        Ok(Some(item))
    }
}
