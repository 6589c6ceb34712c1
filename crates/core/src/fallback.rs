//! The fallback: answers while the store is unreachable, as the configuration allows.
//!
//! It answers only calls that were certainly not executed. It grants this server's share of the
//! store's capacity, and only while the store is unreachable: a store that answers but refuses
//! writes still counts the leases that it has granted, so no share is granted on top of them.
//!
//! The share of a pool is rounded down, to 0 if necessary, so that all servers together admit at
//! most the configured number, in addition to the tasks that ran before. The share of a rate is at
//! least 1 if the rate is above 0, so that no key is locked out; if there are more servers than the
//! limit, each server allows one.

use serde::Deserialize;

use crate::Decision;

/// The largest number of servers that can be configured to share one store.
pub const REPLICAS_MAX: u32 = 1000;

/// The answer to a call while the store is unreachable (`on_store_failure`), named as in the
/// configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnStoreFailure {
    /// The call fails with [`crate::error::Error::Unavailable`].
    #[default]
    Fail,
    /// The call is refused.
    Deny,
    /// The server decides within its share.
    Allow,
}

/// How the fallback answers a verb.
#[derive(Debug)]
pub struct FallbackRule<D: Decision> {
    /// The configured behaviour.
    pub on_store_failure: fn(&D) -> OnStoreFailure,
    /// The refusal; `None` for a decision that requests nothing, such as a completion.
    pub refused: fn(&D) -> Option<D::Outcome>,
    /// Returns the same decision for one of `replicas` servers, each of which has an equal share.
    pub shared: fn(&D, u32) -> D,
    /// Whether one of `replicas` shares rounds down to 0 although the whole is above 0. The decision
    /// is then refused.
    pub has_no_share: fn(&D, u32) -> bool,
    /// Whether the outcome says that its subject is unknown here. The store, or the fallback, may
    /// know it.
    pub is_unknown: fn(&D::Outcome) -> bool,
}

impl<D: Decision> FallbackRule<D> {
    /// Creates the fallback of a verb whose share is never 0, and whose outcomes never say that
    /// their subject is unknown.
    pub const fn new(
        on_store_failure: fn(&D) -> OnStoreFailure,
        refused: fn(&D) -> Option<D::Outcome>,
        shared: fn(&D, u32) -> D,
    ) -> FallbackRule<D> {
        let (has_no_share, is_unknown) = (|_: &D, _| false, |_: &D::Outcome| false);
        FallbackRule { on_store_failure, refused, shared, has_no_share, is_unknown }
    }
}

/// Divides a rate among `replicas` servers: rounded down, but at least 1 if `whole` is above 0.
pub fn divide(whole: u32, replicas: u32) -> u32 {
    (whole / replicas.max(1)).max(whole.min(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_down_to_at_least_one_unless_the_whole_is_zero() {
        let shares =
            [(60, 1), (60, 7), (6, 7), (1, 1000), (0, 3), (7, 0)].map(|(w, r)| divide(w, r));
        assert_eq!(shares, [60, 8, 1, 1, 0, 7]);
    }
}
