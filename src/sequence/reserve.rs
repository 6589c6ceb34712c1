//! Reserves values of a sequence ahead, before any of them is given out.

use super::{Counter, Sequence, VALUE_MAX, allotment::decimal};
use crate::{
    confirmation::Confirmation,
    decision::{Call, Decision, Judge, Listing, Reply, Unconfirmed},
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
    pub sequence: Sequence,
    /// The last value that is needed.
    pub last: u64,
    /// How many to reserve beyond it, as far as a calendar reaches.
    pub ahead: u64,
    /// Which replicas have to have it.
    pub confirmation: Confirmation,
}

impl ReserveSequence {
    fn upto(&self) -> u64 {
        self.last.saturating_add(self.ahead).min(self.sequence.value_max())
    }
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
        self.sequence.partition()
    }

    fn listing(&self) -> Listing {
        Listing::Same
    }

    fn confirmation(&self) -> Confirmation {
        self.confirmation
    }

    fn judge(&self, _: &str) -> Option<Judge> {
        Some(Judge::of::<ReserveSequence>(|_| Unconfirmed::Void))
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"counter"]);
        call.number(self.last);
        call.number(self.upto());
        call.number(self.sequence.value_max());
        match self.sequence.dating() {
            Some(dating) => call.bytes(&[dating.reserving().packed().as_bytes()]),
            None => call.bytes(&[]),
        }
    }

    fn parse(reply: &mut Reply) -> Result<Reservation, Error> {
        match reply.number()? {
            0 => Ok(Reservation { upto: decimal(reply)?, epoch: reply.bytes()? }),
            status => Err(Error::Corrupt(format!("a reply of unknown status {status}"))),
        }
    }

    fn decide(&self, counter: &mut Counter, now: Timestamp) -> Reservation {
        let furthest = self.sequence.dating().map(|dating| dating.reserving().furthest(now));
        let upto = self.upto().min(furthest.unwrap_or(VALUE_MAX)).max(self.last);
        let marks = counter.marks.get_or_insert_default();
        marks.reserved = marks.reserved.max(upto);
        Reservation { upto: marks.reserved, epoch: Vec::new() }
    }
}
