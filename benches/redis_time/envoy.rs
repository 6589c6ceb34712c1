//! Envoy's ShouldRateLimit: no descriptor exceeds its limit.

use envoy_types::pb::envoy::{
    extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor::Entry},
    service::ratelimit::v3::{RateLimitRequest, rate_limit_response::Code},
};

use crate::{keys::name, site::Site};

/// Makes a call whose descriptors have different keys and this value.
pub(crate) async fn call(site: &Site, descriptors: u64, value: u64) {
    let descriptor = |number| {
        let entry = Entry { key: format!("key{number}"), value: name("val:", value) };
        RateLimitDescriptor { entries: vec![entry], ..RateLimitDescriptor::default() }
    };
    let request = RateLimitRequest {
        domain: "bench".into(),
        descriptors: (0..descriptors).map(descriptor).collect(),
        ..RateLimitRequest::default()
    };
    let answer = site.envoy.clone().should_rate_limit(request).await.unwrap().into_inner();
    assert_eq!(answer.statuses.len() as u64, descriptors);
    let codes = answer.statuses.iter().map(|status| status.code());
    assert!(codes.chain([answer.overall_code()]).all(|code| code == Code::Ok), "{answer:?}");
}
