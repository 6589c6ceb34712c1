//! Nodes of a domain's tree, and the search for the rule of a descriptor.

use std::sync::Arc;

use ahash::AHashMap;

use super::{rule::EnvoyRule, wildcard::Wildcard};

/// A node: the children for the next entry, and the rule for descriptors that end here.
#[derive(Debug, Default)]
pub(super) struct RuleNode {
    /// By `KEY` or `KEY_VALUE`.
    pub(super) children: AHashMap<Box<[u8]>, RuleNode>,
    /// The children with patterns, in the order of the file.
    pub(super) wildcards: Vec<Wildcard>,
    /// The rule; `None` for a node that only has children, or allows everything.
    pub(super) rule: Option<Arc<EnvoyRule>>,
    /// Whether the value of the entry is in the name of the metric.
    pub(super) value_to_metric: bool,
    /// Whether all values of a pattern have one counter.
    pub(super) share_threshold: bool,
}

/// How an entry was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MatchedBy<'n> {
    /// The key and the value.
    Value,
    /// A pattern of key and value.
    Pattern(&'n [u8]),
    /// The key alone.
    Key,
}

/// One level of a search.
#[derive(Debug, Clone, Copy)]
pub(super) struct RuleStep<'n> {
    pub(super) node: &'n RuleNode,
    pub(super) by: MatchedBy<'n>,
}

/// The rule of a descriptor.
#[derive(Debug)]
pub struct Found<'n> {
    /// The rule.
    pub rule: &'n Arc<EnvoyRule>,
    /// The steps to it, one for each entry.
    pub(super) steps: Vec<RuleStep<'n>>,
}

/// Key and value of an entry.
pub(super) type Entry<'e> = (&'e [u8], &'e [u8]);

impl RuleNode {
    /// Descends by one entry: by key and value, then by the first pattern that matches, then by the
    /// key.
    pub(super) fn step(
        &self,
        (key, value): Entry<'_>,
        joined: &mut Vec<u8>,
    ) -> Option<RuleStep<'_>> {
        if self.children.is_empty() {
            return None;
        }
        joined.clear();
        joined.extend_from_slice(key);
        joined.push(b'_');
        joined.extend_from_slice(value);
        if let Some(node) = self.children.get(joined.as_slice()) {
            return Some(RuleStep { node, by: MatchedBy::Value });
        }
        if let Some(wildcard) = self.wildcards.iter().find(|it| it.matches(joined)) {
            let node = self.children.get(&wildcard.pattern)?;
            return Some(RuleStep { node, by: MatchedBy::Pattern(&wildcard.pattern) });
        }
        self.children.get(key).map(|node| RuleStep { node, by: MatchedBy::Key })
    }

    /// Finds the rule of a descriptor. Its depth must be the number of entries.
    pub(super) fn find<'n, 'e>(
        &'n self,
        entries: impl Iterator<Item = Entry<'e>>,
    ) -> Option<Found<'n>> {
        let (mut node, mut joined, mut steps) = (self, Vec::new(), Vec::new());
        for entry in entries {
            let step = node.step(entry, &mut joined)?;
            steps.push(step);
            node = step.node;
        }
        let is_root = steps.is_empty();
        node.rule.as_ref().filter(|_| !is_root).map(|rule| Found { rule, steps })
    }
}

impl<'n> RuleStep<'n> {
    /// Returns the value of a pattern whose values have one counter.
    pub(super) fn shared_value(&self, key: &[u8]) -> Option<&'n [u8]> {
        match self.by {
            MatchedBy::Pattern(pattern) if self.node.share_threshold => {
                Some(value_of(pattern, key))
            }
            _ => None,
        }
    }
}

/// Returns the value in `KEY_VALUE`, or the whole text if it does not start with `KEY_`, as in
/// envoyproxy/ratelimit.
pub(super) fn value_of<'n>(joined: &'n [u8], key: &[u8]) -> &'n [u8] {
    joined.strip_prefix(key).and_then(|rest| rest.strip_prefix(b"_")).unwrap_or(joined)
}

impl<'n> Found<'n> {
    /// Returns the entries that name the counter: a shared pattern takes the place of its values.
    pub fn counted<'e>(
        &self,
        entries: impl Iterator<Item = (&'e [u8], &'e [u8])>,
    ) -> impl Iterator<Item = (&'e [u8], &'e [u8])>
    where
        'n: 'e,
    {
        entries
            .zip(&self.steps)
            .map(|((key, value), step)| (key, step.shared_value(key).unwrap_or(value)))
    }
}
