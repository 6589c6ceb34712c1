//! The line of a lock.

use serde::{Deserialize, Serialize};

use super::{Checked, Text};
use crate::lock::{LEASE_MAX, RETENTION};

/// The last holder of a lock. `expire` is the time of the release if the lock was released.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LockLine {
    pub(crate) lock: Text,
    pub(crate) owner: Text,
    pub(crate) token: u64,
    pub(crate) grant: u64,
    pub(crate) expire: u64,
    /// Length of a renewal that names no duration, ms.
    pub(crate) lease_ms: u64,
    #[serde(default)]
    pub(crate) released: bool,
}

impl LockLine {
    /// When the entry expires, µs. Never before its token has passed as an instant, so that later
    /// tokens are higher.
    pub(crate) fn forget(&self) -> u64 {
        (self.expire + RETENTION.micros()).max(self.token + 1)
    }

    pub(super) fn check(&self, checked: &mut Checked) {
        checked.name("lock", &self.lock);
        checked.name("owner", &self.owner);
        checked.times([("token", self.token), ("grant", self.grant), ("expire", self.expire)]);
        checked.at_most("lease_ms", self.lease_ms, LEASE_MAX.0);
    }
}
