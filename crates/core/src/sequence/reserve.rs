//! `ReserveSequence`: reserves values of a sequence before any of them is allocated.

use super::{Counter, Sequence, VALUE_MAX, allocation::decimal, counter::ReservedBlock};
use crate::{
    Call, Decision, Properties, Reply, Revocable, Undo, UndoRule,
    acknowledgement::Acknowledgement,
    error::Error,
    script::{self, Script},
    time::Timestamp,
};

/// Raises the reserved mark of a sequence and lets replicas acknowledge it.
///
/// The mark rises to the needed value plus `ahead`, within the reach of the calendar; it never
/// falls. The engine sends this decision if a NextSequence would pass the confirmed mark, and then
/// repeats the NextSequence, so one acknowledgement is enough for a block of values.
///
/// After a failover, values up to the replicated mark count as allocated, because the old primary
/// may have allocated them. Values that were reserved in another epoch are therefore skipped. A
/// repeat leaves the mark as it is.
#[derive(Debug, Clone)]
pub struct ReserveSequence {
    /// The sequence.
    pub sequence: Sequence,
    /// The last value that is needed.
    pub last: u64,
    /// The number of values to reserve beyond `last`, limited by the reach of the calendar.
    pub ahead: u64,
    /// The replicas that must acknowledge the mark.
    pub acknowledgement: Acknowledgement,
}

impl ReserveSequence {
    /// Returns the last value to reserve, before the limit of the calendar.
    fn upto(&self) -> u64 {
        self.last.saturating_add(self.ahead).min(self.sequence.value_max())
    }
}

impl Decision for ReserveSequence {
    type State = Counter;
    type Outcome = ReservedBlock;

    const SCRIPT: &'static Script = &script::sequence::RESERVE;
    const PROPERTIES: Properties<ReserveSequence> =
        Properties { creates: |_| true, ..Properties::DEFAULT }.revocable();

    fn partition(&self) -> &[u8] {
        self.sequence.partition()
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

    fn parse(reply: &mut Reply) -> Result<ReservedBlock, Error> {
        reply.ok()?;
        Ok(ReservedBlock { upto: decimal(reply)?, epoch: reply.bytes()? })
    }

    fn decide(&self, counter: &mut Counter, now: Timestamp) -> ReservedBlock {
        let furthest = self.sequence.dating().map(|dating| dating.reserving().furthest(now));
        // Limited by the reach of the calendar, but never below the values that are needed.
        let upto = self.upto().min(furthest.unwrap_or(VALUE_MAX)).max(self.last);
        let marks = counter.marks.get_or_insert_default();
        marks.reserved = marks.reserved.max(upto);
        ReservedBlock { upto: marks.reserved, epoch: Vec::new() }
    }
}

impl Revocable for ReserveSequence {
    fn acknowledgement(&self) -> Acknowledgement {
        self.acknowledgement
    }

    /// A failover can lose a mark that was not acknowledged. That does no harm, because no value
    /// above the last acknowledged mark was issued.
    fn undo_rule(&self, _: &str) -> UndoRule {
        UndoRule::from_outcome::<ReserveSequence>(|_| Undo::Void)
    }
}
