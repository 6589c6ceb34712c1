//! `WatchRates` in plain types.

use tonic::{Request, Streaming};

use super::{CallError, Client, answered, convert, pb};
use crate::{decision::time::Timestamp, rate::Ban};

/// A stream of the events of a policy.
#[derive(Debug)]
pub struct RateEvents(Streaming<pb::WatchRatesResponse>);

/// A notice about a key, or a change of its ban.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateEvent {
    /// Cursor of the event. A new stream can continue after it.
    pub cursor: String,
    /// Kind of the event.
    pub kind: RateEventKind,
    /// Key of the event; empty for a gap.
    pub key: String,
    /// Time of the event on the engine's clock.
    pub time: Option<Timestamp>,
    /// Threshold of the tier that was reached: its level begins above this count.
    pub above: Option<u64>,
    /// Count on the first limit, including the call that reached the tier.
    pub count: u64,
    /// The ban, for BANNED.
    pub ban: Option<Ban>,
    /// The person or service that lifted the ban, for UNBANNED; may be empty.
    pub actor: String,
}

/// Kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RateEventKind {
    /// The first call of a window above a WARN tier.
    Warned,
    /// The first call of a window above a THROTTLE tier.
    Throttled,
    /// The key was banned.
    Banned,
    /// The ban was lifted.
    Unbanned,
    /// Events are missing.
    Gap,
    /// A kind of a newer server, by its number.
    Other(i32),
}

impl Client {
    /// Streams the events of a policy after a cursor. `"0"` starts at the oldest stored event,
    /// `None` at the present. The stream has no deadline.
    pub async fn watch_rates(
        &self,
        policy: &str,
        after: Option<&str>,
    ) -> Result<RateEvents, CallError> {
        let (policy, after) = (policy.to_owned(), after.map(str::to_owned));
        let message = Request::new(pb::WatchRatesRequest { policy, after });
        Ok(RateEvents(answered(self.rate.clone().watch_rates(message)).await?))
    }
}

impl RateEvents {
    /// Waits for the next event; `None` when the server ended the stream. Cancel-safe: a dropped
    /// wait loses no event.
    pub async fn next(&mut self) -> Result<Option<RateEvent>, CallError> {
        self.0.message().await?.map(event).transpose()
    }
}

impl RateEventKind {
    /// The name on the wire without its prefix, such as `BANNED`.
    pub fn name(self) -> String {
        match self {
            RateEventKind::Other(number) => format!("KIND_{number}"),
            known => format!("{known:?}").to_uppercase(),
        }
    }

    fn of(number: i32) -> RateEventKind {
        match pb::RateEventKind::try_from(number) {
            Ok(pb::RateEventKind::Warned) => RateEventKind::Warned,
            Ok(pb::RateEventKind::Throttled) => RateEventKind::Throttled,
            Ok(pb::RateEventKind::Banned) => RateEventKind::Banned,
            Ok(pb::RateEventKind::Unbanned) => RateEventKind::Unbanned,
            Ok(pb::RateEventKind::Gap) => RateEventKind::Gap,
            Ok(pb::RateEventKind::Unspecified) | Err(_) => RateEventKind::Other(number),
        }
    }
}

fn event(response: pb::WatchRatesResponse) -> Result<RateEvent, CallError> {
    let event = response.event.ok_or_else(|| CallError::malformed("event"))?;
    Ok(RateEvent {
        kind: RateEventKind::of(event.kind),
        cursor: event.cursor,
        key: event.key,
        time: event.event_time.map(|time| convert::timestamp(Some(time))).transpose()?,
        above: event.above,
        count: event.count,
        ban: event.ban.map(convert::ban).transpose()?,
        actor: event.actor,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_the_contract_has_its_name() {
        for number in 1..=5 {
            let name = pb::RateEventKind::try_from(number).expect("a kind").as_str_name();
            assert_eq!(format!("RATE_EVENT_KIND_{}", RateEventKind::of(number).name()), name);
        }
        assert!(pb::RateEventKind::try_from(6).is_err(), "one more to tell of");
        assert_eq!(RateEventKind::of(6).name(), "KIND_6");
        assert!(event(pb::WatchRatesResponse::default()).is_err());
    }
}
