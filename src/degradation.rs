//! Degradation: what is answered while the store cannot be asked, where the configuration
//! says so beforehand.
//!
//! Only calls that were certainly not executed are answered so. What is granted meanwhile
//! is a share of what the store would grant, and only while the store is unreachable: one
//! that answers and refuses still counts what it granted.
//!
//! A share of a pool is rounded down, to none where need be: all servers together never admit
//! more than is configured, beside what ran before. A share of a rate is at least 1 of what
//! is any, so that no key is shut out: with more servers than the limit each allows one.

use crate::decision::Decision;

/// The most servers that can share a store by the configuration.
pub const REPLICAS_MAX: u32 = 1000;

/// What a call is answered while the store cannot be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnStoreFailure {
    /// That it cannot.
    #[default]
    Fail,
    /// A refusal.
    Deny,
    /// What this server's share has room for.
    Allow,
}

/// A decision that can be answered without the store.
pub trait Degradable: Decision + Sized {
    /// What the configuration says.
    fn on_store_failure(&self) -> OnStoreFailure;
    /// The refusal; none of a decision that asks for nothing.
    fn refused(&self) -> Option<Self::Outcome>;
    /// The same decision about one of so many shares.
    fn shared(&self, replicas: u32) -> Self;
    /// Whether one of so many shares is none, though the whole is some: it is refused then.
    fn has_no_share(&self, _replicas: u32) -> bool {
        false
    }
    /// Whether an outcome says that what it is about is not known where it was decided.
    fn is_unknown(_: &Self::Outcome) -> bool {
        false
    }
}

/// One of so many shares of a rate, rounded down, at least 1 of what is any.
pub fn share(whole: u32, replicas: u32) -> u32 {
    (whole / replicas.max(1)).max(whole.min(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_down_and_none_is_none() {
        let shares =
            [(60, 1), (60, 7), (6, 7), (1, 1000), (0, 3), (7, 0)].map(|(w, r)| share(w, r));
        assert_eq!(shares, [60, 8, 1, 1, 0, 7]);
    }
}
