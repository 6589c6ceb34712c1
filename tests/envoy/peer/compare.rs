//! Compares two answers.

use prost_types::{Struct, Value, value::Kind};
use tonic::Status;

use crate::api::{DescriptorStatus, RateLimitResponse};

/// Seconds that two servers may differ in the end of a window: they answer one after the other.
const SECONDS: i64 = 30;

type Answer = Result<RateLimitResponse, Status>;

/// Fails with a description if the answers differ.
pub fn compare(theirs: Answer, ours: Answer) -> Result<(), String> {
    let (theirs, ours) = match (theirs, ours) {
        (Err(_), Err(_)) => return Ok(()),
        (Ok(theirs), Ok(ours)) => (theirs, ours),
        (theirs, ours) => return Err(format!("one fails: theirs {theirs:?}\nours {ours:?}")),
    };
    let differ = |what: &str| Err(format!("{what} differs\ntheirs {theirs:#?}\nours {ours:#?}"));
    if theirs.overall_code != ours.overall_code || theirs.statuses.len() != ours.statuses.len() {
        return differ("overall_code");
    }
    for (their, our) in theirs.statuses.iter().zip(&ours.statuses) {
        if !is_same(their, our) {
            return differ("a status");
        }
    }
    let headers = |answer: &RateLimitResponse| -> Vec<(String, String)> {
        let headers = answer.response_headers_to_add.iter();
        let kept = headers.filter(|header| header.key != "RateLimit-Reset");
        kept.map(|header| (header.key.clone(), header.value.clone())).collect()
    };
    let count = |answer: &RateLimitResponse| answer.response_headers_to_add.len();
    if headers(&theirs) != headers(&ours) || count(&theirs) != count(&ours) {
        return differ("a header");
    }
    if theirs.dynamic_metadata.as_ref().map(normal) != ours.dynamic_metadata.as_ref().map(normal) {
        differ("dynamic_metadata")
    } else {
        Ok(())
    }
}

fn is_same(theirs: &DescriptorStatus, ours: &DescriptorStatus) -> bool {
    let seconds = |status: &DescriptorStatus| status.duration_until_reset.map(|left| left.seconds);
    let is_near = match (seconds(theirs), seconds(ours)) {
        (Some(theirs), Some(ours)) => (theirs - ours).abs() <= SECONDS,
        (theirs, ours) => theirs == ours,
    };
    let without = |status: &DescriptorStatus| DescriptorStatus {
        duration_until_reset: None,
        ..status.clone()
    };
    is_near && without(theirs) == without(ours)
}

/// Returns the metadata without the parts that depend on the peer's version: the text of a limit
/// has random spaces, and older versions have other keys for quotas and no name for the unit WEEK.
fn normal(metadata: &Struct) -> Struct {
    let fields = metadata.fields.iter().filter(|(key, _)| !key.starts_with("quotaMode"));
    Struct { fields: fields.map(|(key, value)| (key.clone(), normal_value(value))).collect() }
}

fn normal_value(value: &Value) -> Value {
    let kind = match &value.kind {
        Some(Kind::StringValue(text)) => {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            Kind::StringValue(text.replace("unit:7", "unit:WEEK"))
        }
        Some(Kind::StructValue(fields)) => Kind::StructValue(normal(fields)),
        Some(Kind::ListValue(list)) => Kind::ListValue(prost_types::ListValue {
            values: list.values.iter().map(normal_value).collect(),
        }),
        other => return Value { kind: other.clone() },
    };
    Value { kind: Some(kind) }
}
