//! An event of a policy's key, as a line of text and in protobuf's JSON format.

use serde_json::json;
use tollgate_client::{RateEvent, RateEventKind, pb::Ban};

use super::{
    json::object,
    line::{micros, time},
};
use tollgate_telemetry::text::escaped;

/// Formats an event as a JSON object. 64-bit numbers are strings, because JSON numbers cannot
/// represent all of them.
pub(super) fn json(event: &RateEvent) -> String {
    let ban = event.ban.as_ref().map(|ban| {
        json!({
            "key": event.key,
            "until": micros(ban.until),
            "reason": ban.reason,
            "strikes": ban.strikes,
            "actor": ban.actor,
        })
    });
    object(json!({
        "cursor": event.cursor,
        "kind": format!("RATE_EVENT_KIND_{}", name(event)),
        "key": event.key,
        "eventTime": micros(event.event_time),
        "above": event.above.map(|above| above.to_string()),
        "count": Some(event.count).filter(|count| *count > 0).map(|count| count.to_string()),
        "ban": ban,
        "actor": event.actor,
    }))
}

/// Formats an event as a line.
pub(super) fn line(event: &RateEvent) -> String {
    let mut line = format!("{:<24}  {:<9}", time(event.event_time), name(event));
    let mut add = |part: &str| {
        line += "  ";
        line += part;
    };
    if event.kind() == RateEventKind::Gap {
        add("events in between are no longer stored");
    }
    if !event.key.is_empty() {
        add(&event.key);
    }
    if let Some(above) = event.above {
        add(&format!("{} is above {above}", event.count));
    }
    if let Some(Ban { until, strikes, reason, actor, .. }) = &event.ban {
        add(&format!("until {}, strike {strikes}", time(*until)));
        // The reason for a ban by the rule would repeat the count.
        if event.above.is_none() && !reason.is_empty() {
            add(reason);
        }
        if !actor.is_empty() {
            add(&format!("by {}", actor));
        }
    }
    if !event.actor.is_empty() {
        add(&format!("by {}", event.actor));
    }
    escaped(&line).into_owned()
}

/// Returns the name of the event kind without its prefix on the wire, such as `BANNED`, or its
/// number if a newer server has added it.
fn name(event: &RateEvent) -> String {
    match RateEventKind::try_from(event.kind) {
        Ok(kind) => kind.as_str_name().trim_start_matches("RATE_EVENT_KIND_").to_owned(),
        Err(_) => format!("KIND_{}", event.kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost_types::Timestamp;

    const TIME: Timestamp = Timestamp { seconds: 1_763_711_100, nanos: 0 };

    #[test]
    fn a_ban_says_why_and_until_when() {
        let ban = Ban {
            until: Some(Timestamp { seconds: TIME.seconds + 300, ..TIME }),
            strikes: 2,
            reason: "above 20".to_owned(),
            ..Ban::default()
        };
        let mut event = RateEvent {
            cursor: "c".to_owned(),
            kind: RateEventKind::Banned.into(),
            key: "ip:192.0.2.7".to_owned(),
            event_time: Some(TIME),
            above: Some(20),
            count: 21,
            ban: Some(ban.clone()),
            actor: String::new(),
        };
        assert_eq!(
            line(&event),
            "2025-11-21T07:45:00.000Z  BANNED     ip:192.0.2.7  21 is above 20  until \
             2025-11-21T07:50:00.000Z, strike 2"
        );
        assert_eq!(
            json(&event),
            r#"{"event":{"cursor":"c","kind":"RATE_EVENT_KIND_BANNED","key":"ip:192.0.2.7","eventTime":"2025-11-21T07:45:00Z","above":"20","count":"21","ban":{"key":"ip:192.0.2.7","until":"2025-11-21T07:50:00Z","reason":"above 20","strikes":2}}}"#
        );
        let by_hand = Ban { reason: "abuse".to_owned(), actor: "ann".to_owned(), ..ban };
        (event.above, event.count, event.ban) = (None, 0, Some(by_hand));
        assert!(line(&event).ends_with("strike 2  abuse  by ann"), "{}", line(&event));
    }

    #[test]
    fn a_lifted_ban_names_its_operator() {
        let mut event = RateEvent {
            cursor: "c".to_owned(),
            kind: RateEventKind::Unbanned.into(),
            key: "k".to_owned(),
            event_time: Some(TIME),
            above: None,
            count: 0,
            ban: None,
            actor: "ann".to_owned(),
        };
        assert_eq!(line(&event), "2025-11-21T07:45:00.000Z  UNBANNED   k  by ann");
        event = RateEvent { cursor: event.cursor, ..RateEvent::default() };
        event.set_kind(RateEventKind::Gap);
        assert_eq!(json(&event), r#"{"event":{"cursor":"c","kind":"RATE_EVENT_KIND_GAP"}}"#);
        assert!(line(&event).ends_with("GAP        events in between are no longer stored"));
    }
}
