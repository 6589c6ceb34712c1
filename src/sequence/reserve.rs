//! Reserves values of a sequence ahead, before any of them is given out.

use super::{Counter, SequenceName, allotment::decimal};
use crate::{
    decision::{Call, Decision, Listing, Reply},
    error::Error,
    script::{self, Script},
    time::Timestamp,
};

/// Raises the high-water mark of a sequence, and sees to it that the replicas
/// have it. What was reserved in another epoch of the store may have been given out
/// in it: it is passed over.
#[derive(Debug, Clone)]
pub struct ReserveSequence {
    /// Of which sequence.
    pub name: SequenceName,
    /// The value to reserve up to.
    pub upto: u64,
    /// The greatest value it can have.
    pub value_max: u64,
    /// How many replicas have to have it.
    pub replicas: u32,
}

/// What is reserved of a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// No value above it was given out.
    pub upto: u64,
    /// Names the store while it leads: another one after a restart or a failover. On
    /// the embedded engine there is but one, without a name.
    pub epoch: Vec<u8>,
}

impl Decision for ReserveSequence {
    type State = Counter;
    type Outcome = Reservation;

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
        call.number(self.upto.min(self.value_max));
        call.number(self.value_max);
    }

    fn parse(reply: &mut Reply) -> Result<Reservation, Error> {
        match reply.number()? {
            0 => Ok(Reservation { upto: decimal(reply)?, epoch: reply.bytes()? }),
            status => Err(Error::Corrupt(format!("a reply of unknown status {status}"))),
        }
    }

    fn decide(&self, counter: &mut Counter, _: Timestamp) -> Reservation {
        let marks = counter.marks.get_or_insert_default();
        marks.reserved = marks.reserved.max(self.upto.min(self.value_max));
        Reservation { upto: marks.reserved, epoch: Vec::new() }
    }
}
