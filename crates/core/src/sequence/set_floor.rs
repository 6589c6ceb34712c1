//! `SetSequenceFloor`: moves a sequence forward.

use super::{Counter, Reserve, Sequence, allocation::decimal};
use crate::{
    Call, Decision, Outcomes, Properties, Reply, Revocable, Undo, UndoRule,
    acknowledgement::Acknowledgement,
    error::Error,
    script::{self, Script},
    statuses,
    time::Timestamp,
    unknown_status,
};

statuses! { SET_FLOOR_APPLIED = 0, SET_FLOOR_NOT_ABOVE = 1, SET_FLOOR_TOO_FAR_AHEAD = 2 }

/// Raises the last value of a sequence to the one before `floor`, and creates the sequence.
///
/// A floor that is not above the last value is `NotAbove`, and one beyond the reach of the calendar
/// is `TooFarAhead`; both change nothing. Reserved values are dropped, and the next NextSequence
/// reserves again. A repeat changes nothing more.
#[derive(Debug, Clone)]
pub struct SetSequenceFloor {
    /// The sequence.
    pub sequence: Sequence,
    /// The lower bound of the next value, at most [`Sequence::value_max`].
    pub floor: u64,
    /// How the sequence reserves values ahead; `None` if it does not.
    pub reserve: Option<Reserve>,
}

/// The answer to SetSequenceFloor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Floor {
    /// The next value is above this one, which is the value before the floor.
    Applied(u64),
    /// The floor is not above this last value; nothing changed.
    NotAbove(u64),
    /// The floor is too far ahead of the clock; nothing changed.
    TooFarAhead,
}

impl SetSequenceFloor {
    /// Returns the value before the floor.
    fn before(&self) -> u64 {
        self.floor.saturating_sub(1)
    }
}

impl Decision for SetSequenceFloor {
    type State = Counter;
    type Outcome = Floor;

    const SCRIPT: &'static Script = &script::sequence::SET_FLOOR;
    const PROPERTIES: Properties<SetSequenceFloor> = Properties::<Self> {
        creates: |_| true,
        outcomes: Outcomes::new(
            &["applied", "not_above", "too_far_ahead"],
            |outcome| match outcome {
                Floor::Applied(_) => 0,
                Floor::NotAbove(_) => 1,
                Floor::TooFarAhead => 2,
            },
        ),
        ..Properties::DEFAULT
    }
    .revocable();

    fn partition(&self) -> &[u8] {
        self.sequence.partition()
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"counter"]);
        call.number(self.floor);
        call.number(self.before());
        call.number(self.sequence.value_max());
        match self.sequence.dating() {
            Some(dating) => call.bytes(&[dating.packed().as_bytes()]),
            None => call.bytes(&[]),
        }
        call.number(u64::from(self.reserve.is_some()));
    }

    fn parse(reply: &mut Reply) -> Result<Floor, Error> {
        match reply.number()? {
            SET_FLOOR_APPLIED => Ok(Floor::Applied(decimal(reply)?)),
            SET_FLOOR_NOT_ABOVE => Ok(Floor::NotAbove(decimal(reply)?)),
            SET_FLOOR_TOO_FAR_AHEAD => Ok(Floor::TooFarAhead),
            status => unknown_status(status),
        }
    }

    fn decide(&self, counter: &mut Counter, now: Timestamp) -> Floor {
        let mut last = counter.last.map(|(last, _)| last);
        if let Some(marks) = counter.marks.filter(|_| self.reserve.is_none()) {
            // Another server that reserves may already be issuing values up to this mark.
            last = last.max(Some(marks.reserved));
        }
        let furthest = self.sequence.dating().map(|dating| dating.furthest(now));
        match last.filter(|last| *last > self.before()) {
            Some(last) => Floor::NotAbove(last),
            None if furthest.is_some_and(|furthest| self.floor > furthest) => Floor::TooFarAhead,
            None => {
                counter.last = Some((self.before(), now));
                counter.marks = None;
                Floor::Applied(self.before())
            }
        }
    }
}

impl Revocable for SetSequenceFloor {
    /// As configured for the reservations of the sequence, so that a failover does not lose the
    /// floor.
    fn acknowledgement(&self) -> Acknowledgement {
        self.reserve.map_or(Acknowledgement::NONE, |reserve| reserve.acknowledgement)
    }

    /// The floor stands, but a failover may lose it. A repeat waits for the replicas again.
    fn undo_rule(&self, _: &str) -> UndoRule {
        UndoRule::from_outcome::<SetSequenceFloor>(|floor| match floor {
            Floor::Applied(_) => Undo::Stands,
            Floor::NotAbove(_) | Floor::TooFarAhead => Undo::Counts,
        })
    }
}
