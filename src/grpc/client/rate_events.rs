//! `WatchRates` in plain types.

use tonic::{Request, Streaming};

use super::{CallError, Client, answered, convert, pb};
use crate::{rate::Ban, time::Timestamp};

/// What happens to a policy's keys, as it comes.
#[derive(Debug)]
pub struct RateEvents(Streaming<pb::WatchRatesResponse>);

/// A notice about a key, or a change of its ban.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateEvent {
    /// Where the stream goes on after it.
    pub cursor: String,
    /// What happened.
    pub kind: RateEventKind,
    /// Whom it happened to; empty where events are missing.
    pub key: String,
    /// When, on the engine's clock.
    pub time: Option<Timestamp>,
    /// The tier that was reached, if one was: the level begins above this count.
    pub above: Option<u64>,
    /// The count on the first limit, the call that reached the tier included.
    pub count: u64,
    /// The ban, of BANNED.
    pub ban: Option<Ban>,
    /// Who lifted the ban, of UNBANNED, if that was said.
    pub actor: String,
}

/// What can happen to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RateEventKind {
    /// The first call of a window above a WARN tier.
    Warned,
    /// The first call of a window above a THROTTLE tier.
    Throttled,
    /// It was banned.
    Banned,
    /// Its ban was lifted.
    Unbanned,
    /// Events are missing.
    Gap,
    /// What a newer server knows, by its number.
    Other(i32),
}

impl Client {
    /// Streams what happens to the keys of a policy: after a cursor, `"0"` for all that is
    /// kept; none for what happens from now on. It has no deadline.
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
    /// Waits for the next one; none when the server ended the stream. A wait that is
    /// dropped loses none.
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
