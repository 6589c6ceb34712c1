//! `Ban`: bans a key for a time.

use serde::{Deserialize, Serialize};

use super::{Event, EventKind, Meter, MeterName, unknown_status};
use crate::{
    decision::{Call, Decision, Listing, Reply},
    denial::Effect,
    error::Error,
    script::{self, Script},
    time::{Millis, Timestamp},
};

/// Bans a key, counted from now; a ban in force is replaced.
#[derive(Debug, Clone)]
pub struct BanKey {
    /// Whom, and under which policy.
    pub name: MeterName,
    /// For how long.
    pub duration: Millis,
    /// How long after its end the next one counts as a further strike.
    pub memory: Millis,
    /// Why.
    pub reason: Vec<u8>,
    /// Who says so.
    pub actor: Vec<u8>,
}

/// A ban in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ban {
    /// When it ends.
    pub until: Timestamp,
    /// Which one it is, each within the memory of the one before.
    pub strikes: u32,
    /// Why.
    pub reason: Vec<u8>,
    /// Who set it; empty for a rule.
    pub actor: Vec<u8>,
}

/// A ban, and how long it is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BanRecord {
    pub(super) until: Timestamp,
    pub(super) forget: Timestamp,
    pub(super) strikes: u32,
    pub(super) reason: Vec<u8>,
    pub(super) actor: Vec<u8>,
}

impl BanRecord {
    /// A rule's ban from now.
    pub(super) fn new(
        now: Timestamp,
        length: Millis,
        memory: Millis,
        strikes: u32,
        reason: Vec<u8>,
    ) -> BanRecord {
        let until = now.after(length);
        BanRecord { until, forget: until.after(memory), strikes, reason, actor: Vec::new() }
    }
}

impl From<BanRecord> for Ban {
    fn from(record: BanRecord) -> Ban {
        let BanRecord { until, strikes, reason, actor, .. } = record;
        Ban { until, strikes, reason, actor }
    }
}

impl Ban {
    pub(super) fn parse(reply: &mut Reply) -> Result<Ban, Error> {
        Ok(Ban {
            until: Timestamp(reply.number()?),
            strikes: u32::try_from(reply.number()?).unwrap_or(u32::MAX),
            reason: text(reply)?,
            actor: text(reply)?,
        })
    }
}

/// Stored bytes may be anything; answers are UTF-8.
fn text(reply: &mut Reply) -> Result<Vec<u8>, Error> {
    Ok(String::from_utf8_lossy(&reply.bytes()?).into_owned().into_bytes())
}

impl Decision for BanKey {
    type State = Meter;
    type Outcome = Ban;

    const SCRIPT: &'static Script = &script::BAN_KEY;

    fn partition(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn tag(&self) -> &[u8] {
        self.name.tag()
    }

    fn listing(&self) -> Listing {
        Listing::Same
    }

    fn effect(&self, _: Option<&Ban>) -> Effect {
        Effect::frees(true)
    }

    fn encode(&self, call: &mut Call) {
        self.name.push_key(call, b"ban");
        call.key(&[b"events"]);
        call.number(self.duration.micros());
        call.number(self.memory.micros());
        call.bytes(&[&self.reason]);
        call.bytes(&[&self.actor]);
        self.name.push_subject(call);
    }

    fn parse(reply: &mut Reply) -> Result<Ban, Error> {
        match reply.number()? {
            0 => Ban::parse(reply),
            status => unknown_status(status),
        }
    }

    fn decide(&self, meter: &mut Meter, now: Timestamp) -> Ban {
        let strikes = meter.ban(now).map_or(1, |ban| {
            // A ban that is replaced is the same strike.
            if ban.until > now { ban.strikes } else { ban.strikes.saturating_add(1) }
        });
        let record = BanRecord {
            actor: self.actor.clone(),
            ..BanRecord::new(now, self.duration, self.memory, strikes, self.reason.clone())
        };
        if self.name.has_events() {
            let event = Event::new(EventKind::Banned, self.name.key(), now).of_ban(&record);
            meter.event = Some(Box::new(event));
        }
        meter.ban = Some(Box::new(record.clone()));
        Ban::from(record)
    }
}
