//! Settings of the service, `[envoy]` of the configuration.

use serde::Deserialize;

use crate::{denial::DENIAL_CACHE, fallback::OnStoreFailure, time::Millis};

/// The settings that apply to all domains.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvoySettings {
    /// Whether no answer refuses a request as a whole.
    pub shadow_mode: bool,
    /// Whether all rules are in quota mode.
    pub quota_mode: bool,
    /// Whether several files may contain rules of the same domain.
    pub merge_domains: bool,
    /// The headers in answers.
    pub headers: Headers,
    /// Whether answers have dynamic metadata.
    pub dynamic_metadata: bool,
    /// The fraction of a limit above which hits count as near it.
    pub near_limit_ratio: f32,
    /// The longest time for which a server repeats a refusal without asking Redis.
    pub denial_cache: Millis,
    /// The answer while the store is unreachable.
    pub on_store_failure: OnStoreFailure,
}

/// The headers that answers add to the response of the proxy, named as in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Headers {
    /// None.
    #[default]
    Off,
    /// RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset.
    Legacy,
    /// RateLimit and RateLimit-Policy of draft-ietf-httpapi-ratelimit-headers-10, in addition.
    Draft,
}

/// How the descriptors of a request are counted, named as in the YAML.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counting {
    /// Each separately, even if the request is refused.
    #[default]
    Each,
    /// All in one step, or none if the request is refused.
    AllOrNothing,
    /// Each separately and always. A descriptor without hits is over the limit once it is reached.
    Reports,
}

impl Default for EnvoySettings {
    fn default() -> EnvoySettings {
        EnvoySettings {
            shadow_mode: false,
            quota_mode: false,
            merge_domains: false,
            headers: Headers::Off,
            dynamic_metadata: false,
            near_limit_ratio: 0.8,
            denial_cache: DENIAL_CACHE,
            on_store_failure: OnStoreFailure::Fail,
        }
    }
}
