//! Converts rulings to responses.

use super::{
    super::envoy_pb::{
        RateLimitRequest, RateLimitResponse,
        response::{Code, DescriptorStatus, RateLimit},
    },
    headers, metadata,
};
use tollgate_core::envoy::{DescriptorRuling, EnvoyRules, EnvoySettings, Ruling};

/// Builds the response to a request whose domain has no rules: each descriptor is OK.
pub(super) fn without_domain(request: &RateLimitRequest, rules: &EnvoyRules) -> RateLimitResponse {
    let none = request.descriptors.iter().map(|_| DescriptorRuling::NoLimit);
    let none: Vec<_> = none.collect();
    response(request, &none, &Ruling::from_descriptors(&none, &rules.settings), &rules.settings)
}

/// Builds the response.
pub(super) fn response(
    request: &RateLimitRequest,
    descriptors: &[DescriptorRuling<'_>],
    ruling: &Ruling,
    settings: &EnvoySettings,
) -> RateLimitResponse {
    let code = if ruling.is_over { Code::OverLimit } else { Code::Ok };
    RateLimitResponse {
        overall_code: code.into(),
        statuses: descriptors.iter().map(status).collect(),
        response_headers_to_add: headers::build(descriptors, ruling, settings.headers),
        dynamic_metadata: settings
            .dynamic_metadata
            .then(|| metadata::build(request, descriptors, ruling)),
    }
}

/// Returns the status of a descriptor.
fn status(descriptor: &DescriptorRuling<'_>) -> DescriptorStatus {
    let ok = || DescriptorStatus { code: Code::Ok.into(), ..DescriptorStatus::default() };
    match descriptor {
        DescriptorRuling::NoLimit => ok(),
        DescriptorRuling::Unlimited => DescriptorStatus { limit_remaining: u32::MAX, ..ok() },
        DescriptorRuling::Limited { limit, hits } => {
            let code = if limit.refuses(hits) { Code::OverLimit } else { Code::Ok };
            let left = i64::try_from(hits.left).unwrap_or(i64::MAX);
            DescriptorStatus {
                code: code.into(),
                current_limit: Some(RateLimit {
                    requests_per_unit: limit.requests_per_unit,
                    unit: limit.unit as i32,
                    name: limit.name().as_bytes().to_vec().into(),
                }),
                limit_remaining: limit.remaining(hits),
                duration_until_reset: Some(prost_types::Duration { seconds: left, nanos: 0 }),
            }
        }
    }
}
