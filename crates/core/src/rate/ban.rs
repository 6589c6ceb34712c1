//! `Ban`: bans a key for a time.

use super::{Ban, Meter, MeterName, NoteBan, RateEvent, RateEventKind, ban_record::BanRecord};
use crate::{
    Call, Decision, Indexing, Outcomes, Properties, Reply,
    denial::{AffectsDenials, Effect},
    error::Error,
    script::{self, Script},
    stages,
    time::{Millis, Timestamp},
};

/// Bans a key from now on. Replaces a ban in force, even one that would end later; this is the same
/// strike. Without a ban in force, this is the next strike after a remembered earlier ban.
///
/// The usage of the key stays. A repeat starts the ban again from the time of the repeat. The ban
/// is an event of the policy. A key whose rule comes with calls has no events.
#[derive(Debug, Clone)]
pub struct BanKey {
    /// The policy and the key.
    pub name: MeterName,
    /// The duration of the ban: [`LENGTH_MIN`](super::LENGTH_MIN) to
    /// [`LENGTH_MAX`](super::LENGTH_MAX).
    pub duration: Millis,
    /// How long after the end of the ban the next one counts as a further strike.
    pub memory: Millis,
    /// The reason; at most [`TEXT_BYTES_MAX`](super::TEXT_BYTES_MAX) bytes, like the actor.
    pub reason: Vec<u8>,
    /// The person or program that sets the ban.
    pub actor: Vec<u8>,
}

impl Decision for BanKey {
    type State = Meter;
    type Outcome = Ban;
    type Stages = stages::Indexed;

    const SCRIPT: &'static Script = &script::rate::BAN;
    const PROPERTIES: Properties<BanKey> =
        Properties { outcomes: Outcomes::OK, ..Properties::DEFAULT }.affects_denials();

    fn partition(&self) -> &[u8] {
        self.name.as_bytes()
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
        reply.ok()?;
        Ban::parse(reply)
    }

    fn decide(&self, meter: &mut Meter, now: Timestamp) -> Ban {
        let strikes = meter.ban(now).map_or(1, |ban| {
            // A replaced ban is the same strike.
            if ban.until > now { ban.strikes } else { ban.strikes.saturating_add(1) }
        });
        let record = BanRecord {
            actor: self.actor.clone(),
            ..BanRecord::new(now, self.duration, self.memory, strikes, self.reason.clone())
        };
        if self.name.has_events() {
            let event = RateEvent::new(RateEventKind::Banned, self.name.key(), now).of_ban(&record);
            meter.event = Some(Box::new(event));
        }
        meter.ban = Some(Box::new(record.clone()));
        Ban::from(record)
    }
}

impl AffectsDenials for BanKey {
    /// A cached THROTTLE must become BAN at once.
    fn effect(&self, _: Option<&Ban>) -> Effect {
        Effect::frees(true)
    }
}

impl Indexing for BanKey {
    type Entry = NoteBan;

    /// Each ban is listed.
    fn entry(&self, ban: &Ban) -> Option<NoteBan> {
        Some(NoteBan { name: self.name.clone(), until: ban.until })
    }
}
