//! AdmitTask as a waiting call.
//!
//! The waiter is the task of a device. A device that reports without a task is a waiter with an
//! empty task name. When a slot is free, its oldest task at that time gets the slot.

use super::{Admission, AdmitDecision, AdmitTask};
use crate::{
    admission::{Catalog, HeartbeatPool, RevokeReason, RevokeTask},
    time::Millis,
    waiters::{Heartbeat, Proceed, WaitingCall, Waits},
};

impl Waits for AdmitTask {
    type Heartbeat = HeartbeatPool;
    type TakeBack = RevokeTask;
    type Rules = Catalog;

    fn waiting(&mut self) -> &mut Option<WaitingCall> {
        &mut self.waiting
    }

    fn follow(&mut self, rules: &Catalog) {
        self.settings = rules.settings(&self.pool);
    }

    fn waiter(&self) -> Vec<u8> {
        self.member().into_vec()
    }

    fn heartbeat(&self, heartbeat: Heartbeat) -> HeartbeatPool {
        HeartbeatPool { pool: self.pool.clone(), settings: self.settings, heartbeat }
    }

    fn take_back(&self, outcome: &Admission) -> Option<RevokeTask> {
        self.revocation(outcome, RevokeReason::Unreceived)
    }

    /// A call waits only after `Full`. In a paused pool it is answered at once.
    fn turn(outcome: &Admission) -> Proceed {
        match outcome.decision {
            AdmitDecision::Full { turn, .. } => turn,
            _ => Proceed::Now,
        }
    }

    /// After a grant the new lease, since it may be the first to end.
    fn frees_in(outcome: &Admission) -> Option<Millis> {
        match outcome.decision {
            AdmitDecision::Full { room_in, .. } if room_in > 0 => {
                Some(Millis(room_in.div_ceil(1000)))
            }
            AdmitDecision::Full { retry_after, .. } => Some(retry_after),
            AdmitDecision::Admitted { lease, .. } => Some(lease.grant.until(lease.expire)),
            _ => None,
        }
    }
}
