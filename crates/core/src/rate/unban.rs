//! `Unban`: lifts the ban of a key.

use bytes::Bytes;

use super::{Meter, MeterName, RateEvent, RateEventKind, unknown_status};
use crate::{
    Call, Decision, Outcomes, Properties, Reply,
    denial::{AffectsDenials, Effect},
    error::Error,
    script::{self, Script},
    stages, statuses,
    time::Timestamp,
};

statuses! { UNBAN_NOT_BANNED = 0, UNBAN_LIFTED = 1 }

/// Lifts the ban of a key, and removes its strikes and usage, so that its next call passes.
///
/// The old usage could ban the key again at once, and the strikes would make that ban longer. The
/// key stays in the ban index until the end of the lifted ban; ListBans leaves it out.
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
    type Stages = stages::Direct;

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
