//! A node that answers but refuses writes, and its recovery.

use std::time::Duration;

use super::{Monitor, StoreState, lock};
use tollgate_core::time::monotonic;

/// After this time without a refused write, whether of a call or of a probe, a Redis that refused
/// writes counts as recovered. Near `maxmemory`, some writes succeed and others do not.
const RECOVERY: Duration = Duration::from_secs(5);

impl Monitor {
    /// Sets the state to up, unless a write was refused recently.
    pub(super) fn set_up(&self) {
        if *self.state.borrow() == StoreState::Refusing && self.has_refused() {
            return;
        }
        if self.state.send_replace(StoreState::Up) != StoreState::Up {
            tracing::info!("Redis is usable");
        }
    }

    /// Whether a write was recently refused on a connection of the current epoch. A new primary
    /// does not have to recover.
    fn has_refused(&self) -> bool {
        let refused = *lock(&self.refused);
        refused.is_some_and(|(at, epoch)| epoch == self.epoch() && at.elapsed() < RECOVERY)
    }

    /// Records that the node refused the write of a call. Other refusals, such as those of a replica,
    /// are left to the probes.
    pub(in super::super) fn record_refusal(&self, why: &str) {
        const HOVERING: [&str; 3] = ["OOM", "MISCONF", "NOREPLICAS"];
        if HOVERING.iter().any(|code| why.contains(code)) && self.is_up() {
            self.set_refusing(why);
        }
    }

    /// Sets the state to refusing.
    pub(super) fn set_refusing(&self, why: &str) {
        *lock(&self.refused) = Some((monotonic(), self.epoch()));
        if self.state.send_replace(StoreState::Refusing) != StoreState::Refusing {
            tracing::warn!(
                why,
                "Redis refuses writes; calls that write fail with UNAVAILABLE until it accepts \
                 them"
            );
        }
    }
}
