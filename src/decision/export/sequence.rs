//! Lines of sequences.

use serde::{Deserialize, Serialize};

use super::Text;

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
