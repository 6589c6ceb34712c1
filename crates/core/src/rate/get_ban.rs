//! `GetBan`: reads the ban of a key, for ListBans.

use super::{Ban, Meter, MeterName, unknown_status};
use crate::{
    Call, Cost, Decision, Properties, Reply,
    error::Error,
    script::{self, Script},
    stages, statuses,
    time::Timestamp,
};

statuses! { GET_BAN_NONE = 0, GET_BAN_BANNED = 1 }

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
    type Stages = stages::Direct;

    const SCRIPT: &'static Script = &script::rate::GET_BAN;
    const PROPERTIES: Properties<GetBan> =
        Properties { cost: |_| Cost::of(10), ..Properties::DEFAULT };

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
