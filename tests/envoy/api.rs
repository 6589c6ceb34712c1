//! Envoy's messages, written down from its own files and not generated from those of Tollgate: a
//! wrong number or type in `proto/envoy` fails here.

use prost::Message;
use tonic::{IntoRequest, Status, client::Grpc, transport::Channel};
use tonic_prost::ProstCodec;

pub const OK: i32 = 1;
pub const OVER: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub struct RateLimitRequest {
    #[prost(string, tag = "1")]
    pub domain: String,
    #[prost(message, repeated, tag = "2")]
    pub descriptors: Vec<Descriptor>,
    #[prost(uint32, tag = "3")]
    pub hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<Entry>,
    #[prost(message, optional, tag = "2")]
    pub limit: Option<Override>,
    /// google.protobuf.UInt64Value
    #[prost(message, optional, tag = "3")]
    pub hits_addend: Option<Hits>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Hits {
    #[prost(uint64, tag = "1")]
    pub value: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Entry {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Override {
    #[prost(uint32, tag = "1")]
    pub requests_per_unit: u32,
    #[prost(int32, tag = "2")]
    pub unit: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct RateLimitResponse {
    #[prost(int32, tag = "1")]
    pub overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    pub statuses: Vec<DescriptorStatus>,
    #[prost(message, repeated, tag = "3")]
    pub response_headers_to_add: Vec<Header>,
    #[prost(message, optional, tag = "6")]
    pub dynamic_metadata: Option<prost_types::Struct>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DescriptorStatus {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(message, optional, tag = "2")]
    pub current_limit: Option<RateLimit>,
    #[prost(uint32, tag = "3")]
    pub limit_remaining: u32,
    #[prost(message, optional, tag = "4")]
    pub duration_until_reset: Option<prost_types::Duration>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RateLimit {
    #[prost(uint32, tag = "1")]
    pub requests_per_unit: u32,
    #[prost(int32, tag = "2")]
    pub unit: i32,
    #[prost(string, tag = "3")]
    pub name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Header {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

/// Returns a descriptor of `KEY=VALUE` entries with commas between them.
pub fn descriptor(text: &str) -> Descriptor {
    let entry = |entry: &str| {
        let (key, value) = entry.split_once('=').unwrap_or((entry, ""));
        Entry { key: key.into(), value: value.into() }
    };
    Descriptor { entries: text.split(',').map(entry).collect(), ..Descriptor::default() }
}

/// Returns a descriptor with its own number of hits.
pub fn hits(text: &str, hits: u64) -> Descriptor {
    Descriptor { hits_addend: Some(Hits { value: hits }), ..descriptor(text) }
}

/// Returns a request about these descriptors.
pub fn request(domain: &str, descriptors: &[Descriptor]) -> RateLimitRequest {
    RateLimitRequest {
        domain: domain.into(),
        descriptors: descriptors.to_vec(),
        ..RateLimitRequest::default()
    }
}

/// Makes a call.
pub async fn should_rate_limit(
    channel: &Channel,
    request: impl IntoRequest<RateLimitRequest>,
) -> Result<RateLimitResponse, Status> {
    let mut client = Grpc::new(channel.clone());
    client.ready().await.map_err(|error| Status::unknown(format!("{error:?}")))?;
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    let codec: ProstCodec<RateLimitRequest, RateLimitResponse> = ProstCodec::default();
    let answer = client.unary(request.into_request(), path.parse().unwrap(), codec).await?;
    Ok(answer.into_inner())
}
