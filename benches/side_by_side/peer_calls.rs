//! Calls of the peers. The messages have only the fields that are sent, with the numbers of
//! the peers' .proto files.

use crate::call::{Call, NUMBER, first_is};

/// The limit in all calls: never reached.
const ROOM: i64 = 1_000_000_000;

fn key() -> String {
    format!("key:{NUMBER}")
}

#[derive(Clone, PartialEq, prost::Message)]
struct ThrottleRequest {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(int32, tag = "2")]
    max_burst: i32,
    #[prost(int32, tag = "3")]
    count_per_period: i32,
    /// In seconds.
    #[prost(int32, tag = "4")]
    period: i32,
    #[prost(int32, tag = "5")]
    quantity: i32,
}

/// `Throttle`, a GCRA.
pub(crate) fn throttlecrab() -> Call {
    let (max_burst, count_per_period) = (ROOM as i32, ROOM as i32);
    let message =
        ThrottleRequest { key: key(), max_burst, count_per_period, period: 3600, quantity: 1 };
    Call::new("/throttlecrab.RateLimiter/Throttle", &message, first_is::<1>)
}

#[derive(Clone, PartialEq, prost::Message)]
struct GetRateLimitsRequest {
    #[prost(message, repeated, tag = "1")]
    requests: Vec<RateLimit>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RateLimit {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    unique_key: String,
    #[prost(int64, tag = "3")]
    hits: i64,
    #[prost(int64, tag = "4")]
    limit: i64,
    /// In ms.
    #[prost(int64, tag = "5")]
    duration: i64,
}

/// `GetRateLimits` of one limit; the default algorithm counts in windows.
pub(crate) fn gubernator() -> Call {
    let request = RateLimit {
        name: "bench".into(),
        unique_key: key(),
        hits: 1,
        limit: ROOM,
        duration: 3_600_000,
    };
    let message = GetRateLimitsRequest { requests: vec![request] };
    Call::new("/pb.gubernator.V1/GetRateLimits", &message, under_limit)
}

/// Accepts one response without an error: status 0 is not sent, so the limit is the first field. A
/// response with an error has no limit.
fn under_limit(message: &[u8]) -> bool {
    matches!(message, [0x0a, _, 0x10, ..])
}

#[derive(Clone, PartialEq, prost::Message)]
struct RateLimitRequest {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<Descriptor>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// Envoy's `ShouldRateLimit`, which two peers serve; OK is 1.
pub(crate) fn rate_limit_service() -> Call {
    should_rate_limit(&["key".to_owned()], &key(), first_is::<1>)
}

/// `ShouldRateLimit` with a descriptor for each of these keys.
pub(crate) fn should_rate_limit(keys: &[String], value: &str, accepts: fn(&[u8]) -> bool) -> Call {
    let entry = |key: &String| Entry { key: key.clone(), value: value.to_owned() };
    let descriptor = |key| Descriptor { entries: vec![entry(key)] };
    let message = RateLimitRequest {
        domain: "bench".into(),
        descriptors: keys.iter().map(descriptor).collect(),
    };
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    Call::new(path, &message, accepts)
}
