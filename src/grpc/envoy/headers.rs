//! The headers that the proxy adds to its response.

use std::fmt::Write;

use super::super::envoy_pb::HeaderValue;
use tollgate_core::envoy::{DescriptorHits, DescriptorLimit, DescriptorRuling, Headers, Ruling};

fn header(key: &'static str, value: String) -> HeaderValue {
    HeaderValue { key: key.into(), value: value.into() }
}

/// Returns the headers of an answer; none if no limit applies.
pub(super) fn build(
    descriptors: &[DescriptorRuling<'_>],
    ruling: &Ruling,
    headers: Headers,
) -> Vec<HeaderValue> {
    let tightest = ruling.tightest.and_then(|index| limited(&descriptors[index]));
    let Some((limit, hits)) = tightest.filter(|_| headers != Headers::Off) else {
        return Vec::new();
    };
    let mut all = vec![
        header("RateLimit-Limit", limit.requests_per_unit.to_string()),
        header("RateLimit-Remaining", limit.remaining(hits).to_string()),
        header("RateLimit-Reset", hits.left.to_string()),
    ];
    if headers == Headers::Draft {
        let (mut policies, mut limits) = (String::new(), String::new());
        for (limit, hits) in descriptors.iter().filter_map(limited) {
            let name = quoted(limit);
            let separator = if policies.is_empty() { "" } else { ", " };
            let (quota, window) = (limit.requests_per_unit, limit.unit.seconds());
            let (remaining, left) = (limit.remaining(hits), hits.left);
            // Writing to a String cannot fail.
            let _ = write!(policies, "{separator}{name};q={quota};w={window}");
            let _ = write!(limits, "{separator}{name};r={remaining};t={left}");
        }
        all.extend([header("RateLimit-Policy", policies), header("RateLimit", limits)]);
    }
    all
}

fn limited<'d>(
    descriptor: &'d DescriptorRuling<'_>,
) -> Option<(&'d DescriptorLimit<'d>, &'d DescriptorHits)> {
    match descriptor {
        DescriptorRuling::Limited { limit, hits } => Some((limit, hits)),
        _ => None,
    }
}

/// Returns the name of a limit as a string of Structured Fields (RFC 9651): ASCII, with quotes
/// escaped. A rule without a name is named by its path in the file.
fn quoted(limit: &DescriptorLimit<'_>) -> String {
    let name = match limit.rule {
        Some(rule) if rule.name.is_empty() => &*rule.key,
        Some(rule) => &*rule.name,
        None => "override",
    };
    let mut quoted = String::from('"');
    for letter in name.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            ' '..='~' => quoted.push(letter),
            _ => quoted.push('?'),
        }
    }
    quoted.push('"');
    quoted
}
