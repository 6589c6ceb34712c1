//! An event in protobuf's JSON format on one line, as grpcurl prints it.

use serde::Serialize;
use tollgate_client::{Outcome, PoolEvent};

use super::line::{micros, name};
use crate::decision::text::escaped_json;

#[derive(Serialize)]
struct Message<'a> {
    event: Fields<'a>,
}

/// Fields with their default value are omitted.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Fields<'a> {
    cursor: &'a str,
    kind: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    device_id: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    task_id: &'a str,
    /// A string, as in protobuf's JSON format: JSON numbers cannot hold 64 bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    fencing_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity: Option<u32>,
}

/// Formats an event as a JSON object.
pub(super) fn json(event: &PoolEvent) -> String {
    let outcome = Some(event.outcome()).filter(|outcome| *outcome != Outcome::Unspecified);
    let fields = Fields {
        cursor: &event.cursor,
        kind: format!("POOL_EVENT_KIND_{}", name(event)),
        device_id: &event.device_id,
        task_id: &event.task_id,
        fencing_token: Some(event.fencing_token).filter(|it| *it > 0).map(|it| it.to_string()),
        attempt: Some(event.attempt).filter(|attempt| *attempt > 0),
        outcome: outcome.map(|outcome| outcome.as_str_name()),
        event_time: micros(event.event_time),
        capacity: event.capacity,
    };
    // Strings and numbers can always be written as JSON.
    let json = serde_json::to_string(&Message { event: fields }).unwrap_or_default();
    escaped_json(&json).into_owned()
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
