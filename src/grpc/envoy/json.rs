//! The same service as JSON over HTTP/1.1, like `POST /json` of envoyproxy/ratelimit.

use std::{
    sync::{Arc, LazyLock},
    time::Instant,
};

use hyper::{HeaderMap, StatusCode};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use tonic::Code;

use super::{
    super::envoy_pb::{RateLimitRequest, RateLimitResponse, response},
    EnvoyHandlers,
};
use crate::grpc::{
    access::{Access, Peer},
    reflection::DESCRIPTORS,
    rules::CurrentRules,
    scope::Scope,
};
use tollgate_core::time::monotonic;
use tollgate_engine::Engine;
use tollgate_http::deadline::DEFAULT;

/// Maximum length of a body, bytes.
pub(crate) const BODY_BYTES_MAX: usize = 64 * 1024;
const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

static REQUEST: LazyLock<Option<MessageDescriptor>> = LazyLock::new(|| find("RateLimitRequest"));
static RESPONSE: LazyLock<Option<MessageDescriptor>> = LazyLock::new(|| find("RateLimitResponse"));

fn find(name: &str) -> Option<MessageDescriptor> {
    let pool = DescriptorPool::decode(DESCRIPTORS).ok()?;
    pool.get_message_by_name(&format!("envoy.service.ratelimit.v3.{name}"))
}

/// Answers requests in JSON.
#[derive(Debug)]
pub(crate) struct JsonService {
    handlers: EnvoyHandlers,
    access: Arc<Access>,
}

impl JsonService {
    /// Creates the service.
    pub(crate) fn new(
        engine: Arc<Engine>,
        rules: Arc<CurrentRules>,
        access: Arc<Access>,
    ) -> JsonService {
        JsonService { handlers: EnvoyHandlers::new(engine, rules), access }
    }

    /// Returns the rules as text.
    pub(crate) fn dump(&self) -> String {
        super::rules_of(&self.handlers.rules).dump()
    }

    /// Checks the token of a caller before its body is read. The token is the same as for gRPC. The
    /// error is the answer.
    pub(crate) fn scope(&self, headers: &HeaderMap) -> Result<Scope, (StatusCode, String)> {
        if self.access.is_open() {
            return Ok(Scope::default());
        }
        let granted = self.access.check(PATH, headers, &Peer::new(None));
        granted.map(|granted| granted.scope.unwrap_or_default()).map_err(|error| failed(&error))
    }

    /// Answers a request body: 200 if the request passes, 429 if not. The body of an error is text.
    pub(crate) async fn answer(&self, scope: Scope, body: &[u8]) -> (StatusCode, String) {
        let Some(request) = decoded(body) else {
            return (StatusCode::BAD_REQUEST, "the body is not a RateLimitRequest\n".to_owned());
        };
        let deadline: Instant = monotonic() + DEFAULT;
        let answer = self.handlers.decide(request, scope, deadline).await;
        match answer {
            Err(status) => failed(&status),
            Ok(answer) => {
                let is_over = answer.overall_code == response::Code::OverLimit as i32;
                let status = if is_over { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK };
                match encoded(&answer) {
                    Some(text) => (status, text),
                    None => (
                        StatusCode::INTERNAL_SERVER_ERROR,
                        "the response cannot be encoded \
                        as JSON\n"
                            .to_owned(),
                    ),
                }
            }
        }
    }
}

/// Returns the HTTP status and the body for an error.
fn failed(status: &tonic::Status) -> (StatusCode, String) {
    let code = match status.code() {
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::InvalidArgument => StatusCode::BAD_REQUEST,
        Code::Unimplemented => StatusCode::NOT_FOUND,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (code, format!("{}\n", status.message()))
}

fn decoded(body: &[u8]) -> Option<RateLimitRequest> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let message = DynamicMessage::deserialize(REQUEST.clone()?, &mut json).ok()?;
    json.end().ok()?;
    RateLimitRequest::decode(message.encode_to_vec().as_slice()).ok()
}

fn encoded(answer: &RateLimitResponse) -> Option<String> {
    let bytes = answer.encode_to_vec();
    let message = DynamicMessage::decode(RESPONSE.clone()?, bytes.as_slice()).ok()?;
    serde_json::to_string(&message).ok()
}
