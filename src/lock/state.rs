//! What the embedded engine keeps of one lock.

use serde::{Deserialize, Serialize};

use super::Lease;
use crate::{
    decision::{Bin, State},
    time::{Millis, Timestamp},
    waiting::{self, Hints, Queue},
};

/// How long a lock is remembered after its end: for repeats of its release, and so that
/// its tokens grow though the clock is set back.
pub(crate) const RETENTION: Millis = Millis::from_secs(300);

/// A lock: who held it last, and who waits.
#[derive(Debug, Default)]
pub struct Lock {
    pub(super) last: Option<Tenure>,
    pub(super) queue: Option<Box<Queue>>,
}

/// An owner's time with the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tenure {
    pub(super) owner: Box<[u8]>,
    /// Its end is when it was released, if it was.
    pub(super) lease: Lease,
    /// How long a renewal runs that does not say.
    pub(super) length: Millis,
    pub(super) is_released: bool,
}

impl Lock {
    /// Who holds it.
    pub(super) fn holder(&self, now: Timestamp) -> Option<&Tenure> {
        self.last.as_ref().filter(|last| !last.is_released && now < last.lease.expire)
    }

    /// The tenure of an owner that holds it, by this token if one is given.
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

    /// 1 while nobody holds it.
    pub(super) fn free(&self, now: Timestamp) -> u32 {
        u32::from(self.holder(now).is_none())
    }
}

impl State for Lock {
    const CAPABILITY: &'static str = "lock";

    fn sweep(&mut self, now: Timestamp, _: usize, _: &mut Bin) -> usize {
        // A new state's first token is the time, so it must have passed the last.
        let is_over = |last: &mut Tenure| {
            last.lease.expire.after(RETENTION) <= now && last.lease.token < now.0
        };
        usize::from(self.last.take_if(is_over).is_some())
    }

    fn is_vacant(&self, _: Timestamp) -> bool {
        self.last.is_none() && self.queue.as_ref().is_none_or(|queue| queue.is_empty())
    }

    fn take_hints(&mut self) -> Hints {
        waiting::take_hints(&mut self.queue)
    }
}
