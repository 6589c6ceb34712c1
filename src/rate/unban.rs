//! `Unban`: lifts a key's ban.

use super::{Meter, MeterName, unknown_status};
use crate::{
    decision::{Call, Decision, Listing, Reply},
    error::Error,
    script::{self, Script},
    time::Timestamp,
};

/// Lifts a key's ban and forgets its strikes and its usage, so that its next
/// call passes; whether it was banned.
#[derive(Debug, Clone)]
pub struct UnbanKey {
    /// Whom, and under which policy.
    pub name: MeterName,
}

impl Decision for UnbanKey {
    type State = Meter;
    type Outcome = bool;

    const SCRIPT: &'static Script = &script::UNBAN_KEY;

    fn partition(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn listing(&self) -> Listing {
        Listing::Same
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"usage"]);
        call.key(&[b"ban"]);
    }

    fn parse(reply: &mut Reply) -> Result<bool, Error> {
        match reply.number()? {
            0 => Ok(false),
            1 => Ok(true),
            status => unknown_status(status),
        }
    }

    fn decide(&self, meter: &mut Meter, now: Timestamp) -> bool {
        meter.reset(now);
        meter.ban.take().is_some_and(|ban| ban.until > now)
    }
}
