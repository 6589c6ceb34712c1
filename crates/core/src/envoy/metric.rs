//! The name of a rule in metrics, if it depends on the values of a descriptor.

use std::sync::Arc;

use super::{
    counters::RuleCounters,
    node::{Entry, Found, MatchedBy, value_of},
};

impl Found<'_> {
    /// Returns the counters of the rule: its own, or with `detailed_metric` or `value_to_metric`
    /// those of the values.
    pub fn counters<'e>(
        &self,
        domain: &str,
        entries: impl Iterator<Item = (&'e [u8], &'e [u8])>,
    ) -> Arc<RuleCounters> {
        let has_values = self.steps.iter().any(|step| step.node.value_to_metric);
        if !self.rule.detailed_metric && !has_values {
            return self.rule.counters.clone();
        }
        let mut name = domain.to_owned();
        for (entry, step) in entries.zip(&self.steps) {
            let (key, _) = entry;
            let value = match step.shared_value(key) {
                Some(shared) => shared,
                None if self.rule.detailed_metric => entry.1,
                None => value(entry, step.by, step.node.value_to_metric),
            };
            name.push('.');
            name.push_str(&String::from_utf8_lossy(key));
            if !value.is_empty() {
                name.push('_');
                name.push_str(&String::from_utf8_lossy(value));
            }
        }
        RuleCounters::lookup(domain.len(), &name)
    }
}

/// Returns the value of an entry as it appears in the name.
fn value<'e>((key, value): Entry<'e>, by: MatchedBy<'e>, is_wanted: bool) -> &'e [u8] {
    match by {
        MatchedBy::Value => value,
        _ if is_wanted => value,
        MatchedBy::Pattern(pattern) => value_of(pattern, key),
        MatchedBy::Key => &[],
    }
}
