//! `GetKey`: reads the usage, the ban and the strikes of a key.

use std::sync::Arc;

use super::{Ban, LimitUse, Meter, MeterName, Rule, unknown_status};
use crate::{
    Call, Cost, Decision, Outcomes, Properties, Reply,
    error::Error,
    script::{self, Script},
    statuses,
    time::Timestamp,
};

statuses! { GET_KEY_FREE = 0, GET_KEY_BANNED = 1 }

/// Reads the usage of a key under each limit of a rule, its ban and its strikes. Counts nothing and
/// changes nothing.
///
/// The counts are those of a check of cost 0 at the same time. Stored usage that the current
/// numbers of a limit convert is not stored again.
#[derive(Debug, Clone)]
pub struct GetKey {
    /// The policy and the key.
    pub name: MeterName,
    /// The rule; `None` for a domain of Envoy's service, whose rules come with its calls.
    pub rule: Option<Arc<Rule>>,
}

/// The state of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyState {
    /// The usage of each limit, in the order of the rule.
    pub limits: Vec<LimitUse>,
    /// The ban in force.
    pub ban: Option<Ban>,
    /// The number of bans that the next one follows; 0 once they are forgotten.
    pub strikes: u32,
}

impl Decision for GetKey {
    type State = Meter;
    type Outcome = KeyState;

    const SCRIPT: &'static Script = &script::rate::GET_KEY;
    const PROPERTIES: Properties<GetKey> = Properties {
        cost: |get| get.rule.as_ref().map_or(Cost::from_micros(10), |rule| rule.cost()),
        outcomes: Outcomes::OK,
        ..Properties::DEFAULT
    };

    fn partition(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        self.name.push_key(call, b"usage");
        self.name.push_key(call, b"ban");
        call.bytes(&[self.rule.as_ref().map_or(&[][..], |rule| &rule.packed[0])]);
    }

    fn parse(reply: &mut Reply) -> Result<KeyState, Error> {
        let (ban, strikes) = match reply.number()? {
            GET_KEY_FREE => (None, u32::try_from(reply.number()?).unwrap_or(u32::MAX)),
            GET_KEY_BANNED => {
                let ban = Ban::parse(reply)?;
                let strikes = ban.strikes;
                (Some(ban), strikes)
            }
            status => return unknown_status(status),
        };
        Ok(KeyState { limits: LimitUse::parse_all(reply)?, ban, strikes })
    }

    fn decide(&self, meter: &mut Meter, now: Timestamp) -> KeyState {
        let limits = |rule: &Arc<Rule>| LimitUse::of_rule(rule, &meter.load(rule, now).usages, now);
        let known = meter.ban(now);
        KeyState {
            limits: self.rule.as_ref().map(limits).unwrap_or_default(),
            ban: known.filter(|ban| ban.until > now).cloned().map(Ban::from),
            strikes: known.map_or(0, |ban| ban.strikes),
        }
    }
}
