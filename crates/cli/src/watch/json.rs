//! An event in protobuf's JSON format on one line, as grpcurl prints it.

use serde_json::{Value, json};
use tollgate_client::{Outcome, PoolEvent};

use super::line::{micros, name};
use tollgate_telemetry::text::escaped_json;

/// Formats an event as a JSON object. 64-bit numbers are strings, because JSON numbers cannot
/// represent all of them.
pub(super) fn json(event: &PoolEvent) -> String {
    let outcome = Some(event.outcome()).filter(|outcome| *outcome != Outcome::Unspecified);
    object(json!({
        "cursor": event.cursor,
        "kind": format!("POOL_EVENT_KIND_{}", name(event)),
        "deviceId": event.device_id,
        "taskId": event.task_id,
        "fencingToken": Some(event.fencing_token).filter(|it| *it > 0).map(|it| it.to_string()),
        "attempt": Some(event.attempt).filter(|attempt| *attempt > 0),
        "outcome": outcome.map(|outcome| outcome.as_str_name()),
        "eventTime": micros(event.event_time),
        "capacity": event.capacity,
    }))
}

/// Formats an event with these fields, omitting empty ones like protobuf's JSON format.
pub(super) fn object(fields: Value) -> String {
    escaped_json(&json!({ "event": without_empty(fields) }).to_string()).into_owned()
}

fn without_empty(value: Value) -> Value {
    let is_empty = |value: &Value| value.is_null() || value.as_str().is_some_and(str::is_empty);
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !is_empty(value));
            fields.map(|(name, value)| (name, without_empty(value))).collect()
        }
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use tollgate_client::PoolEventKind;

    use super::*;

    #[test]
    fn an_event_is_an_object_on_a_line() {
        let event = PoolEvent {
            cursor: "17".to_owned(),
            kind: PoolEventKind::Completed.into(),
            fencing_token: 1_795_289_490_525_794,
            attempt: 2,
            outcome: Outcome::Failed.into(),
            capacity: None,
            event_time: Some(prost_types::Timestamp { seconds: 1_763_711_100, nanos: 500_000_000 }),
            device_id: "camera \"1\"".to_owned(),
            task_id: "snapshot-1".to_owned(),
        };
        assert_eq!(
            json(&event),
            r#"{"event":{"cursor":"17","kind":"POOL_EVENT_KIND_COMPLETED","deviceId":"camera \"1\"","taskId":"snapshot-1","fencingToken":"1795289490525794","attempt":2,"outcome":"OUTCOME_FAILED","eventTime":"2025-11-21T07:45:00.500Z"}}"#
        );
        let configured = PoolEvent {
            cursor: "17".to_owned(),
            kind: PoolEventKind::Configured.into(),
            capacity: Some(0),
            event_time: event.event_time,
            ..PoolEvent::default()
        };
        assert_eq!(
            json(&configured),
            r#"{"event":{"cursor":"17","kind":"POOL_EVENT_KIND_CONFIGURED","eventTime":"2025-11-21T07:45:00.500Z","capacity":0}}"#
        );
        let mut gap = PoolEvent { cursor: "17".to_owned(), ..PoolEvent::default() };
        gap.set_kind(PoolEventKind::Gap);
        assert_eq!(json(&gap), r#"{"event":{"cursor":"17","kind":"POOL_EVENT_KIND_GAP"}}"#);
    }
}
