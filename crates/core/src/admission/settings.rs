//! The settings of a pool: configured values, and run-time overrides that take precedence.
//!
//! The configuration belongs to a server; the overrides are stored with the pool. Each decision
//! carries the configured settings, and reads the overrides in its atomic step. An override
//! therefore applies on all servers immediately, while servers with different files use different
//! configured settings.

use serde::{Deserialize, Serialize};

use crate::{
    Call, acknowledgement::Acknowledgement, denial::DENIAL_CACHE, fallback::OnStoreFailure,
    globs::ScopedGlobs, names::Name, time::Millis,
};

/// The settings of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The number of slots. Range 0 to 1,000,000; default 60.
    pub capacity: u32,
    /// Length of a lease unless the call specifies one. Range 100 ms to 24 h; default 300 s.
    pub lease_duration: Millis,
    /// How long an expired lease without a result keeps its slot. Range 0 to 30 days; default 0.
    pub expiry_grace: Millis,
    /// Whether new tasks are refused. Running tasks continue.
    pub paused: bool,
    /// How long results and ended leases are stored. Range 60 s to 30 days; default 1 h.
    pub retention: Millis,
    /// Whether a call that does not wait may take a free slot ahead of waiters. Default false.
    pub barging: bool,
    /// Attempts of a queued task before it is dead. Range 1 to 1,000; default 3.
    pub max_attempts: u32,
    /// The maximum number of queued tasks, running ones included. Range up to 10,000,000; default
    /// 1,000,000.
    pub queued_max: u32,
    /// The minimum number of stored events. Range 100 to 1,000,000; default 10,000.
    pub history: u32,
    /// Maximum age of a cached refusal; 0 disables the denial cache for the pool.
    pub denial_cache: Millis,
    /// The answer while the store is unreachable.
    pub on_store_failure: OnStoreFailure,
    /// Replica acknowledgement for granted and renewed leases and for changed settings.
    pub acknowledgement: Acknowledgement,
    /// Whether new tasks are admitted after a failover.
    pub after_failover: AfterFailover,
}

/// Behaviour of a pool after a failover to another primary, named as in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AfterFailover {
    /// Admits tasks as the state of the new primary allows.
    Admit,
    /// Admits no new task until all leases that the failover may have lost have expired.
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
            acknowledgement: Acknowledgement::NONE,
            after_failover: AfterFailover::Admit,
        }
    }
}

impl Settings {
    /// Returns the settings of one of `replicas` servers that share the pool.
    pub(super) fn for_one_of(self, replicas: u32) -> Settings {
        // Rounded down, to 0 if necessary: all shares together are at most the capacity.
        Settings { capacity: self.capacity / replicas.max(1), ..self }
    }

    /// Appends capacity, lease, grace, paused and attempts: the scripts' defaults.
    pub(super) fn encode(&self, call: &mut Call) {
        call.number(self.capacity.into());
        call.number(self.lease_duration.0);
        call.number(self.expiry_grace.0);
        call.number(self.paused.into());
        call.number(self.max_attempts.into());
    }

    /// Appends the settings that the hot-path scripts share, in the order of `lua/lib/pool.lua`.
    pub(super) fn encode_shared(&self, call: &mut Call) {
        self.encode(call);
        call.number(self.retention.0);
        call.number(self.history.into());
    }

    /// Appends the primary that the server has seen, for pools with `AfterFailover::Hold`;
    /// otherwise an empty argument.
    pub(super) fn encode_sighting(&self, call: &mut Call) {
        match self.after_failover {
            AfterFailover::Admit => call.bytes(&[]),
            AfterFailover::Hold => call.sighting(),
        }
    }

    /// Returns the settings in force: each override replaces the configured value.
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

/// Settings changed at run time by ConfigurePool. They take precedence over the configuration and
/// survive a restart. `None` leaves the configured value in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Overrides {
    /// The number of slots.
    pub capacity: Option<u32>,
    /// Length of a lease.
    #[serde(rename = "lease_ms")]
    pub lease_duration: Option<Millis>,
    /// How long an expired lease keeps its slot.
    #[serde(rename = "grace_ms")]
    pub expiry_grace: Option<Millis>,
    /// Whether new tasks are refused.
    pub paused: Option<bool>,
    /// Attempts of a queued task before it is dead.
    pub max_attempts: Option<u32>,
}

impl Overrides {
    /// Appends the five overrides; `None` as an empty argument.
    pub(super) fn encode(&self, call: &mut Call) {
        call.optional(self.capacity.map(u64::from));
        call.optional(self.lease_duration.map(|lease| lease.0));
        call.optional(self.expiry_grace.map(|grace| grace.0));
        call.optional(self.paused.map(u64::from));
        call.optional(self.max_attempts.map(u64::from));
    }

    /// Returns these overrides applied on top of `earlier` ones.
    pub(super) fn over(self, earlier: Overrides) -> Overrides {
        Overrides {
            capacity: self.capacity.or(earlier.capacity),
            lease_duration: self.lease_duration.or(earlier.lease_duration),
            expiry_grace: self.expiry_grace.or(earlier.expiry_grace),
            paused: self.paused.or(earlier.paused),
            max_attempts: self.max_attempts.or(earlier.max_attempts),
        }
    }

    /// Returns the bit set of given overrides in replies: 1 capacity, 2 lease, 4 grace, 8 paused,
    /// 16 attempts.
    pub(super) fn bits(&self) -> u64 {
        u64::from(self.capacity.is_some())
            | u64::from(self.lease_duration.is_some()) << 1
            | u64::from(self.expiry_grace.is_some()) << 2
            | u64::from(self.paused.is_some()) << 3
            | u64::from(self.max_attempts.is_some()) << 4
    }
}

/// One entry of the configuration: the settings of all pools whose name matches a glob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolRule {
    /// The glob of the namespaces of the pools; `None` for the default namespace only.
    pub namespace: Option<String>,
    /// The glob.
    pub pattern: String,
    /// The settings.
    pub settings: Settings,
}

/// The error for an invalid glob.
pub type CatalogError = globset::Error;

/// The configured settings of all pools.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// The globs of the entries, in the order of the configuration.
    patterns: ScopedGlobs,
    /// The settings of each entry.
    settings: Vec<Settings>,
    /// Whether the store is this process, which needs no denial cache.
    is_uncached: bool,
}

impl Catalog {
    /// Creates a catalog of these entries. The first entry that matches a pool's name applies.
    pub fn new(rules: &[PoolRule]) -> Result<Catalog, CatalogError> {
        let globs = rules.iter().map(|rule| (rule.namespace.as_deref(), &rule.pattern));
        let patterns = ScopedGlobs::new(globs)?;
        let settings = rules.iter().map(|rule| rule.settings).collect();
        Ok(Catalog { patterns, settings, is_uncached: false })
    }

    /// Returns the same catalog without a denial cache, for the embedded engine. It never caches a
    /// refusal, so its refusals need not list the holders.
    #[must_use]
    pub fn uncached(self) -> Catalog {
        Catalog { is_uncached: true, ..self }
    }

    /// Returns the configured settings of a pool; the defaults if no entry matches.
    pub fn settings(&self, pool: &Name) -> Settings {
        let settings =
            self.patterns.first(pool).map(|index| self.settings[index]).unwrap_or_default();
        let denial_cache = if self.is_uncached { Millis(0) } else { settings.denial_cache };
        Settings { denial_cache, ..settings }
    }
}
