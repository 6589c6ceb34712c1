//! The state of one lock in the embedded engine.

use serde::{Deserialize, Serialize};

use super::Lease;
use crate::{
    Bin, ENTRY_BYTES, Footprint, State,
    time::{Millis, Timestamp},
    waiting::{self, Queue, WakeUps},
};

/// How long the record of a lock is stored after its end: for repeats of its release, and so that
/// tokens rise even if the clock is set back.
pub(crate) const RETENTION: Millis = Millis::from_secs(300);

/// A lock: its last tenure and its waiters.
#[derive(Debug, Default)]
pub struct Lock {
    /// The last tenure, running or ended; `None` before the first and after its retention.
    pub(super) last: Option<Tenure>,
    /// The token of a lease that must not be revoked, because a call other than the one that was
    /// granted it was answered with it; 0 for none. Not stored: no grant is revoked after a
    /// restart.
    pub(super) disclosed: u64,
    /// The waiters; `None` while no call waits.
    pub(super) queue: Option<Box<Queue>>,
}

/// The time during which one owner holds the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tenure {
    /// The owner.
    pub(super) owner: Box<[u8]>,
    /// The lease. Its expiry is the time of the release, if it was released.
    pub(super) lease: Lease,
    /// The length of the lease, for renewals that do not specify one.
    pub(super) length: Millis,
    /// Whether the owner released the lock.
    pub(super) is_released: bool,
}

impl Lock {
    /// Returns the tenure of the holder; `None` if the lock is free.
    pub(super) fn holder(&self, now: Timestamp) -> Option<&Tenure> {
        self.last.as_ref().filter(|last| !last.is_released && now < last.lease.expire)
    }

    /// Returns the tenure of this owner, if it holds the lock and the token matches.
    pub(super) fn held_by(
        &mut self,
        owner: &[u8],
        token: Option<u64>,
        now: Timestamp,
    ) -> Option<&mut Tenure> {
        self.holder(now)?;
        self.last.as_mut().filter(|last| {
            *last.owner == *owner && token.is_none_or(|token| token == last.lease.token)
        })
    }

    /// Returns the number of free slots of the queue: 1 if the lock is free, otherwise 0.
    pub(super) fn free(&self, now: Timestamp) -> u32 {
        u32::from(self.holder(now).is_none())
    }
}

impl State for Lock {
    const CAPABILITY: &'static str = "lock";
    const NAME_KEY: Option<&'static str> = Some("lock");

    fn footprint(&self) -> Footprint {
        let owner = |last: &Tenure| ENTRY_BYTES + last.owner.len() as u64;
        Footprint { bytes: self.last.as_ref().map_or(0, owner), ..Footprint::default() }
    }

    fn sweep(&mut self, now: Timestamp, _: usize, _: &mut Bin) -> usize {
        // The first token of a fresh state is the time, so the time must have passed the last
        // token.
        let is_over = |last: &mut Tenure| {
            last.lease.expire.after(RETENTION) <= now && last.lease.token < now.0
        };
        usize::from(self.last.take_if(is_over).is_some())
    }

    fn is_vacant(&self, _: Timestamp) -> bool {
        self.last.is_none() && self.queue.as_ref().is_none_or(|queue| queue.is_empty())
    }

    fn take_wake_ups(&mut self) -> WakeUps {
        waiting::take_wake_ups(&mut self.queue)
    }
}
