//! The configured policies.

use std::{collections::BTreeMap, sync::Arc};

use super::Rule;
use crate::{globs::Globs, names::Name};

/// A rule of the configuration, and others for some keys.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Its name.
    pub name: Name,
    /// What it says of keys that no override names.
    pub rule: Arc<Rule>,
    /// The first that matches a key counts.
    pub overrides: Vec<Override>,
}

/// A policy's rule for the keys that match a glob.
#[derive(Debug, Clone)]
pub struct Override {
    /// The glob.
    pub pattern: String,
    /// The rule.
    pub rule: Arc<Rule>,
}

/// All policies, by name.
#[derive(Debug, Clone, Default)]
pub struct Policies(BTreeMap<Box<[u8]>, (Policy, Globs)>);

impl Policies {
    /// These policies; the error is a glob that cannot be read.
    pub fn new(policies: Vec<Policy>) -> Result<Policies, globset::Error> {
        let mut by_name = BTreeMap::new();
        for policy in policies {
            let patterns = Globs::new(policy.overrides.iter().map(|one| &one.pattern))?;
            by_name.insert(policy.name.as_bytes().into(), (policy, patterns));
        }
        Ok(Policies(by_name))
    }

    /// The rule of a policy for a key; none if there is no such policy.
    pub fn rule(&self, policy: &Name, key: &Name) -> Option<&Arc<Rule>> {
        let (policy, patterns) = self.0.get(policy.as_bytes())?;
        Some(patterns.first(key).map_or(&policy.rule, |index| &policy.overrides[index].rule))
    }

    /// Whether there is such a policy.
    pub fn contains(&self, policy: &Name) -> bool {
        self.0.contains_key(policy.as_bytes())
    }

    /// Every policy, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Policy> {
        self.0.values().map(|(policy, _)| policy)
    }
}
