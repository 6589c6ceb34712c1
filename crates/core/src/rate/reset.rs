//! `ResetRate`: removes the usage of a key.

use super::{Meter, MeterName, unknown_status};
use crate::{
    Call, Decision, Outcomes, Properties, Reply,
    denial::{AffectsDenials, Effect},
    error::Error,
    script::{self, Script},
    statuses,
    time::Timestamp,
};

statuses! { RESET_NO_USAGE = 0, RESET_DROPPED = 1 }

/// Removes the usage of a key under all limit names, even if it is unreadable. Bans, and answers
/// stored for repeats, stay. A reset is not an event.
///
/// The outcome is whether there was any usage. A repeat answers false and changes nothing.
#[derive(Debug, Clone)]
pub struct ResetRate {
    /// The policy and the key.
    pub name: MeterName,
}

impl Decision for ResetRate {
    type State = Meter;
    type Outcome = bool;

    const SCRIPT: &'static Script = &script::rate::RESET;
    const PROPERTIES: Properties<ResetRate> =
        Properties { outcomes: Outcomes::OK, ..Properties::DEFAULT }.affects_denials();

    fn partition(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        self.name.push_key(call, b"usage");
    }

    fn parse(reply: &mut Reply) -> Result<bool, Error> {
        match reply.number()? {
            RESET_NO_USAGE => Ok(false),
            RESET_DROPPED => Ok(true),
            status => unknown_status(status),
        }
    }

    fn decide(&self, meter: &mut Meter, now: Timestamp) -> bool {
        meter.reset(now)
    }
}

impl AffectsDenials for ResetRate {
    /// The next call may pass.
    fn effect(&self, _: Option<&bool>) -> Effect {
        Effect::frees(true)
    }
}
