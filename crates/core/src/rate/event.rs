//! The events of the keys of a policy.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::ban_record::BanRecord;
use crate::{names::SEPARATOR, statuses, time::Timestamp};

// Kinds of stored events; the first two are verdicts.
statuses! { CHECK_WARN = 1, CHECK_THROTTLE = 2, RATE_EVENT_BANNED = 3, RATE_EVENT_UNBANNED = 4 }

/// A notice about a key, or a change of its ban.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateEvent {
    /// The kind of event.
    pub kind: RateEventKind,
    /// When it happened.
    pub time: Timestamp,
    /// The threshold of the tier that was reached; `None` without a tier.
    pub above: Option<u32>,
    /// The count on the first limit, including the call that reached the tier; 0 without a tier.
    pub count: u64,
    /// When the ban ends; 0 without a ban.
    pub until: Timestamp,
    /// The number of the ban, from 1; 0 without a ban.
    pub strikes: u32,
    /// The key.
    pub key: Bytes,
    /// The reason of the ban.
    pub reason: Bytes,
    /// The person or program that set or lifted the ban; empty for a rule, and if unknown.
    pub actor: Bytes,
}

/// The kinds of event, numbered as in the scripts and the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RateEventKind {
    /// The first call of its window above a WARN tier.
    Warned = 1,
    /// The first call of its window above a THROTTLE tier.
    Throttled = 2,
    /// A ban was set, or replaced another one.
    Banned = 3,
    /// A ban was lifted.
    Unbanned = 4,
}

impl RateEvent {
    /// Creates an event without tier and ban.
    pub(super) fn new(kind: RateEventKind, key: &[u8], time: Timestamp) -> RateEvent {
        RateEvent {
            kind,
            time,
            above: None,
            count: 0,
            until: Timestamp(0),
            strikes: 0,
            key: Bytes::copy_from_slice(key),
            reason: Bytes::new(),
            actor: Bytes::new(),
        }
    }

    /// Returns the same event with this ban.
    pub(super) fn of_ban(self, ban: &BanRecord) -> RateEvent {
        let BanRecord { until, strikes, reason, actor, .. } = ban;
        let (reason, actor) = (Bytes::copy_from_slice(reason), Bytes::copy_from_slice(actor));
        RateEvent { until: *until, strikes: *strikes, reason, actor, ..self }
    }

    /// Parses `kind time above count until strikes key reason actor`, joined by the separator. An
    /// empty `above` is none. `None` if the text is malformed.
    pub(super) fn parse(text: &[u8]) -> Option<RateEvent> {
        let mut parts = text.split(|byte| *byte == SEPARATOR);
        let mut number = || -> Option<Option<u64>> {
            match std::str::from_utf8(parts.next()?).ok()? {
                "" => Some(None),
                text => text.parse().ok().map(Some),
            }
        };
        let kind = match number()?? {
            CHECK_WARN => RateEventKind::Warned,
            CHECK_THROTTLE => RateEventKind::Throttled,
            RATE_EVENT_BANNED => RateEventKind::Banned,
            RATE_EVENT_UNBANNED => RateEventKind::Unbanned,
            _ => return None,
        };
        let (time, above, count) = (Timestamp(number()??), number()?, number()??);
        let (until, strikes) = (Timestamp(number()??), u32::try_from(number()??).ok()?);
        let above = above.map(u32::try_from).transpose().ok()?;
        let mut text = || parts.next().map(Bytes::copy_from_slice);
        let (key, reason, actor) = (text()?, text()?, text()?);
        parts.next().is_none().then_some(())?;
        Some(RateEvent { kind, time, above, count, until, strikes, key, reason, actor })
    }
}
