//! A pool's settings: the configuration's under the run-time overrides.

use serde::{Deserialize, Serialize};

use crate::{
    confirmation::Confirmation, decision::Call, degradation::OnStoreFailure, denial::DENIAL_CACHE,
    globs::Globs, names::Name, time::Millis,
};

/// A pool's settings in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Slots.
    pub capacity: u32,
    /// How long a lease runs unless the call says otherwise.
    pub lease_duration: Millis,
    /// How long a lease that ended without a result keeps its slot.
    pub expiry_grace: Millis,
    /// Whether nobody is admitted.
    pub paused: bool,
    /// How long results and ended leases are remembered.
    pub retention: Millis,
    /// Whether a free slot may be taken though others wait.
    pub barging: bool,
    /// How often a queued task is dispatched before it is dead.
    pub max_attempts: u32,
    /// How many tasks can be queued.
    pub queued_max: u32,
    /// How many events are kept, at least.
    pub history: u32,
    /// How long a server remembers that the pool is full, at most; 0 for not.
    pub denial_cache: Millis,
    /// What calls are answered while the store cannot be asked.
    pub on_store_failure: OnStoreFailure,
    /// Which replicas have to have a lease before it is granted or renewed, and
    /// settings before they are answered.
    pub confirmation: Confirmation,
    /// Whether anybody new is admitted after a failover.
    pub after_failover: AfterFailover,
}

/// What becomes of a pool when another primary leads than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailover {
    /// It goes on with what the new one knows.
    Admit,
    /// Nobody new is admitted until leases that may be lost are over.
    Hold,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            capacity: 60,
            lease_duration: Millis::from_secs(300),
            expiry_grace: Millis(0),
            paused: false,
            retention: Millis::from_secs(3600),
            barging: false,
            max_attempts: 3,
            queued_max: 1_000_000,
            history: 10_000,
            denial_cache: DENIAL_CACHE,
            on_store_failure: OnStoreFailure::Fail,
            confirmation: Confirmation::NONE,
            after_failover: AfterFailover::Admit,
        }
    }
}

impl Settings {
    /// Appends capacity, lease, grace, paused and attempts, as the scripts' defaults.
    pub(super) fn encode(&self, call: &mut Call) {
        call.number(self.capacity.into());
        call.number(self.lease_duration.0);
        call.number(self.expiry_grace.0);
        call.number(self.paused.into());
        call.number(self.max_attempts.into());
    }

    /// Appends what the scripts of the hot path share, in the order of `lua/lib/pool.lua`.
    pub(super) fn encode_shared(&self, call: &mut Call) {
        self.encode(call);
        call.number(self.retention.0);
        call.number(self.history.into());
    }

    /// Appends whom the server has seen lead, for a pool that may be held.
    pub(super) fn encode_sighting(&self, call: &mut Call) {
        match self.after_failover {
            AfterFailover::Admit => call.bytes(&[]),
            AfterFailover::Hold => call.sighting(),
        }
    }

    pub(super) fn under(self, overrides: &Overrides) -> Settings {
        Settings {
            capacity: overrides.capacity.unwrap_or(self.capacity),
            lease_duration: overrides.lease_duration.unwrap_or(self.lease_duration),
            expiry_grace: overrides.expiry_grace.unwrap_or(self.expiry_grace),
            paused: overrides.paused.unwrap_or(self.paused),
            max_attempts: overrides.max_attempts.unwrap_or(self.max_attempts),
            ..self
        }
    }
}

/// Settings changed at run time; they win over the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Overrides {
    /// Slots.
    pub capacity: Option<u32>,
    /// How long a lease runs.
    pub lease_duration: Option<Millis>,
    /// How long an ended lease keeps its slot.
    pub expiry_grace: Option<Millis>,
    /// Whether nobody is admitted.
    pub paused: Option<bool>,
    /// How often a queued task is dispatched.
    pub max_attempts: Option<u32>,
}

impl Overrides {
    /// Appends the five, empty for those that are not given.
    pub(super) fn encode(&self, call: &mut Call) {
        call.optional(self.capacity.map(u64::from));
        call.optional(self.lease_duration.map(|lease| lease.0));
        call.optional(self.expiry_grace.map(|grace| grace.0));
        call.optional(self.paused.map(u64::from));
        call.optional(self.max_attempts.map(u64::from));
    }

    /// These where given, else those of `earlier`.
    pub(super) fn over(self, earlier: Overrides) -> Overrides {
        Overrides {
            capacity: self.capacity.or(earlier.capacity),
            lease_duration: self.lease_duration.or(earlier.lease_duration),
            expiry_grace: self.expiry_grace.or(earlier.expiry_grace),
            paused: self.paused.or(earlier.paused),
            max_attempts: self.max_attempts.or(earlier.max_attempts),
        }
    }

    /// Which are given, as the scripts' replies carry it.
    pub(super) fn bits(&self) -> u64 {
        u64::from(self.capacity.is_some())
            | u64::from(self.lease_duration.is_some()) << 1
            | u64::from(self.expiry_grace.is_some()) << 2
            | u64::from(self.paused.is_some()) << 3
            | u64::from(self.max_attempts.is_some()) << 4
    }
}

/// One entry of the configuration: the settings of all pools whose name
/// matches a glob (`*` any text, `?` and `[ab]` one ASCII character, `{a,b}`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolRule {
    /// The glob.
    pub pattern: String,
    /// The settings.
    pub settings: Settings,
}

/// A glob that cannot be read.
pub type CatalogError = globset::Error;

/// The configured settings of every pool there can be.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    patterns: Globs,
    settings: Vec<Settings>,
}

impl Catalog {
    /// A catalog of these entries; for a pool the first that matches counts.
    pub fn new(rules: &[PoolRule]) -> Result<Catalog, CatalogError> {
        let patterns = Globs::new(rules.iter().map(|rule| &rule.pattern))?;
        Ok(Catalog { patterns, settings: rules.iter().map(|rule| rule.settings).collect() })
    }

    /// The configured settings of a pool.
    pub fn settings(&self, pool: &Name) -> Settings {
        self.patterns.first(pool).map(|index| self.settings[index]).unwrap_or_default()
    }
}
