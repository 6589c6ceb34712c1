//! The messages are encoded like those of Envoy's own proto files, which `envoy-types` contains.

use envoy_types::pb::{
    envoy::{
        config::core::v3::HeaderValue,
        extensions::common::ratelimit::v3::{
            RateLimitDescriptor,
            rate_limit_descriptor::{Entry, RateLimitOverride},
        },
        service::ratelimit::v3::{
            RateLimitRequest, RateLimitResponse,
            rate_limit_response::{DescriptorStatus, RateLimit},
        },
    },
    google::protobuf::{Duration, Struct, UInt64Value, Value, value::Kind},
};
use prost::Message;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::grpc::envoy_pb as ours;

const MESSAGES: usize = 2000;

fn text(random: &mut ChaCha8Rng) -> String {
    let length = random.random_range(0..20);
    (0..length).map(|_| random.random_range('a'..'ÿ')).collect()
}

fn some<T>(random: &mut ChaCha8Rng, make: impl FnOnce(&mut ChaCha8Rng) -> T) -> Option<T> {
    random.random_bool(0.5).then(|| make(random))
}

fn list<T>(random: &mut ChaCha8Rng, mut make: impl FnMut(&mut ChaCha8Rng) -> T) -> Vec<T> {
    let length = random.random_range(0..4);
    (0..length).map(|_| make(random)).collect()
}

/// Returns a number of random length, often 0.
fn number(random: &mut ChaCha8Rng) -> u64 {
    random.random::<u64>().checked_shr(random.random_range(0..70)).unwrap_or(0)
}

fn request(random: &mut ChaCha8Rng) -> RateLimitRequest {
    let descriptor = |random: &mut ChaCha8Rng| RateLimitDescriptor {
        entries: list(random, |random| Entry { key: text(random), value: text(random) }),
        limit: some(random, |random| RateLimitOverride {
            requests_per_unit: number(random) as u32,
            unit: random.random_range(0..9),
        }),
        hits_addend: some(random, |random| UInt64Value { value: number(random) }),
        is_negative_hits: false,
    };
    RateLimitRequest {
        domain: text(random),
        descriptors: list(random, descriptor),
        hits_addend: number(random) as u32,
    }
}

fn response(random: &mut ChaCha8Rng) -> RateLimitResponse {
    let status = |random: &mut ChaCha8Rng| DescriptorStatus {
        code: random.random_range(0..3),
        current_limit: some(random, |random| RateLimit {
            name: text(random),
            requests_per_unit: number(random) as u32,
            unit: random.random_range(0..8),
        }),
        limit_remaining: number(random) as u32,
        duration_until_reset: some(random, |random| Duration {
            seconds: number(random) as i64,
            nanos: 0,
        }),
        ..DescriptorStatus::default()
    };
    // Only one field, because the order of several depends on a map.
    let metadata = |random: &mut ChaCha8Rng| Struct {
        fields: [(text(random), Value { kind: Some(Kind::StringValue(text(random))) })].into(),
    };
    RateLimitResponse {
        overall_code: random.random_range(0..3),
        statuses: list(random, status),
        response_headers_to_add: list(random, |random| HeaderValue {
            key: text(random),
            value: text(random),
            ..HeaderValue::default()
        }),
        dynamic_metadata: some(random, metadata),
        ..RateLimitResponse::default()
    }
}

/// Checks that each side decodes the other's bytes and encodes them unchanged.
fn agree<T, O>(theirs: &T)
where
    T: Message + Default + PartialEq + std::fmt::Debug,
    O: Message + Default,
{
    let bytes = theirs.encode_to_vec();
    let ours = O::decode(&*bytes).expect("our messages decode theirs").encode_to_vec();
    assert_eq!(bytes, ours, "{theirs:?}");
    assert_eq!(T::decode(&*ours).as_ref(), Ok(theirs));
}

#[test]
fn messages_are_encoded_like_envoys_own() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for _ in 0..MESSAGES {
        agree::<_, ours::RateLimitRequest>(&request(&mut random));
        agree::<_, ours::RateLimitResponse>(&response(&mut random));
    }
}
