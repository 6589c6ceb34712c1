//! The line of a lock.

use serde::{Deserialize, Serialize};

use super::Text;

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
