//! `GetSequence`: reads the last allocated value of a sequence.

use super::{Counter, Sequence, allocation::decimal};
use crate::decision::{
    Call, Decision, Listing, Reply,
    error::Error,
    script::{self, Script},
    time::Timestamp,
    unknown_status,
};

/// Reads the last allocated value and its time; `None` if no value was allocated. Changes nothing.
#[derive(Debug, Clone)]
pub struct GetSequence {
    /// The sequence.
    pub sequence: Sequence,
}

impl Decision for GetSequence {
    type State = Counter;
    type Outcome = Option<(u64, Timestamp)>;

    const SCRIPT: &'static Script = &script::GET_SEQUENCE;

    fn partition(&self) -> &[u8] {
        self.sequence.partition()
    }

    fn listing(&self) -> Listing {
        Listing::Same
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"counter"]);
        call.number(self.sequence.value_max());
    }

    fn parse(reply: &mut Reply) -> Result<Option<(u64, Timestamp)>, Error> {
        match reply.number()? {
            0 => Ok(None),
            1 => Ok(Some((decimal(reply)?, Timestamp(decimal(reply)?)))),
            status => unknown_status(status),
        }
    }

    fn decide(&self, counter: &mut Counter, _: Timestamp) -> Option<(u64, Timestamp)> {
        counter.last
    }
}
