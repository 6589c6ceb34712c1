//! The ends of lock leases by the system clock, as holders read them.
//!
//! Holders compare `expire_time` with their own clock, not with the engine's. While the system
//! clock is not set, both agree: a synced lease ends at its `expire_time`, even if the process ends
//! before.

use std::collections::BTreeMap;

use tollgate_core::lock::{Acquisition, Release, Renewal};

use crate::{
    callers::{Answer, Request},
    capability::{Checked, Part, holds},
    lock,
};

/// The known leases.
#[derive(Debug, Default)]
pub struct Leases {
    known: BTreeMap<Part, Lease>,
    /// The engine's time when the system clock was last set. Earlier decisions used the clock as it
    /// was before.
    set_at: u64,
}

#[derive(Debug)]
struct Lease {
    expire: u64,
    is_synced: bool,
}

impl Leases {
    /// Checks an answer about a lock. `now` is the engine's time of the decision, `system` the
    /// system clock.
    pub fn check(&mut self, request: &Request, answer: &Answer, now: u64, system: u64) -> Checked {
        let (Request::Lock(part, ask), Answer::Lock(answer)) = (request, answer) else {
            return Ok(());
        };
        let known = self.known.get(part);
        let is_over = known.is_none_or(|lease| lease.expire <= system);
        let is_not_over = known.is_none_or(|lease| system < lease.expire);
        let over = "no lease ends before its expire_time by the system's clock";
        let held = "no lease lasts longer than its expire_time by the system's clock";
        match answer {
            lock::Answer::Acquired(Acquisition::Acquired { lease, replayed: false }) => {
                holds(is_over, over)?;
                self.granted(*part, lease.expire.0, now, system);
            }
            lock::Answer::Acquired(_) => holds(is_not_over, held)?,
            lock::Answer::Renewed(Renewal::Renewed(lease)) => {
                holds(is_not_over, held)?;
                self.granted(*part, lease.expire.0, now, system);
            }
            lock::Answer::Released(Release::Released) => drop(self.known.remove(part)),
            lock::Answer::View(view) if view.holder.is_none() => holds(is_over, over)?,
            lock::Answer::View(_) => holds(is_not_over, held)?,
            // The lease has another owner or another token.
            lock::Answer::Renewed(_) | lock::Answer::Released(_) => {
                debug_assert!(!matches!(ask, lock::Ask::Get), "a view of a lock");
            }
        }
        Ok(())
    }

    /// Records a lease if the engine's time equals the system clock. They differ after that clock
    /// was set back.
    fn granted(&mut self, part: Part, expire: u64, now: u64, system: u64) {
        if now == system && now > self.set_at {
            self.known.insert(part, Lease { expire, is_synced: false });
        } else {
            self.known.remove(&part);
        }
    }

    /// The system clock was set: it no longer tells when known leases end.
    pub fn clock_is_set(&mut self, now: u64) {
        self.set_at = now;
        self.known.clear();
    }

    pub fn all_is_synced(&mut self) {
        self.known.values_mut().for_each(|lease| lease.is_synced = true);
    }

    /// The process was killed before it answered the request, whose decision may be on the disk.
    pub fn give_up(&mut self, request: &Request) {
        if let Request::Lock(part, _) = request {
            self.known.remove(part);
        }
    }

    /// The process was killed, and unsynced leases are lost.
    pub fn unsynced_is_lost(&mut self) {
        self.known.retain(|_, lease| lease.is_synced);
    }
}
