//! Lines of sequences.

use serde::{Deserialize, Serialize};

use super::{Checked, Text};
use crate::sequence::{COUNT_MAX, VALUE_MAX};

/// The state of a sequence. No value above `last` was given out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SequenceLine {
    pub(crate) sequence: Text,
    /// Of a layout with a calendar: its smallest unit and the count of numbers per period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) calendar: Option<Text>,
    pub(crate) last: u64,
    /// When `last` was given out, µs; 0 if unknown.
    pub(crate) time: u64,
}

/// A replay-cache entry: the values that a request got.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RangeLine {
    pub(crate) sequence: Text,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) calendar: Option<Text>,
    pub(crate) request: Text,
    pub(crate) last: u64,
    pub(crate) step: u64,
    pub(crate) count: u64,
    #[serde(default)]
    pub(crate) floor_applied: bool,
    pub(crate) forget: u64,
}

impl SequenceLine {
    pub(super) fn check(&self, checked: &mut Checked) {
        check_name(&self.sequence, self.calendar.as_ref(), checked);
        checked.at_most("last", self.last, VALUE_MAX);
        checked.times([("time", self.time)]);
    }
}

impl RangeLine {
    pub(super) fn check(&self, checked: &mut Checked) {
        check_name(&self.sequence, self.calendar.as_ref(), checked);
        checked.name("request", &self.request);
        checked.at_most("last", self.last, VALUE_MAX);
        checked.at_most("count", self.count, COUNT_MAX);
        checked.times([("forget", self.forget)]);
        let span = self.count.checked_sub(1).and_then(|n| n.checked_mul(self.step));
        if self.step == 0 || span.is_none_or(|span| span > self.last) {
            checked.refuse("last, step and count are no range".to_owned());
        }
    }
}

fn check_name(sequence: &Text, calendar: Option<&Text>, checked: &mut Checked) {
    checked.name("sequence", sequence);
    if let Some(calendar) = calendar {
        checked.name("calendar", calendar);
    }
}
