//! The verbs that set, lift and read the ban of a key.

use bytes::Bytes;

use super::{Ban, BanEntry, Meter, MeterName, RateEvent, RateEventKind, ban_record::BanRecord};
use crate::{
    Call, Cost, Decision, Outcomes, Properties, Reply,
    denial::{AffectsDenials, Effect},
    error::Error,
    script::{self, Script},
    statuses,
    time::{Millis, Timestamp},
    unknown_status,
};

statuses! { UNBAN_NOT_BANNED = 0, UNBAN_LIFTED = 1 }
statuses! { GET_BAN_NONE = 0, GET_BAN_BANNED = 1 }

/// Bans a key from now on. Replaces a ban in force, even one that would end later, and counts as
/// the same strike. Without a ban in force, this is the next strike after a remembered earlier ban.
///
/// The usage of the key stays. A repeat starts the ban again from the time of the repeat. The ban
/// is an event of the policy; a key whose rule comes with its calls has no events.
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

    const SCRIPT: &'static Script = &script::rate::BAN;
    const PROPERTIES: Properties<BanKey> = Properties::<Self> {
        outcomes: Outcomes::OK,
        // Each ban is listed.
        ban: Some(|ban, outcome| Some(BanEntry { name: ban.name.clone(), until: outcome.until })),
        ..Properties::DEFAULT
    }
    .affects_denials();

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
    /// A cached THROTTLE must become BAN immediately.
    fn effect(&self, _: Option<&Ban>) -> Effect {
        Effect::frees(true)
    }
}

/// Lifts the ban of a key, and removes its strikes and usage, so that its next call passes.
///
/// Otherwise the old usage could ban the key again immediately, and the strikes would make that ban
/// longer. The key stays in the ban index until the lifted ban would have ended; ListBans omits it.
///
/// The outcome is whether a ban was in force. A repeat answers false.
#[derive(Debug, Clone)]
pub struct UnbanKey {
    /// The policy and the key.
    pub name: MeterName,
    /// The person or program that lifts the ban.
    pub actor: Vec<u8>,
}

impl Decision for UnbanKey {
    type State = Meter;
    type Outcome = bool;

    const SCRIPT: &'static Script = &script::rate::UNBAN;
    const PROPERTIES: Properties<UnbanKey> =
        Properties { outcomes: Outcomes::OK, ..Properties::DEFAULT }.affects_denials();

    fn partition(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        self.name.push_key(call, b"usage");
        self.name.push_key(call, b"ban");
        call.key(&[b"events"]);
        call.bytes(&[&self.actor]);
        self.name.push_subject(call);
    }

    fn parse(reply: &mut Reply) -> Result<bool, Error> {
        match reply.number()? {
            UNBAN_NOT_BANNED => Ok(false),
            UNBAN_LIFTED => Ok(true),
            status => unknown_status(status),
        }
    }

    fn decide(&self, meter: &mut Meter, now: Timestamp) -> bool {
        meter.reset(now);
        let was_banned = meter.ban.take().is_some_and(|ban| ban.until > now);
        if was_banned && self.name.has_events() {
            let event = RateEvent::new(RateEventKind::Unbanned, self.name.key(), now);
            let actor = Bytes::copy_from_slice(&self.actor);
            meter.event = Some(Box::new(RateEvent { actor, ..event }));
        }
        was_banned
    }
}

impl AffectsDenials for UnbanKey {
    /// The next call passes.
    fn effect(&self, _: Option<&bool>) -> Effect {
        Effect::frees(true)
    }
}

/// Reads the ban of a key, if one is in force. Changes nothing.
///
/// A ban that has ended is `None`, although its record counts as a strike for longer.
#[derive(Debug, Clone)]
pub struct GetBan {
    /// The policy and the key.
    pub name: MeterName,
}

impl Decision for GetBan {
    type State = Meter;
    type Outcome = Option<Ban>;

    const SCRIPT: &'static Script = &script::rate::GET_BAN;
    const PROPERTIES: Properties<GetBan> =
        Properties { cost: |_| Cost::from_micros(10), ..Properties::DEFAULT };

    fn partition(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        self.name.push_key(call, b"ban");
    }

    fn parse(reply: &mut Reply) -> Result<Option<Ban>, Error> {
        match reply.number()? {
            GET_BAN_NONE => Ok(None),
            GET_BAN_BANNED => Ban::parse(reply).map(Some),
            status => unknown_status(status),
        }
    }

    fn decide(&self, meter: &mut Meter, now: Timestamp) -> Option<Ban> {
        meter.ban(now).filter(|ban| ban.until > now).cloned().map(Ban::from)
    }
}
