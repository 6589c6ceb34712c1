//! The preflight of a Redis checks its version, role and eviction policy, from INFO.
//!
//! The monitor runs it on every new probe connection, and checks the role and the policy again with
//! later probes. Fields missing from INFO are not a reason to refuse.

use serde::Deserialize;

use super::primary_id::PrimaryId;

/// The oldest Redis version that has all commands used by the scripts.
const VERSION_MIN: (u32, u32) = (6, 2);

/// The reaction to a Redis whose `maxmemory-policy` can evict keys. An evicted lease frees its
/// slot, and an evicted sequence starts again. The names are the same as in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Eviction {
    /// Does not use it.
    Refuse,
    /// Uses it, with a warning in the log.
    Warn,
}

/// The fields of INFO that the preflight needs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Preflight {
    /// `redis_version`.
    version: Option<String>,
    /// `maxmemory_policy`.
    policy: Option<String>,
    /// `role`: `master` or `slave`.
    role: Option<String>,
    /// The primary id; empty if INFO is not permitted.
    pub(super) leader: PrimaryId,
}

impl Preflight {
    /// Parses the answer to INFO.
    pub(super) fn parse(info: &str) -> Preflight {
        let mut preflight = Preflight::default();
        for (key, value) in info.lines().filter_map(|line| line.trim_end().split_once(':')) {
            let value = value.to_owned();
            match key {
                // In this field, Valkey reports the Redis version that it is compatible with.
                "redis_version" => preflight.version = Some(value),
                "maxmemory_policy" => preflight.policy = Some(value),
                "role" => preflight.role = Some(value),
                "run_id" => preflight.leader.process = value,
                "master_replid" => preflight.leader.history = value,
                "master_replid2" => preflight.leader.before = value,
                _ => {}
            }
        }
        preflight
    }

    /// Returns the reason why this Redis must not be used now, and what to do.
    pub(super) fn refusal(&self, eviction: Eviction) -> Option<String> {
        if self.role.as_deref() == Some("slave") {
            return Some("it is a replica: name its primary, or use redis+sentinel://".to_owned());
        }
        self.unfit(eviction)
    }

    /// Returns the reason why this Redis must not be used with its settings.
    pub(super) fn unfit(&self, eviction: Eviction) -> Option<String> {
        if let Some(version) = &self.version
            && number(version).is_some_and(|number| number < VERSION_MIN)
        {
            let (major, minor) = VERSION_MIN;
            return Some(format!(
                "Redis {version} is too old: {major}.{minor} or newer is needed, or Valkey"
            ));
        }
        self.eviction().filter(|_| eviction == Eviction::Refuse)
    }

    /// Returns the warning about a `maxmemory-policy` that can evict keys.
    pub(super) fn eviction(&self) -> Option<String> {
        let policy = self.policy.as_deref().filter(|policy| *policy != "noeviction")?;
        Some(format!(
            "its maxmemory-policy is {policy}: it may evict leases, counters and serial numbers; \
             set it to noeviction, or set eviction = \"warn\" in [redis] to use it nevertheless"
        ))
    }
}

/// Returns the first two parts of a version.
fn number(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(info: &str) -> Option<String> {
        Preflight::parse(info).refusal(Eviction::Refuse)
    }

    #[test]
    fn an_old_redis_is_refused() {
        assert!(told("redis_version:6.0.16\r\n").is_some_and(|why| why.contains("6.2 or newer")));
        assert!(told("redis_version:5.0.7\r\n").is_some());
        assert_eq!(told("# Server\r\nredis_version:6.2.0\r\nrole:master\r\n"), None);
        assert_eq!(told("redis_version:10.1.0\r\n"), None);
        assert_eq!(told("redis_version:7.2.4\r\nserver_name:valkey\r\n"), None);
    }

    #[test]
    fn a_redis_that_evicts_is_refused_unless_configured_otherwise() {
        let info = "redis_version:7.0.15\r\nmaxmemory_policy:volatile-lru\r\n";
        assert!(told(info).is_some_and(|why| why.contains("noeviction")));
        assert_eq!(Preflight::parse(info).refusal(Eviction::Warn), None);
        assert!(Preflight::parse(info).eviction().is_some());
        assert_eq!(told("maxmemory_policy:noeviction\r\n"), None);
    }

    #[test]
    fn a_replica_is_refused() {
        assert!(told("role:slave\r\n").is_some_and(|why| why.contains("replica")));
    }

    #[test]
    fn missing_fields_are_no_reason_to_refuse() {
        assert_eq!(told(""), None);
        assert_eq!(told("redis_version:what\r\n"), None);
    }
}
