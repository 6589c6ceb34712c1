//! Notes that a key of a policy is banned, for ListBans.

use super::{BANS_MAX, BanIndex, MeterName, unknown_status};
use crate::{
    decision::{Call, Cost, Decision, Listing, Reply},
    error::Error,
    script::{self, Script},
    time::Timestamp,
};

/// Ended bans that one call drops.
const TRIM_MAX: usize = 100;

/// Puts a key into the index of its policy.
#[derive(Debug, Clone)]
pub struct NoteBan {
    /// The policy and the key.
    pub name: MeterName,
    /// When its ban ends.
    pub until: Timestamp,
}

impl Decision for NoteBan {
    type State = BanIndex;
    type Outcome = ();

    const SCRIPT: &'static Script = &script::NOTE_BAN;

    fn partition(&self) -> &[u8] {
        self.name.policy()
    }

    fn listing(&self) -> Listing {
        Listing::Same
    }

    fn cost(&self) -> Cost {
        Cost::of(20)
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"banned"]);
        call.bytes(&[self.name.key()]);
        call.number(self.until.0);
        call.number(BANS_MAX as u64);
    }

    fn parse(reply: &mut Reply) -> Result<(), Error> {
        match reply.number()? {
            0 => Ok(()),
            status => unknown_status(status),
        }
    }

    fn decide(&self, index: &mut BanIndex, now: Timestamp) {
        index.insert(self.name.key(), self.until);
        index.trim(now, BANS_MAX, TRIM_MAX);
    }
}
