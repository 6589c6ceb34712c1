//! An event of a pool as a line of text.

use std::time::SystemTime;

use prost_types::Timestamp;
use tollgate_client::{Outcome, PoolEvent, PoolEventKind, time};

use super::occupancy::InUse;
use tollgate_telemetry::text::escaped;

/// Formats an event and the slots in use after it.
pub(crate) fn line(event: &PoolEvent, in_use: Option<InUse>) -> String {
    let mut text = format!("{:<24}  {:<10}", time(event.event_time), name(event));
    let mut add = |part: &str| {
        text += "  ";
        text += part;
    };
    if event.kind() == PoolEventKind::Gap {
        add("events in between are no longer stored");
        return text;
    }
    if !event.task_id.is_empty() {
        add(&event.device_id);
        add(&event.task_id);
    }
    if event.attempt > 0 {
        add(&format!("attempt {}", event.attempt));
    }
    if event.fencing_token > 0 {
        add(&format!("token {}", event.fencing_token));
    }
    match event.outcome() {
        Outcome::Succeeded => add("SUCCEEDED"),
        Outcome::Failed => add("FAILED"),
        Outcome::Unspecified => {}
    }
    if let Some(InUse { least, is_exact, capacity }) = in_use {
        let sign = if is_exact { "" } else { ">=" };
        let capacity = capacity.map_or_else(|| "?".to_owned(), |capacity| capacity.to_string());
        add(&format!("{sign}{least}/{capacity}"));
    }
    escaped(&text).into_owned()
}

/// Returns the name of the event kind without its prefix on the wire, such as `ADMITTED`, or its
/// number if a newer server has added it.
pub(super) fn name(event: &PoolEvent) -> String {
    match PoolEventKind::try_from(event.kind) {
        Ok(kind) => kind.as_str_name().trim_start_matches("POOL_EVENT_KIND_").to_owned(),
        Err(_) => format!("KIND_{}", event.kind),
    }
}

/// Formats the time of an event, or `-` without one.
pub(super) fn time(time: Option<Timestamp>) -> String {
    time::time(time).map_or_else(|_| "-".to_owned(), millis)
}

/// Formats a time in UTC with milliseconds.
pub(crate) fn millis(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

/// Formats a time in UTC with 0, 3 or 6 fractional digits, like protobuf's JSON format.
pub(super) fn micros(time: Option<Timestamp>) -> Option<String> {
    let text = humantime::format_rfc3339_micros(time::time(time).ok()?).to_string();
    let text = text.trim_end_matches('Z');
    let text = text.strip_suffix("000").unwrap_or(text);
    let text = text.strip_suffix(".000").unwrap_or(text);
    Some(format!("{text}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Timestamp = Timestamp { seconds: 1_763_711_100, nanos: 0 };

    #[test]
    fn a_line_has_all_parts_of_an_event() {
        let mut event = PoolEvent {
            cursor: "17".to_owned(),
            kind: PoolEventKind::Admitted.into(),
            fencing_token: 5,
            attempt: 1,
            capacity: Some(60),
            event_time: Some(TIME),
            device_id: "camera-1".to_owned(),
            task_id: "snapshot-1".to_owned(),
            ..PoolEvent::default()
        };
        let in_use = InUse { least: 3, is_exact: false, capacity: Some(60) };
        assert_eq!(
            line(&event, Some(in_use)),
            "2025-11-21T07:45:00.000Z  ADMITTED    camera-1  snapshot-1  attempt 1  token 5  >=3/60"
        );
        event.set_kind(PoolEventKind::Late);
        event.set_outcome(Outcome::Failed);
        event.attempt = 0;
        let in_use = InUse { least: 2, is_exact: true, capacity: None };
        assert_eq!(
            line(&event, Some(in_use)),
            "2025-11-21T07:45:00.000Z  LATE        camera-1  snapshot-1  token 5  FAILED  2/?"
        );
        let mut gap = PoolEvent::default();
        gap.set_kind(PoolEventKind::Gap);
        assert_eq!(
            line(&gap, None),
            "-                         GAP         events in between are no longer stored"
        );
        assert_eq!(name(&PoolEvent { kind: 99, ..gap }), "KIND_99");
    }

    #[test]
    fn times_have_as_many_digits_as_they_need() {
        for (nanos, text) in
            [(0, ""), (500_000_000, ".500"), (1000, ".000001"), (120_000_000, ".120")]
        {
            let time = micros(Some(Timestamp { nanos, ..TIME }));
            assert_eq!(time, Some(format!("2025-11-21T07:45:00{text}Z")));
        }
    }
}
