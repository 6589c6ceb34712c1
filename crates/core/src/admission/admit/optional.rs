//! The optional traits of AdmitTask that the store stage uses.

use super::{Admission, AdmitDecision, AdmitTask};
use crate::{
    Decision, Grows, Issues, Revocable, Revocation, Takes, Taking, Undo, UndoRule, Warms,
    acknowledgement::Acknowledgement,
    admission::{Pool, RevokeReason},
    time::Timestamp,
};

impl Revocable for AdmitTask {
    /// The setting of the pool. A refusal does not wait for replicas. A repeated lease does:
    /// replicas may not have acknowledged its grant yet.
    fn acknowledgement(&self) -> Acknowledgement {
        self.settings.acknowledgement
    }

    /// A new lease is revoked, so that its slot is free again. A repeated lease stays: only the
    /// call that got it first may revoke it.
    fn undo_rule(&self, prefix: &str) -> UndoRule {
        let (decision, prefix) = (self.clone(), prefix.to_owned());
        UndoRule::of::<AdmitTask>(move |admission| {
            match decision.revocation(admission, RevokeReason::Unacknowledged) {
                Some(revocation) => Undo::Revoke(Revocation::by(&revocation, &prefix)),
                None if admission.is_granted() => Undo::Stands,
                None => Undo::Counts,
            }
        })
    }
}

impl Grows for AdmitTask {
    const TAKES: Option<Takes> = Some(Takes::Lease);

    /// True for a task without a record that would get a lease.
    fn is_new(&self, pool: &Pool, now: Timestamp) -> bool {
        let member = self.member();
        let settings = self.settings.under(&pool.overrides);
        // A waiter is already stored. A caller that will be refused anyway gets the refusal
        // instead.
        let waits = pool.queue.as_ref().is_some_and(|queue| queue.holds(&member));
        let has_room = !settings.paused && pool.in_use() < settings.capacity;
        has_room && !waits && self.task.is_some() && pool.task(&member, now).is_none()
    }

    /// A lease, unless the call is refused or its task holds one already.
    fn takes(&self, pool: &Pool, now: Timestamp) -> Option<Takes> {
        let settings = self.settings.under(&pool.overrides);
        // A caller that will be refused anyway gets the refusal instead.
        let has_room = !settings.paused && pool.in_use() < settings.capacity;
        let is_granted = match &self.task {
            // The lease that the task holds is returned again.
            Some(_) => {
                let known = pool.task(&self.member(), now);
                known.is_none_or(|task| !task.holds_slot(now) && task.is_open())
            }
            None => pool.backlog.oldest(self.device.as_bytes()).is_some(),
        };
        (has_room && is_granted).then_some(Takes::Lease)
    }

    fn taken(admission: &Admission) -> Taking {
        match admission.decision {
            AdmitDecision::Admitted { replayed: false, .. } => Taking::One,
            AdmitDecision::Limited => Taking::Limited,
            _ => Taking::Nothing,
        }
    }
}

impl Issues for AdmitTask {
    /// Raises the last token of the pool to `floor` for this decision.
    fn decide_above(&self, pool: &mut Pool, now: Timestamp, floor: Timestamp) -> Admission {
        let last = pool.last_token;
        let raised = last.max(floor.0);
        pool.last_token = raised;
        let admission = self.decide(pool, now);
        if pool.last_token == raised {
            // No lease was granted: restore the token.
            pool.last_token = last;
        }
        admission
    }
}

impl Warms for AdmitTask {
    fn warm(calls: &[AdmitTask], pool: &Pool) {
        pool.warm(calls.iter().map(AdmitTask::member));
    }
}
