//! The number of lines in an export.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use tollgate_telemetry::text::grouped;

/// The number of lines, without the first and the last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// The total number.
    pub lines: u64,
    /// The number of each kind.
    pub counts: BTreeMap<String, u64>,
}

impl Counts {
    /// Counts a line of a kind.
    pub fn add(&mut self, kind: &str) {
        self.lines += 1;
        match self.counts.get_mut(kind) {
            Some(count) => *count += 1,
            None => drop(self.counts.insert(kind.to_owned(), 1)),
        }
    }

    /// Returns the number of lines of a kind.
    pub fn of(&self, kind: &str) -> u64 {
        self.counts.get(kind).copied().unwrap_or(0)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.counts.is_empty() {
            return f.write_str("nothing");
        }
        for (index, (kind, count)) in self.counts.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{kind} {}", grouped(*count))?;
        }
        Ok(())
    }
}
