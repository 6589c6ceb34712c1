//! An event of a policy's key, as a line of text and in protobuf's JSON format.

use serde::Serialize;

use super::line::{micros, millis};
use crate::{
    decision::text::{escaped, escaped_json},
    grpc::client::{RateEvent, RateEventKind},
    rate::Ban,
};

#[derive(Serialize)]
struct Message<'a> {
    event: Fields<'a>,
}

/// Fields with their default value are omitted. 64-bit numbers are strings, because JSON numbers
/// cannot hold them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Fields<'a> {
    cursor: &'a str,
    kind: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    above: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ban: Option<BanFields<'a>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    actor: &'a str,
}

#[derive(Serialize)]
struct BanFields<'a> {
    key: &'a str,
    until: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    strikes: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    actor: String,
}

/// Formats an event as a JSON object.
pub(super) fn json(event: &RateEvent) -> String {
    let ban = event.ban.as_ref().map(|ban| BanFields {
        key: &event.key,
        until: micros(ban.until),
        reason: text(&ban.reason),
        strikes: ban.strikes,
        actor: text(&ban.actor),
    });
    let event = Fields {
        cursor: &event.cursor,
        kind: format!("RATE_EVENT_KIND_{}", event.kind.name()),
        key: &event.key,
        event_time: event.time.map(micros),
        above: event.above.map(|above| above.to_string()),
        count: Some(event.count).filter(|count| *count > 0).map(|count| count.to_string()),
        ban,
        actor: &event.actor,
    };
    // Strings and numbers can always be written as JSON.
    let json = serde_json::to_string(&Message { event }).unwrap_or_default();
    escaped_json(&json).into_owned()
}

/// Formats an event as a line.
pub(super) fn line(event: &RateEvent) -> String {
    let time = event.time.map_or_else(|| "-".to_owned(), millis);
    let mut line = format!("{time:<24}  {:<9}", event.kind.name());
    let mut add = |part: &str| {
        line += "  ";
        line += part;
    };
    if event.kind == RateEventKind::Gap {
        add("events in between are no longer stored");
    }
    if !event.key.is_empty() {
        add(&event.key);
    }
    if let Some(above) = event.above {
        add(&format!("{} is above {above}", event.count));
    }
    if let Some(Ban { until, strikes, reason, actor }) = &event.ban {
        add(&format!("until {}, strike {strikes}", millis(*until)));
        // The reason of a ban by the rule repeats the count.
        if event.above.is_none() && !reason.is_empty() {
            add(&text(reason));
        }
        if !actor.is_empty() {
            add(&format!("by {}", text(actor)));
        }
    }
    if !event.actor.is_empty() {
        add(&format!("by {}", event.actor));
    }
    escaped(&line).into_owned()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::time::Timestamp;

    const TIME: u64 = 1_763_711_100_000_000;

    #[test]
    fn a_ban_says_why_and_until_when() {
        let ban = Ban {
            until: Timestamp(TIME + 300_000_000),
            strikes: 2,
            reason: b"above 20".to_vec(),
            actor: Vec::new(),
        };
        let mut event = RateEvent {
            cursor: "c".to_owned(),
            kind: RateEventKind::Banned,
            key: "ip:192.0.2.7".to_owned(),
            time: Some(Timestamp(TIME)),
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
        let by_hand = Ban { reason: b"abuse".to_vec(), actor: b"ann".to_vec(), ..ban };
        (event.above, event.count, event.ban) = (None, 0, Some(by_hand));
        assert!(line(&event).ends_with("strike 2  abuse  by ann"), "{}", line(&event));
    }

    #[test]
    fn what_is_lifted_says_by_whom() {
        let mut event = RateEvent {
            cursor: "c".to_owned(),
            kind: RateEventKind::Unbanned,
            key: "k".to_owned(),
            time: Some(Timestamp(TIME)),
            above: None,
            count: 0,
            ban: None,
            actor: "ann".to_owned(),
        };
        assert_eq!(line(&event), "2025-11-21T07:45:00.000Z  UNBANNED   k  by ann");
        event = RateEvent { kind: RateEventKind::Gap, time: None, key: String::new(), ..event };
        event.actor.clear();
        assert_eq!(json(&event), r#"{"event":{"cursor":"c","kind":"RATE_EVENT_KIND_GAP"}}"#);
        assert!(line(&event).ends_with("GAP        events in between are no longer stored"));
    }
}
