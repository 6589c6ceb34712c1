//! The configured rules of pools, rates and sequences that are in use. A reload replaces them.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use tollgate_core::{admission::Catalog, envoy::EnvoyRules, rate::Policies, sequence::Sequences};

/// The rules of one configuration.
#[derive(Debug, Clone, Default)]
pub struct DecisionRules {
    /// The settings of pools.
    pub pools: Arc<Catalog>,
    /// The policies of rates.
    pub policies: Arc<Policies>,
    /// The rules of sequences.
    pub sequences: Arc<Sequences>,
    /// The rules of Envoy's rate limit service.
    pub envoy: Arc<EnvoyRules>,
}

impl DecisionRules {
    /// The rules with those of Envoy's service, whose domains are policies without a rule.
    #[must_use]
    pub fn with_envoy(mut self, envoy: EnvoyRules) -> DecisionRules {
        let policies = Policies::clone(&self.policies).with_domains(envoy.policies().cloned());
        self.policies = Arc::new(policies);
        self.envoy = Arc::new(envoy);
        self
    }
}

/// The rules in use. A call loads them once, when it is parsed, and finishes under them even if a
/// reload replaces them.
#[derive(Debug, Default)]
pub struct CurrentRules(ArcSwap<DecisionRules>);

impl CurrentRules {
    /// Creates the holder of these rules.
    pub fn new(rules: DecisionRules) -> CurrentRules {
        CurrentRules(ArcSwap::from_pointee(rules))
    }

    /// Returns the rules. Takes no lock. Do not keep the result over an await.
    pub fn load(&self) -> Guard<Arc<DecisionRules>> {
        self.0.load()
    }

    /// Replaces all rules in one step.
    pub fn replace(&self, rules: DecisionRules) {
        self.0.store(Arc::new(rules));
    }
}
