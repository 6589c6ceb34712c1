//! Protobuf's JSON format, for `--output json`.
//!
//! A result is the response of the RPC, or an element of a listing. Keys are the field names of the
//! contract in lowerCamelCase. Unset fields have their default, except for those that the contract
//! describes as absent, which are omitted. 64-bit integers are strings, because JSON numbers cannot
//! represent all of them.

use std::sync::LazyLock;

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde_json::{Serializer, Value};

use tollgate_telemetry::text::escaped_json;

static DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
static CONTRACT: LazyLock<Option<DescriptorPool>> =
    LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS).ok());

/// Formats a message of `tollgate.v1` as one line. `name` is its name in the contract.
pub fn message(name: &str, message: &impl Message) -> String {
    let text = transcoded(name, message);
    debug_assert!(text.is_some(), "no message {name}");
    escaped_json(&text.unwrap_or_default()).into_owned()
}

fn transcoded(name: &str, message: &impl Message) -> Option<String> {
    let descriptor = CONTRACT.as_ref()?.get_message_by_name(&format!("tollgate.v1.{name}"))?;
    let message = DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice()).ok()?;
    let mut text = Vec::new();
    let options = SerializeOptions::new().skip_default_fields(false);
    message.serialize_with_options(&mut Serializer::new(&mut text), &options).ok()?;
    String::from_utf8(text).ok()
}

/// Formats a result that is not a message of the contract as one line.
pub fn object(value: &Value) -> String {
    escaped_json(&value.to_string()).into_owned()
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;
    use tollgate_client::pb;

    use super::*;

    #[test]
    fn a_message_has_all_keys_but_those_of_absent_fields() {
        let lease = pb::Lease {
            pool: "p".to_owned(),
            device_id: "d\u{202e}".to_owned(),
            fencing_token: 1 << 60,
            grant_time: Some(Timestamp { seconds: 1_763_711_100, nanos: 500_000_000 }),
            ..pb::Lease::default()
        };
        assert_eq!(
            message("Lease", &lease),
            r#"{"pool":"p","deviceId":"d\u202e","taskId":"","fencingToken":"1152921504606846976","grantTime":"2025-11-21T07:45:00.500Z"}"#
        );
        let evicted =
            pb::EvictTaskResponse { verdict: pb::EvictVerdict::Evicted.into(), replayed: false };
        assert_eq!(
            message("EvictTaskResponse", &evicted),
            r#"{"verdict":"EVICT_VERDICT_EVICTED","replayed":false}"#
        );
    }
}
