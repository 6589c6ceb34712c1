//! The configured policies.

use std::{collections::BTreeMap, sync::Arc};

use super::Rule;
use crate::decision::{globs::Globs, names::Name};

/// A policy: a named rule of the configuration, with other rules for some keys.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The name of the policy.
    pub name: Name,
    /// The rule for keys without an override.
    pub rule: Arc<Rule>,
    /// The overrides. The first one that matches a key applies.
    pub overrides: Vec<Override>,
}

/// A rule of a policy for the keys that match a glob.
#[derive(Debug, Clone)]
pub struct Override {
    /// The glob.
    pub pattern: String,
    /// The rule for these keys.
    pub rule: Arc<Rule>,
}

/// All policies, by name.
#[derive(Debug, Clone, Default)]
pub struct Policies(BTreeMap<Box<[u8]>, (Policy, Globs)>);

impl Policies {
    /// Creates the set of policies. Fails if a glob is invalid.
    pub fn new(policies: Vec<Policy>) -> Result<Policies, globset::Error> {
        let mut by_name = BTreeMap::new();
        for policy in policies {
            let patterns = Globs::new(policy.overrides.iter().map(|one| &one.pattern))?;
            by_name.insert(policy.name.as_bytes().into(), (policy, patterns));
        }
        Ok(Policies(by_name))
    }

    /// The rule of a policy for a key; `None` if the policy does not exist.
    pub fn rule(&self, policy: &Name, key: &Name) -> Option<&Arc<Rule>> {
        let (policy, patterns) = self.0.get(policy.as_bytes())?;
        Some(patterns.first(key).map_or(&policy.rule, |index| &policy.overrides[index].rule))
    }

    /// Whether the policy exists.
    pub fn contains(&self, policy: &Name) -> bool {
        self.0.contains_key(policy.as_bytes())
    }

    /// All policies in order of name.
    pub fn iter(&self) -> impl Iterator<Item = &Policy> {
        self.0.values().map(|(policy, _)| policy)
    }
}
