//! The export lines of a sequence.

use serde::{Deserialize, Serialize};

use super::{
    COUNT_MAX, Counter, Range, VALUE_MAX,
    record::{Head, REPLAY},
};
use crate::{
    names::SEPARATOR,
    record::{Changes, Checked, EntryLine, Text, Unreadable, decode, encode},
    time::Timestamp,
};

/// The state of a sequence. No value above `last` was issued.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SequenceLine {
    /// The name of the sequence.
    sequence: Text,
    /// For a layout with a calendar: its smallest unit and the count of numbers per period.
    calendar: Option<Text>,
    /// The last value, in its stored form: with a calendar it counts the numbers of all periods.
    last: u64,
    /// When `last` was issued; 0 if unknown.
    time: Timestamp,
}

/// A replay-cache entry: the values that a request was given.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RangeLine {
    sequence: Text,
    calendar: Option<Text>,
    /// The request id.
    request: Text,
    /// The fields `last`, `step` and `count`.
    #[serde(flatten)]
    range: Range,
    /// Whether the floor was above the next value.
    #[serde(default)]
    floor_applied: bool,
    /// Until when a repeat gets these values, in µs.
    forget: Timestamp,
}

/// Splits a partition into the name of the sequence and its calendar.
fn split(partition: &[u8]) -> (Text, Option<Text>) {
    let mut parts = partition.splitn(2, |byte| *byte == SEPARATOR).map(Text::new);
    (parts.next().unwrap_or_default(), parts.next())
}

/// Returns the partition of a sequence with this calendar.
fn partition(sequence: &Text, calendar: Option<&Text>) -> Vec<u8> {
    match calendar {
        Some(calendar) => [&sequence.0[..], &[SEPARATOR], &calendar.0].concat(),
        None => sequence.0.clone(),
    }
}

fn check_names(sequence: &Text, calendar: Option<&Text>, checked: &mut Checked) {
    checked.name("sequence", sequence);
    calendar.into_iter().for_each(|calendar| checked.name("calendar", calendar));
}

impl SequenceLine {
    /// Returns the line of a head. `None` for a sequence that has only reserved values.
    pub fn from_entry(partition: &[u8], value: &[u8]) -> Result<Option<Self>, Unreadable> {
        let (last, _): Head = decode(value)?;
        let (sequence, calendar) = split(partition);
        Ok(last.map(|(last, time)| SequenceLine { sequence, calendar, last, time }))
    }
}

impl RangeLine {
    /// Returns the line of a stored answer.
    pub fn from_entry(partition: &[u8], request: &[u8], value: &[u8]) -> Result<Self, Unreadable> {
        let (forget, (range, floor_applied)) = decode(value)?;
        let ((sequence, calendar), request) = (split(partition), Text::new(request));
        Ok(RangeLine { sequence, calendar, request, range, floor_applied, forget })
    }
}

impl EntryLine for SequenceLine {
    fn check(&self, checked: &mut Checked) {
        check_names(&self.sequence, self.calendar.as_ref(), checked);
        checked.at_most("last", self.last, VALUE_MAX);
        checked.times([("time", self.time)]);
    }

    fn record(&self, to: &mut Changes) -> Result<(), &'static str> {
        let head: Head = (Some((self.last, self.time)), None);
        let mut value = Vec::new();
        encode(&head, &mut value);
        to.set_partition::<Counter>(&partition(&self.sequence, self.calendar.as_ref()));
        to.head(&value);
        Ok(())
    }
}

impl EntryLine for RangeLine {
    fn check(&self, checked: &mut Checked) {
        let Range { last, step, count } = self.range;
        check_names(&self.sequence, self.calendar.as_ref(), checked);
        checked.name("request", &self.request);
        checked.at_most("last", last, VALUE_MAX);
        checked.at_most("count", count, COUNT_MAX);
        checked.times([("forget", self.forget)]);
        let span = count.checked_sub(1).and_then(|n| n.checked_mul(step));
        if step == 0 || span.is_none_or(|span| span > last) {
            checked.refuse("last, step and count do not form a range".to_owned());
        }
    }

    fn forget(&self) -> Option<u64> {
        Some(self.forget.0)
    }

    fn record(&self, to: &mut Changes) -> Result<(), &'static str> {
        to.set_partition::<Counter>(&partition(&self.sequence, self.calendar.as_ref()));
        to.put(&[&[REPLAY], &self.request.0], &(self.forget, (self.range, self.floor_applied)));
        Ok(())
    }
}
