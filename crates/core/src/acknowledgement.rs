//! Replica acknowledgement: a write counts only once enough replicas have it, so that it survives
//! the loss of the primary.

use crate::time::Millis;

/// Default time to wait for replicas.
pub const WAIT_TIMEOUT: Millis = Millis::from_secs(2);
/// Minimum configurable time to wait.
pub const WAIT_TIMEOUT_MIN: Millis = Millis(1);
/// Maximum configurable time to wait, during which the connection is blocked.
pub const WAIT_TIMEOUT_MAX: Millis = Millis::from_secs(4);
/// The largest configurable number of replicas.
pub const REPLICAS_MAX: u32 = 100;

/// The acknowledgement that a decision needs before its outcome counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledgement {
    /// The number of replicas; 0 for none.
    pub replicas: u32,
    /// How long to wait for them. The wait also ends after four fifths of the call's remaining
    /// time.
    pub timeout: Millis,
}

impl Acknowledgement {
    /// No acknowledgement.
    pub const NONE: Acknowledgement = Acknowledgement::by(0);

    /// Acknowledgement by this many replicas, within the default time.
    pub const fn by(replicas: u32) -> Acknowledgement {
        Acknowledgement { replicas, timeout: WAIT_TIMEOUT }
    }

    /// Whether any acknowledgement is needed.
    pub fn is_needed(&self) -> bool {
        self.replicas > 0
    }
}
