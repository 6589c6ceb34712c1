//! `NextSequence`: allocates the next values of a sequence.

use super::{
    COUNT_MAX, Counter, Dating, REPLAY, Reserve, ReserveSequence, ReservedBlock, Sequence,
    VALUE_MAX,
    allocation::{Allocation, Range},
};
use crate::{
    Call, Decision, ENTRY_BYTES, Issues, Joined, Outcomes, Properties, Reply,
    error::Error,
    names::Name,
    script::{self, Script},
    time::{RESERVED_AFTER, Timestamp},
};

/// Allocates `count` values that no other caller ever gets.
///
/// The first value is the last one plus `step`, or the floor if that is higher; a new sequence starts
/// at `step`. With a calendar it is at least the first value of the current period. A call with a
/// `request` that was answered in the last 5 minutes gets the same values again, marked `replayed`,
/// whatever its other fields say. The refusals change nothing:
/// - `OutOfRange`: the sequence has too few values left.
/// - `TooFarAhead`: the calendar would be more than `ahead_max` ahead of the clock.
/// - `Unreserved`: the values must be reserved first.
///
/// Without a `request` a repeat gets new values, and the first ones are a gap.
#[derive(Debug, Clone)]
pub struct NextSequence {
    /// The sequence.
    pub sequence: Sequence,
    /// The number of values, 1 to [`COUNT_MAX`]; more for merged requests.
    pub count: u64,
    /// The difference between two values, and between the last allocated value and the first.
    /// `count` times `step` is at most [`VALUE_MAX`].
    pub step: u64,
    /// The lower bound of the values; `None` for none. A floor moves the sequence: values below it
    /// are skipped and never issued later.
    pub floor: Option<u64>,
    /// The request id, which makes repeats safe for 5 minutes.
    pub request: Option<Name>,
    /// How to reserve values ahead; `None` for sequences that do not.
    pub reserve: Option<Reserve>,
    /// The reservation that the replicas have, as far as this server knows.
    pub confirmed: Option<ReservedBlock>,
}

impl NextSequence {
    /// Returns the difference between the last value and the first.
    fn span(&self) -> u64 {
        (self.count - 1) * self.step
    }

    /// Returns the allocation after `last`. `confirmed` is the last reserved value; `None` without
    /// reservations. `now` is the time of the calendar.
    fn allot(&self, last: Option<u64>, confirmed: Option<u64>, now: Timestamp) -> Allocation {
        let dating = self.sequence.dating();
        let base = dating.map(|dating| dating.first(now));
        // Both values have at most 63 bits, so their sum does not overflow.
        let next = last.map_or(base.unwrap_or(self.step), |last| last + self.step);
        // A calendar never allocates a value of a past period.
        let next = next.max(base.unwrap_or(0));
        let floor = self.floor.filter(|floor| *floor > next);
        let first = floor.unwrap_or(next);
        let range = first.checked_add(self.span()).filter(|end| *end <= self.sequence.value_max());
        let Some(end) = range else { return Allocation::OutOfRange };
        if let Some(furthest) = dating.map(|dating| dating.furthest(now)) {
            // A sequence that is already beyond the limit may continue with its own numbers.
            let beyond = last.filter(|last| *last > furthest && floor.is_none());
            if end > beyond.map_or(furthest, |last| last + COUNT_MAX) {
                let by_floor = floor.is_some_and(|floor| floor > furthest);
                return Allocation::TooFarAhead { by_floor };
            }
        }
        if confirmed.is_some_and(|confirmed| end > confirmed) {
            return Allocation::Unreserved { last: end };
        }
        let range = Range { last: end, step: self.step, count: self.count };
        Allocation::Given { range, floor_applied: floor.is_some(), replayed: false }
    }
}

impl Decision for NextSequence {
    type State = Counter;
    type Outcome = Allocation;

    const SCRIPT: &'static Script = &script::sequence::NEXT;
    const PROPERTIES: Properties<NextSequence> = Properties::<Self> {
        // After a refusal, the first attempt may still have allocated values. With a request id it
        // has not, or the repeat would have returned them.
        settles: |next, outcome| {
            next.request.is_some() || matches!(outcome, Allocation::Given { .. })
        },
        creates: |_| true,
        adds: |next| next.request.as_ref().map_or(0, |it| ENTRY_BYTES + it.as_bytes().len() as u64),
        outcomes: Outcomes::new(
            &["given", "out_of_range", "too_far_ahead", "unreserved"],
            |outcome| match outcome {
                Allocation::Given { .. } => 0,
                Allocation::OutOfRange => 1,
                Allocation::TooFarAhead { .. } => 2,
                Allocation::Unreserved { .. } => 3,
            },
        ),
        ..Properties::DEFAULT
    }
    .issues()
    .joined();

    fn partition(&self) -> &[u8] {
        self.sequence.partition()
    }

    /// The span is computed here, since Lua multiplies exactly only below 2^53.
    fn encode(&self, call: &mut Call) {
        let request = self.request.as_ref().map_or(&[][..], Name::as_bytes);
        call.key(&[b"counter"]);
        call.key(&[b"replay:", request]);
        call.number(self.count);
        call.number(self.step);
        call.number(self.span());
        call.optional(self.floor);
        call.number(self.sequence.value_max());
        call.number(if request.is_empty() { 0 } else { REPLAY.micros() });
        match self.sequence.dating() {
            Some(dating) => call.bytes(&[dating.packed().as_bytes()]),
            None => call.bytes(&[]),
        }
        call.number(u64::from(self.reserve.is_some()));
        call.number(self.confirmed.as_ref().map_or(0, |confirmed| confirmed.upto));
        call.bytes(&[self.confirmed.as_ref().map_or(&[], |confirmed| &confirmed.epoch)]);
    }

    fn parse(reply: &mut Reply) -> Result<Allocation, Error> {
        Allocation::parse(reply)
    }

    fn decide(&self, counter: &mut Counter, now: Timestamp) -> Allocation {
        self.decide_above(counter, now, Timestamp(0))
    }
}

impl Issues for NextSequence {
    /// With a calendar the values are at least those of the period of `floor`. All values are
    /// also above the reserved ones (`ahead`).
    fn decide_above(&self, counter: &mut Counter, now: Timestamp, floor: Timestamp) -> Allocation {
        let request = self.request.as_ref().map(Name::as_bytes);
        if let Some(&(range, floor_applied)) =
            request.and_then(|request| counter.replays.get(request, now))
        {
            return Allocation::Given { range, floor_applied, replayed: true };
        }
        let mut last = counter.last.map(|(last, _)| last);
        let confirmed = self.reserve.map(|_| counter.confirmed(self.confirmed.as_ref()));
        if let Some(marks) = counter.marks.filter(|_| self.reserve.is_none()) {
            // Another server that reserves may already be issuing values up to this mark.
            last = last.max(Some(marks.reserved));
        }
        let allocation = self.allot(last, confirmed, now.max(floor));
        if let Allocation::Given { range, floor_applied, .. } = allocation {
            counter.last = Some((range.last, now));
            if let Some(ahead) = &mut counter.ahead {
                let end = now.max(floor).after(RESERVED_AFTER);
                ahead.set_by_clock(self.sequence.dating().map_or(0, |dating| dating.first(end)));
            }
            // Store the caller's knowledge, so that the next call need not reserve again.
            if let Some((marks, confirmed)) = counter.marks.as_mut().zip(confirmed) {
                marks.confirmed = confirmed;
            }
            if let Some(request) = request {
                let forget = now.after(REPLAY);
                counter.replays.insert(request, (range, floor_applied), forget, now);
            }
        }
        allocation
    }
}

impl Joined for NextSequence {
    type Preparation = ReserveSequence;

    /// Merges `next` if it then gets the same values as alone: it has the same step, its floor is
    /// not above the first request's floor, and neither has a request id.
    fn join(&mut self, next: &NextSequence) -> bool {
        let alike = self.step == next.step
            && next.floor <= self.floor
            && self.request.is_none()
            && next.request.is_none();
        let count = self.count + next.count;
        let fits = count.checked_mul(self.step).is_some_and(|delta| delta <= VALUE_MAX);
        if alike && fits {
            self.count = count;
        }
        alike && fits
    }

    fn split(outcome: &Allocation, joined: &[NextSequence]) -> Option<Vec<Allocation>> {
        outcome.split(joined.iter().map(|one| one.count))
    }

    fn is_unprepared(outcome: &Allocation) -> bool {
        matches!(outcome, Allocation::Unreserved { .. })
    }

    /// Reserves the values that the requests need plus one block.
    fn preparation(unprepared: &[(NextSequence, Allocation)]) -> Option<ReserveSequence> {
        let (first, _) = unprepared.first()?;
        let reserve = first.reserve?;
        let lasts = unprepared.iter().filter_map(|(_, outcome)| match outcome {
            Allocation::Unreserved { last } => Some(*last),
            _ => None,
        });
        // Together the requests reach further than each one alone. During the reservation, the
        // clock of a dated sequence advances.
        let per_second = first.sequence.dating().map_or(0, Dating::values_per_second);
        let sizes = unprepared.iter().map(|(one, _)| one.count.saturating_mul(one.step));
        Some(ReserveSequence {
            sequence: first.sequence.clone(),
            last: lasts.max()?,
            ahead: sizes.fold(reserve.block.max(per_second), u64::saturating_add),
            acknowledgement: reserve.acknowledgement,
        })
    }

    fn prepared(&self, reservation: &ReservedBlock) -> NextSequence {
        NextSequence { confirmed: Some(reservation.clone()), ..self.clone() }
    }
}
