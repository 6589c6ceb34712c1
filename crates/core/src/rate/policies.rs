//! The configured policies.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::Rule;
use crate::{
    globs::{Globs, NamespaceGlob},
    names::{Name, Namespace},
};

/// A policy: a named rule of the configuration, with other rules for some keys.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The name of the policy, without a namespace.
    pub name: Name,
    /// The glob of the namespaces that have the policy; `None` for the default namespace only.
    pub namespace: Option<String>,
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

/// All policies, by name. If several have the same name, the first one that matches the namespace
/// applies.
#[derive(Debug, Clone, Default)]
pub struct Policies {
    by_name: BTreeMap<Box<[u8]>, Vec<NamespacePolicy>>,
    /// The names of domains, without a namespace: policies of every namespace, without a rule.
    domains: BTreeSet<Name>,
}

#[derive(Debug, Clone)]
struct NamespacePolicy {
    policy: Policy,
    namespace: NamespaceGlob,
    /// The globs of the overrides.
    overrides: Globs,
}

impl Policies {
    /// Creates the set of policies. Fails if a glob is invalid.
    pub fn new(policies: Vec<Policy>) -> Result<Policies, globset::Error> {
        let mut by_name = BTreeMap::<Box<[u8]>, Vec<NamespacePolicy>>::new();
        for policy in policies {
            let namespace = NamespaceGlob::new(policy.namespace.as_deref())?;
            let overrides = Globs::new(policy.overrides.iter().map(|one| &one.pattern))?;
            let entries = by_name.entry(policy.name.local().into()).or_default();
            entries.push(NamespacePolicy { policy, namespace, overrides });
        }
        Ok(Policies { by_name, domains: BTreeSet::new() })
    }

    /// Returns the rule of a policy for a key; `None` if the policy does not exist.
    pub fn rule(&self, policy: &Name, key: &Name) -> Option<&Arc<Rule>> {
        let NamespacePolicy { policy, overrides, .. } = self.entry(policy)?;
        Some(overrides.first(key).map_or(&policy.rule, |index| &policy.overrides[index].rule))
    }

    fn entry(&self, policy: &Name) -> Option<&NamespacePolicy> {
        let prefix = policy.prefix();
        self.by_name.get(policy.local())?.iter().find(|entry| entry.namespace.matches(prefix))
    }

    /// Whether a policy or a domain with this name exists.
    pub fn contains(&self, policy: &Name) -> bool {
        let is_domain = || self.domains.contains(&policy.within(&Namespace::DEFAULT));
        self.entry(policy).is_some() || is_domain()
    }

    /// Returns the policies, and the names of domains: their keys can be banned, reset and watched.
    #[must_use]
    pub fn with_domains(self, domains: impl Iterator<Item = Name>) -> Policies {
        Policies { domains: domains.collect(), ..self }
    }

    /// Returns the policies of a namespace, in order of name.
    pub fn in_namespace(&self, namespace: &Namespace) -> impl Iterator<Item = &Policy> {
        self.by_name.values().filter_map(|entries| {
            let mut entries = entries.iter();
            let entry = entries.find(|entry| entry.namespace.matches(namespace.prefix()));
            entry.map(|entry| &entry.policy)
        })
    }
}
