//! Confirmation by replicas: what a primary that is lost must not take with it counts only
//! once replicas have it.

use crate::time::Millis;

/// How long replicas are waited for, unless the configuration says otherwise.
pub const WAIT_TIMEOUT: Millis = Millis::from_secs(2);
/// The shortest time that the configuration can give replicas.
pub const WAIT_TIMEOUT_MIN: Millis = Millis(1);
/// The longest: a connection is held meanwhile.
pub const WAIT_TIMEOUT_MAX: Millis = Millis::from_secs(4);
/// The most replicas that the configuration can have waited for.
pub const REPLICAS_MAX: u32 = 100;

/// Which replicas have to have what a decision wrote before its outcome counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confirmation {
    /// How many; 0 for none.
    pub replicas: u32,
    /// How long they are waited for, and for no longer than four fifths of the call's time.
    pub timeout: Millis,
}

impl Confirmation {
    /// Nobody is waited for.
    pub const NONE: Confirmation = Confirmation::by(0);

    /// By so many replicas.
    pub const fn by(replicas: u32) -> Confirmation {
        Confirmation { replicas, timeout: WAIT_TIMEOUT }
    }

    /// Whether anybody is waited for.
    pub fn is_needed(&self) -> bool {
        self.replicas > 0
    }
}
