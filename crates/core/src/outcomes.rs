//! The names of a verb's outcomes, for metrics.

use std::fmt;

use super::Decision;

/// Maximum number of outcomes of a verb.
pub const OUTCOMES_MAX: usize = 8;

/// The labels of a decision's outcomes.
pub struct Outcomes<D: Decision> {
    /// The labels: the words of the proto in lower case.
    pub labels: &'static [&'static str],
    /// The position of an outcome in `labels`.
    pub index: fn(&D::Outcome) -> usize,
}

impl<D: Decision> Outcomes<D> {
    /// For decisions of the engine itself. They are not counted, because no caller asks for them.
    pub const NONE: Outcomes<D> = Outcomes { labels: &[], index: |_| 0 };
    /// For decisions without a refusal.
    pub const OK: Outcomes<D> = Outcomes { labels: &["ok"], index: |_| 0 };

    /// Names the outcomes.
    pub const fn new(labels: &'static [&'static str], index: fn(&D::Outcome) -> usize) -> Self {
        assert!(labels.len() <= OUTCOMES_MAX, "too many outcomes");
        Outcomes { labels, index }
    }

    /// The label of an outcome.
    pub fn label(&self, outcome: &D::Outcome) -> &'static str {
        self.labels.get((self.index)(outcome)).copied().unwrap_or_default()
    }
}

impl<D: Decision> fmt::Debug for Outcomes<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcomes").field("labels", &self.labels).finish_non_exhaustive()
    }
}
