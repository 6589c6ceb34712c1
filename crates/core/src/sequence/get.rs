//! `GetSequence`: reads the last allocated value of a sequence.

use super::{Counter, Sequence, allocation::decimal};
use crate::{
    Call, Decision, Outcomes, Properties, Reply,
    error::Error,
    script::{self, Script},
    statuses,
    time::Timestamp,
    unknown_status,
};

statuses! { GET_NONE = 0, GET_LAST = 1 }

/// Reads the last allocated value and its time; `None` if no value was allocated. Changes nothing.
///
/// The last value does not predict the next one: another call may get that first. Reserved values
/// that were not allocated do not count.
#[derive(Debug, Clone)]
pub struct GetSequence {
    /// The sequence.
    pub sequence: Sequence,
}

impl Decision for GetSequence {
    type State = Counter;
    type Outcome = Option<(u64, Timestamp)>;

    const SCRIPT: &'static Script = &script::sequence::GET;
    const PROPERTIES: Properties<GetSequence> =
        Properties { outcomes: Outcomes::OK, ..Properties::DEFAULT };

    fn partition(&self) -> &[u8] {
        self.sequence.partition()
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"counter"]);
        call.number(self.sequence.value_max());
    }

    fn parse(reply: &mut Reply) -> Result<Option<(u64, Timestamp)>, Error> {
        match reply.number()? {
            GET_NONE => Ok(None),
            GET_LAST => Ok(Some((decimal(reply)?, Timestamp(decimal(reply)?)))),
            status => unknown_status(status),
        }
    }

    fn decide(&self, counter: &mut Counter, _: Timestamp) -> Option<(u64, Timestamp)> {
        counter.last
    }
}
