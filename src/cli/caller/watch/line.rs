//! An event of a pool as a line of text.

use std::time::{Duration, UNIX_EPOCH};

use super::occupancy::InUse;
use crate::{
    admission::{Event, Outcome},
    decision::{text::escaped, time::Timestamp},
    grpc::client::Told,
};

/// Formats an event, with the slots in use after it.
pub(crate) fn line(told: &Told<Event>, in_use: Option<InUse>) -> String {
    let time = told.event.as_ref().map_or_else(|| "-".to_owned(), |event| millis(event.time));
    let mut text = format!("{time:<24}  {:<10}", name(told));
    let mut add = |part: &str| {
        text += "  ";
        text += part;
    };
    let Some(event) = &told.event else {
        add("events in between are no longer stored");
        return text;
    };
    let (device, task) = event.device_and_task();
    if !task.is_empty() {
        add(&String::from_utf8_lossy(device));
        add(&String::from_utf8_lossy(task));
    }
    if event.attempt > 0 {
        add(&format!("attempt {}", event.attempt));
    }
    if event.token > 0 {
        add(&format!("token {}", event.token));
    }
    match event.outcome {
        Some(Outcome::Succeeded) => add("SUCCEEDED"),
        Some(Outcome::Failed) => add("FAILED"),
        None => {}
    }
    if let Some(InUse { least, is_exact, capacity }) = in_use {
        let sign = if is_exact { "" } else { ">=" };
        let capacity = capacity.map_or_else(|| "?".to_owned(), |capacity| capacity.to_string());
        add(&format!("{sign}{least}/{capacity}"));
    }
    escaped(&text).into_owned()
}

/// Returns the name of the event kind without its wire prefix, such as `ADMITTED`.
pub(super) fn name(told: &Told<Event>) -> String {
    match &told.event {
        Some(event) => format!("{:?}", event.kind).to_uppercase(),
        None => "GAP".to_owned(),
    }
}

/// Formats a time in UTC with milliseconds.
pub(crate) fn millis(time: Timestamp) -> String {
    let time = UNIX_EPOCH + Duration::from_micros(time.0);
    humantime::format_rfc3339_millis(time).to_string()
}

/// Formats a time in UTC with up to six fraction digits, as in protobuf's JSON format: groups of
/// three zeros at the end are omitted.
pub(super) fn micros(time: Timestamp) -> String {
    let text = humantime::format_rfc3339_micros(UNIX_EPOCH + Duration::from_micros(time.0));
    let text = text.to_string();
    let text = text.trim_end_matches('Z');
    let text = text.strip_suffix("000").unwrap_or(text);
    let text = text.strip_suffix(".000").unwrap_or(text);
    format!("{text}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::EventKind;

    const TIME: u64 = 1_763_711_100_000_000;

    #[test]
    fn a_line_tells_what_there_is() {
        let event = Event {
            kind: EventKind::Admitted,
            token: 5,
            attempt: 1,
            outcome: None,
            capacity: Some(60),
            time: Timestamp(TIME),
            member: b"camera-1\x1fsnapshot-1".as_slice().into(),
        };
        let mut told = Told { cursor: "17".to_owned(), event: Some(event.clone()) };
        let in_use = InUse { least: 3, is_exact: false, capacity: Some(60) };
        assert_eq!(
            line(&told, Some(in_use)),
            "2025-11-21T07:45:00.000Z  ADMITTED    camera-1  snapshot-1  attempt 1  token 5  >=3/60"
        );
        let (kind, outcome) = (EventKind::Late, Some(Outcome::Failed));
        told.event = Some(Event { kind, attempt: 0, outcome, ..event });
        let in_use = InUse { least: 2, is_exact: true, capacity: None };
        assert_eq!(
            line(&told, Some(in_use)),
            "2025-11-21T07:45:00.000Z  LATE        camera-1  snapshot-1  token 5  FAILED  2/?"
        );
        told.event = None;
        assert_eq!(
            line(&told, None),
            "-                         GAP         events in between are no longer stored"
        );
    }

    #[test]
    fn times_have_as_many_digits_as_they_need() {
        for (more, text) in [(0, ""), (500_000, ".500"), (1, ".000001"), (120_000, ".120")] {
            assert_eq!(micros(Timestamp(TIME + more)), format!("2025-11-21T07:45:00{text}Z"));
        }
    }
}
