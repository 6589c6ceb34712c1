//! Dynamic metadata for later filters of the proxy.

use prost_types::{ListValue, Struct, Value, value::Kind};
use serde_json::{Map, Value as Json};

use super::{
    super::envoy_pb::{RateLimitDescriptor, RateLimitRequest},
    parse::text,
};
use tollgate_core::envoy::{DescriptorRuling, RateUnit, Ruling, merge};

fn value(kind: Kind) -> Value {
    Value { kind: Some(kind) }
}

fn string(text: String) -> Value {
    value(Kind::StringValue(text))
}

fn number(number: f64) -> Value {
    value(Kind::NumberValue(number))
}

fn list(values: Vec<Value>) -> Value {
    value(Kind::ListValue(ListValue { values }))
}

fn structure(fields: impl IntoIterator<Item = (String, Value)>) -> Struct {
    Struct { fields: fields.into_iter().collect() }
}

/// Builds the metadata: the request, and the merged metadata of the rules that passed.
pub(super) fn build(
    request: &RateLimitRequest,
    descriptors: &[DescriptorRuling<'_>],
    ruling: &Ruling,
) -> Struct {
    let described = request.descriptors.iter().map(described).collect();
    let mut all = structure([
        ("domain".to_owned(), string(text(&request.domain))),
        ("descriptors".to_owned(), list(described)),
    ]);
    if request.hits_addend != 0 {
        all.fields.insert("hitsAddend".to_owned(), number(request.hits_addend.into()));
    }
    let mut passed = Map::new();
    for index in &ruling.passed {
        if let DescriptorRuling::Limited { limit, .. } = &descriptors[*index]
            && let Some(rule) = limit.rule
        {
            merge(&mut passed, &rule.metadata);
        }
    }
    if !passed.is_empty() {
        all.fields.insert("metadata".to_owned(), converted(&Json::Object(passed)));
    }
    all
}

/// Describes a descriptor: its entries as `KEY=VALUE`, its limit and its hits.
fn described(descriptor: &RateLimitDescriptor) -> Value {
    let entries = descriptor.entries.iter();
    let entries = entries.map(|it| string(format!("{}={}", text(&it.key), text(&it.value))));
    let mut fields = structure([("entries".to_owned(), list(entries.collect()))]);
    if let Some(limit) = &descriptor.limit {
        let unit = RateUnit::from_number(limit.unit).map_or("UNKNOWN", RateUnit::name);
        // Protobuf's text format omits 0.
        let limit = match limit.requests_per_unit {
            0 => format!("unit:{unit}"),
            requests => format!("requests_per_unit:{requests} unit:{unit}"),
        };
        fields.fields.insert("limit".to_owned(), string(limit));
    }
    if let Some(hits) = descriptor.hits_addend {
        fields.fields.insert("hitsAddend".to_owned(), number(hits as f64));
    }
    value(Kind::StructValue(fields))
}

/// Converts metadata from YAML to protobuf.
fn converted(json: &Json) -> Value {
    value(match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(it) => Kind::BoolValue(*it),
        Json::Number(it) => Kind::NumberValue(it.as_f64().unwrap_or_default()),
        Json::String(it) => Kind::StringValue(it.clone()),
        Json::Array(all) => {
            Kind::ListValue(ListValue { values: all.iter().map(converted).collect() })
        }
        Json::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (key.clone(), converted(value)));
            Kind::StructValue(structure(fields))
        }
    })
}
