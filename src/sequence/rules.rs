//! What the configuration says of sequences.

use std::sync::Arc;

use super::Layout;
use crate::{confirmation::Confirmation, globs::Globs, names::Name};

/// The rule of the sequences whose name matches a glob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceRule {
    /// The glob.
    pub pattern: String,
    /// How values are written; none for values alone.
    pub layout: Option<Arc<Layout>>,
    /// Whether values are reserved ahead.
    pub reserve: Option<Reserve>,
}

/// Values are reserved ahead, so that they stay distinct when the store fails over
/// and loses its last writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserve {
    /// How many at a time.
    pub block: u64,
    /// Which replicas have to have a reservation before it is used.
    pub confirmation: Confirmation,
}

/// The rules of every sequence there can be.
#[derive(Debug, Clone, Default)]
pub struct Sequences {
    patterns: Globs,
    rules: Vec<SequenceRule>,
}

impl Sequences {
    /// These rules; for a sequence the first that matches counts. The error is a
    /// glob that cannot be read.
    pub fn new(rules: Vec<SequenceRule>) -> Result<Sequences, globset::Error> {
        let patterns = Globs::new(rules.iter().map(|rule| &rule.pattern))?;
        Ok(Sequences { patterns, rules })
    }

    /// The rule of a sequence, if there is one.
    pub fn rule(&self, name: &Name) -> Option<&SequenceRule> {
        self.patterns.first(name).map(|index| &self.rules[index])
    }
}
