//! What happens to the keys of a policy.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::ban::BanRecord;
use crate::{names::SEPARATOR, time::Timestamp};

/// A notice about a key, or a change of its ban.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// When.
    pub time: Timestamp,
    /// The tier that was reached: the level begins above this count.
    pub above: Option<u32>,
    /// The count on the first limit, the call that reached the tier included; 0 without
    /// a tier.
    pub count: u64,
    /// When the ban ends; 0 where there is none.
    pub until: Timestamp,
    /// Which ban it is; 0 where there is none.
    pub strikes: u32,
    /// Whom it happened to.
    pub key: Bytes,
    /// Why it is banned.
    pub reason: Bytes,
    /// Who banned it or lifted the ban; empty for a rule, and where it was not said.
    pub actor: Bytes,
}

/// What can happen; the numbers are those of the scripts and of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// The first call of a window above a WARN tier.
    Warned = 1,
    /// The first call of a window above a THROTTLE tier.
    Throttled = 2,
    /// A ban began, or replaced one.
    Banned = 3,
    /// A ban was lifted.
    Unbanned = 4,
}

impl Event {
    /// An event of which nothing more is known.
    pub(super) fn new(kind: EventKind, key: &[u8], time: Timestamp) -> Event {
        Event {
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

    /// The same, of this ban.
    pub(super) fn of_ban(self, ban: &BanRecord) -> Event {
        let BanRecord { until, strikes, reason, actor, .. } = ban;
        let (reason, actor) = (Bytes::copy_from_slice(reason), Bytes::copy_from_slice(actor));
        Event { until: *until, strikes: *strikes, reason, actor, ..self }
    }

    /// Reads `kind time above count until strikes key reason actor`, joined by the
    /// separator; no tier is empty.
    pub(super) fn parse(text: &[u8]) -> Option<Event> {
        let mut parts = text.split(|byte| *byte == SEPARATOR);
        let mut number = || -> Option<Option<u64>> {
            match std::str::from_utf8(parts.next()?).ok()? {
                "" => Some(None),
                text => text.parse().ok().map(Some),
            }
        };
        let kind = match number()?? {
            1 => EventKind::Warned,
            2 => EventKind::Throttled,
            3 => EventKind::Banned,
            4 => EventKind::Unbanned,
            _ => return None,
        };
        let (time, above, count) = (Timestamp(number()??), number()?, number()??);
        let (until, strikes) = (Timestamp(number()??), u32::try_from(number()??).ok()?);
        let above = above.map(u32::try_from).transpose().ok()?;
        let mut text = || parts.next().map(Bytes::copy_from_slice);
        let (key, reason, actor) = (text()?, text()?, text()?);
        parts.next().is_none().then_some(())?;
        Some(Event { kind, time, above, count, until, strikes, key, reason, actor })
    }
}
