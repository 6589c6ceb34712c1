//! The configured rules for pools, rates and sequences. A reload replaces them.

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
    /// The rules for sequences.
    pub sequences: Arc<Sequences>,
    /// The rules for Envoy's rate limit service.
    pub envoy: Arc<EnvoyRules>,
}

impl DecisionRules {
    /// Adds the rules for Envoy's service, whose domains become policies without a rule.
    #[must_use]
    pub fn with_envoy(mut self, envoy: EnvoyRules) -> DecisionRules {
        let policies = Policies::clone(&self.policies).with_domains(envoy.policies().cloned());
        self.policies = Arc::new(policies);
        self.envoy = Arc::new(envoy);
        self
    }
}

/// The rules in use. A call loads them once, when it is parsed, and finishes under them even if a
/// reload replaces them meanwhile.
#[derive(Debug, Default)]
pub struct CurrentRules(ArcSwap<DecisionRules>);

impl CurrentRules {
    /// Puts these rules into use.
    pub fn new(rules: DecisionRules) -> CurrentRules {
        CurrentRules(ArcSwap::from_pointee(rules))
    }

    /// Returns the rules without locking. Do not hold the result across an await.
    pub fn load(&self) -> Guard<Arc<DecisionRules>> {
        self.0.load()
    }

    /// Replaces all rules in one step.
    pub fn replace(&self, rules: DecisionRules) {
        self.0.store(Arc::new(rules));
    }
}
