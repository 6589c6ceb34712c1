//! The configuration of sequences.
//!
//! The layout decides which values a sequence has: another unit or width of its calendar starts
//! another sequence, with its own last value, but another text or padding does not.

use std::sync::Arc;

use super::Layout;
use crate::{acknowledgement::Acknowledgement, globs::ScopedGlobs, names::Name};

/// The configuration of the sequences whose name matches a glob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceRule {
    /// The glob of the namespaces of the sequences; `None` for the default namespace only.
    pub namespace: Option<String>,
    /// The glob.
    pub pattern: String,
    /// The layout of the values; `None` for values only.
    pub layout: Option<Arc<Layout>>,
    /// How to reserve values ahead; `None` for no reservation.
    pub reserve: Option<Reserve>,
}

/// Values are reserved ahead. They stay distinct even if a failover of the store loses its last
/// writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserve {
    /// The number of values of one reservation.
    pub block: u64,
    /// The replicas that must acknowledge a reservation before it is used.
    pub acknowledgement: Acknowledgement,
}

/// The configuration of all sequences.
#[derive(Debug, Clone, Default)]
pub struct Sequences {
    patterns: ScopedGlobs,
    rules: Vec<SequenceRule>,
}

impl Sequences {
    /// Creates the set of rules. The first one that matches a name applies. Fails if a glob is
    /// invalid.
    pub fn new(rules: Vec<SequenceRule>) -> Result<Sequences, globset::Error> {
        let globs = rules.iter().map(|rule| (rule.namespace.as_deref(), &rule.pattern));
        let patterns = ScopedGlobs::new(globs)?;
        Ok(Sequences { patterns, rules })
    }

    /// Returns the same rules without reservations, for an engine that cannot fail over.
    pub fn without_reserve(&self) -> Sequences {
        let rules =
            self.rules.iter().cloned().map(|rule| SequenceRule { reserve: None, ..rule }).collect();
        Sequences { patterns: self.patterns.clone(), rules }
    }

    /// Returns the rule of a sequence, if one matches.
    pub fn rule(&self, name: &Name) -> Option<&SequenceRule> {
        self.patterns.first(name).map(|index| &self.rules[index])
    }
}
