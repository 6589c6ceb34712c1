//! Reserves values of a sequence ahead, before any of them is given out.

use super::{Counter, SequenceName, allotment::decimal};
use crate::{
    decision::{Call, Decision, Listing, Reply},
    error::Error,
    script::{self, Script},
    time::Timestamp,
};

/// Raises the high-water mark of a sequence, and sees to it that the replicas
/// have it. What was reserved in another process of the store may have been given
/// out there: it is passed over.
#[derive(Debug, Clone)]
pub struct ReserveSequence {
    /// Of which sequence.
    pub name: SequenceName,
    /// The value to reserve up to, at most [`VALUE_MAX`](super::VALUE_MAX).
    pub upto: u64,
    /// How many replicas have to have it.
    pub replicas: u32,
}

impl Decision for ReserveSequence {
    type State = Counter;
    /// What is reserved now.
    type Outcome = u64;

    const SCRIPT: &'static Script = &script::RESERVE_SEQUENCE;

    fn partition(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn listing(&self) -> Listing {
        Listing::Same
    }

    fn replicas(&self) -> u32 {
        self.replicas
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"counter"]);
        call.number(self.upto);
        call.instance();
    }

    fn parse(reply: &mut Reply) -> Result<u64, Error> {
        match reply.number()? {
            0 => decimal(reply),
            status => Err(Error::Corrupt(format!("a reply of unknown status {status}"))),
        }
    }

    fn decide(&self, counter: &mut Counter, _: Timestamp) -> u64 {
        let marks = counter.marks.get_or_insert_default();
        marks.reserved = marks.reserved.max(self.upto);
        marks.reserved
    }
}
