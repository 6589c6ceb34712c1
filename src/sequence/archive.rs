//! Export and import of a sequence: persisted entries as lines of an export file, and back.

use super::{COUNT_MAX, Counter, Range, VALUE_MAX, counter::Marks, record::REPLAY};
use crate::decision::{
    export::{Checked, Line, RangeLine, SequenceLine, Text},
    names::SEPARATOR,
    persistence::{Changes, Unreadable, decode, encode, split_part, unknown_part},
    time::Timestamp,
};

impl Counter {
    /// The line of a persisted entry. `None` for a sequence that has only reserved values:
    /// reservations are not exported, because the last value is exact and the target engine
    /// reserves again.
    pub(crate) fn archive(
        partition: &[u8],
        part: &[u8],
        value: &[u8],
    ) -> Result<Option<Line>, Unreadable> {
        let (sequence, calendar) = split_calendar(partition);
        match split_part(part) {
            (0, _) => {
                let (last, _) = decode::<(Option<(u64, Timestamp)>, Option<Marks>)>(value)?;
                Ok(last.map(|(last, time)| {
                    Line::Sequence(SequenceLine { sequence, calendar, last, time: time.0 })
                }))
            }
            (REPLAY, request) => {
                let (forget, (range, floor_applied)) = decode::<(Timestamp, (Range, bool))>(value)?;
                let (request, forget) = (Text::new(request), forget.0);
                let Range { last, step, count } = range;
                Ok(Some(Line::SequenceReplay(RangeLine {
                    sequence,
                    calendar,
                    request,
                    last,
                    step,
                    count,
                    floor_applied,
                    forget,
                })))
            }
            _ => unknown_part(part),
        }
    }
}

/// Splits a partition into the name of the sequence and its calendar.
pub(crate) fn split_calendar(partition: &[u8]) -> (Text, Option<Text>) {
    match partition.iter().position(|byte| *byte == SEPARATOR) {
        Some(at) => (Text::new(&partition[..at]), Some(Text::new(&partition[at + 1..]))),
        None => (Text::new(partition), None),
    }
}

/// The partition of a sequence with this calendar.
fn partition(sequence: &Text, calendar: Option<&Text>) -> Vec<u8> {
    match calendar {
        Some(calendar) => [&sequence.0[..], &[SEPARATOR], &calendar.0].concat(),
        None => sequence.0.clone(),
    }
}

impl SequenceLine {
    /// The partition.
    pub(crate) fn partition(&self) -> Vec<u8> {
        partition(&self.sequence, self.calendar.as_ref())
    }

    /// Appends the entry of this line to a write batch.
    pub(crate) fn record(&self, to: &mut Changes) {
        let (last, marks) = (Some((self.last, Timestamp(self.time))), None::<Marks>);
        let mut head = Vec::new();
        encode(&(last, marks), &mut head);
        to.of::<Counter>(&self.partition());
        to.head(&head);
    }
}

impl RangeLine {
    /// The partition.
    pub(crate) fn partition(&self) -> Vec<u8> {
        partition(&self.sequence, self.calendar.as_ref())
    }

    /// Appends the entry of this line to a write batch.
    pub(crate) fn record(&self, to: &mut Changes) {
        let range = Range { last: self.last, step: self.step, count: self.count };
        to.of::<Counter>(&self.partition());
        let value = (Timestamp(self.forget), (range, self.floor_applied));
        to.put(&[&[REPLAY], &self.request.0], &value);
    }
}

impl SequenceLine {
    pub(crate) fn check(&self, checked: &mut Checked) {
        check_name(&self.sequence, self.calendar.as_ref(), checked);
        checked.at_most("last", self.last, VALUE_MAX);
        checked.times([("time", self.time)]);
    }
}

impl RangeLine {
    pub(crate) fn check(&self, checked: &mut Checked) {
        check_name(&self.sequence, self.calendar.as_ref(), checked);
        checked.name("request", &self.request);
        checked.at_most("last", self.last, VALUE_MAX);
        checked.at_most("count", self.count, COUNT_MAX);
        checked.times([("forget", self.forget)]);
        let span = self.count.checked_sub(1).and_then(|n| n.checked_mul(self.step));
        if self.step == 0 || span.is_none_or(|span| span > self.last) {
            checked.refuse("last, step and count do not form a range".to_owned());
        }
    }
}

fn check_name(sequence: &Text, calendar: Option<&Text>, checked: &mut Checked) {
    checked.name("sequence", sequence);
    if let Some(calendar) = calendar {
        checked.name("calendar", calendar);
    }
}
