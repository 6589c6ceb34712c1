//! `NextSequence`: gives out the next values of a sequence.

use super::{
    COUNT_MAX, Counter, REPLAY, Reservation, Reserve, Sequence, VALUE_MAX,
    allotment::{Allotment, Range},
};
use crate::{
    decision::{Call, Decision, Joined, Listing, Reply},
    error::Error,
    names::Name,
    script::{self, Script},
    time::Timestamp,
};

/// Asks for values that nobody else is ever given.
#[derive(Debug, Clone)]
pub struct NextSequence {
    /// Of which sequence.
    pub sequence: Sequence,
    /// How many; at least one.
    pub count: u64,
    /// From one to the next, and from the last one given out; `count` times it is
    /// at most [`VALUE_MAX`].
    pub step: u64,
    /// No value is below it.
    pub floor: Option<u64>,
    /// Names the request, so that a repeat gets the first answer.
    pub request: Option<Name>,
    /// Whether values are reserved ahead.
    pub reserve: Option<Reserve>,
    /// The reservation that the replicas are known to have.
    pub confirmed: Option<Reservation>,
}

impl NextSequence {
    /// From the first value to the last.
    fn span(&self) -> u64 {
        (self.count - 1) * self.step
    }

    /// `now` is the time that a calendar goes by.
    fn allot(&self, last: Option<u64>, confirmed: Option<u64>, now: Timestamp) -> Allotment {
        let dating = self.sequence.dating();
        let base = dating.map(|dating| dating.first(now));
        // Two values of 63 bits: no sum of them overflows.
        let next = last.map_or(base.unwrap_or(self.step), |last| last + self.step);
        let next = next.max(base.unwrap_or(0));
        let floor = self.floor.filter(|floor| *floor > next);
        let first = floor.unwrap_or(next);
        let range = first.checked_add(self.span()).filter(|end| *end <= self.sequence.value_max());
        let Some(end) = range else { return Allotment::OutOfRange };
        if let Some(furthest) = dating.map(|dating| dating.furthest(now)) {
            // A sequence that lies beyond it already goes on, by its own numbers.
            let beyond = last.filter(|last| *last > furthest && floor.is_none());
            if end > beyond.map_or(furthest, |last| last + COUNT_MAX) {
                let by_floor = floor.is_some_and(|floor| floor > furthest);
                return Allotment::TooFarAhead { by_floor };
            }
        }
        if confirmed.is_some_and(|confirmed| end > confirmed) {
            return Allotment::Unreserved { last: end };
        }
        let range = Range { last: end, step: self.step, count: self.count };
        Allotment::Given { range, floor_applied: floor.is_some(), replayed: false }
    }
}

impl Decision for NextSequence {
    type State = Counter;
    type Outcome = Allotment;

    const SCRIPT: &'static Script = &script::NEXT_SEQUENCE;

    fn partition(&self) -> &[u8] {
        self.sequence.partition()
    }

    fn listing(&self) -> Listing {
        Listing::Same
    }

    fn settles(&self, outcome: &Allotment) -> bool {
        // A refusal cannot say that nothing was given out at the first try, unless
        // that would have been repeated.
        self.request.is_some() || matches!(outcome, Allotment::Given { .. })
    }

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

    fn parse(reply: &mut Reply) -> Result<Allotment, Error> {
        Allotment::parse(reply)
    }

    fn decide(&self, counter: &mut Counter, now: Timestamp) -> Allotment {
        self.decide_above(counter, now, Timestamp(0))
    }

    fn decide_above(&self, counter: &mut Counter, now: Timestamp, floor: Timestamp) -> Allotment {
        let request = self.request.as_ref().map(Name::as_bytes);
        if let Some(&(range, floor_applied)) =
            request.and_then(|request| counter.replays.get(request, now))
        {
            return Allotment::Given { range, floor_applied, replayed: true };
        }
        let mut last = counter.last.map(|(last, _)| last);
        let confirmed = self.reserve.map(|_| counter.confirmed(self.confirmed.as_ref()));
        if let Some(marks) = counter.marks.filter(|_| self.reserve.is_none()) {
            // Whoever reserves may give it out elsewhere.
            last = last.max(Some(marks.reserved));
        }
        let allotment = self.allot(last, confirmed, now.max(floor));
        if let Allotment::Given { range, floor_applied, .. } = allotment {
            counter.last = Some((range.last, now));
            if let Some((marks, confirmed)) = counter.marks.as_mut().zip(confirmed) {
                marks.confirmed = confirmed;
            }
            if let Some(request) = request {
                let forget = now.after(REPLAY);
                counter.replays.keep(request, (range, floor_applied), forget, now);
            }
        }
        allotment
    }
}

impl Joined for NextSequence {
    /// Whoever comes behind gets what it would have got by itself: the same step
    /// further, above a floor that is no higher than the first one's.
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

    fn share(outcome: &Allotment, joined: &[NextSequence]) -> Option<Vec<Allotment>> {
        outcome.share(joined.iter().map(|one| one.count))
    }
}
