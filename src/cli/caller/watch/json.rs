//! An event in protobuf's JSON format on one line, as grpcurl prints it.

use std::borrow::Cow;

use serde::Serialize;

use super::line::{micros, name};
use crate::{
    admission::{Event, Outcome},
    decision::text::escaped_json,
    grpc::client::Told,
};

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
    device_id: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    task_id: Cow<'a, str>,
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
pub(super) fn json(told: &Told<Event>) -> String {
    let event = told.event.as_ref();
    let (device, task) = event.map(Event::device_and_task).unwrap_or_default();
    let fields = Fields {
        cursor: &told.cursor,
        kind: format!("POOL_EVENT_KIND_{}", name(told)),
        device_id: String::from_utf8_lossy(device),
        task_id: String::from_utf8_lossy(task),
        fencing_token: event.filter(|it| it.token > 0).map(|it| it.token.to_string()),
        attempt: event.map(|it| it.attempt).filter(|attempt| *attempt > 0),
        outcome: event.and_then(|it| it.outcome).map(|outcome| match outcome {
            Outcome::Succeeded => "OUTCOME_SUCCEEDED",
            Outcome::Failed => "OUTCOME_FAILED",
        }),
        event_time: event.map(|it| micros(it.time)),
        capacity: event.and_then(|it| it.capacity),
    };
    // Strings and numbers can always be written as JSON.
    let json = serde_json::to_string(&Message { event: fields }).unwrap_or_default();
    escaped_json(&json).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{admission::EventKind, decision::time::Timestamp};

    #[test]
    fn an_event_is_an_object_on_a_line() {
        let event = Event {
            kind: EventKind::Completed,
            token: 1_795_289_490_525_794,
            attempt: 2,
            outcome: Some(Outcome::Failed),
            capacity: None,
            time: Timestamp(1_763_711_100_500_000),
            member: b"camera \"1\"\x1fsnapshot-1".as_slice().into(),
        };
        let mut told = Told { cursor: "17".to_owned(), event: Some(event.clone()) };
        assert_eq!(
            json(&told),
            r#"{"event":{"cursor":"17","kind":"POOL_EVENT_KIND_COMPLETED","deviceId":"camera \"1\"","taskId":"snapshot-1","fencingToken":"1795289490525794","attempt":2,"outcome":"OUTCOME_FAILED","eventTime":"2025-11-21T07:45:00.500Z"}}"#
        );
        let (kind, capacity) = (EventKind::Configured, Some(0));
        let member = b"".as_slice().into();
        let configured =
            Event { kind, token: 0, attempt: 0, outcome: None, capacity, member, ..event };
        told.event = Some(configured);
        assert_eq!(
            json(&told),
            r#"{"event":{"cursor":"17","kind":"POOL_EVENT_KIND_CONFIGURED","eventTime":"2025-11-21T07:45:00.500Z","capacity":0}}"#
        );
        told.event = None;
        assert_eq!(json(&told), r#"{"event":{"cursor":"17","kind":"POOL_EVENT_KIND_GAP"}}"#);
    }
}
