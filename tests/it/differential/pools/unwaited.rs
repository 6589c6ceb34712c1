//! AdmitTask in a pool with replica acknowledgement, without the wait for replicas. The rule is the
//! same, and a lease that was not acknowledged can be revoked.

use rand::Rng;
use tollgate_core::{
    Call, Decision, Properties, Reply,
    acknowledgement::Acknowledgement,
    admission::{Admission, AdmitTask, GetPool, Pool, RevokeReason, RevokeTask},
    error::Error,
    names::Name,
    script::Script,
    time::Timestamp,
};

use super::History;

#[derive(Debug, Clone)]
pub(super) struct Unwaited(pub(super) AdmitTask);

impl Decision for Unwaited {
    type State = Pool;
    type Outcome = Admission;

    const SCRIPT: &'static Script = AdmitTask::SCRIPT;
    const PROPERTIES: Properties<Unwaited> = Properties {
        cost: |unwaited| (AdmitTask::PROPERTIES.cost)(&unwaited.0),
        listing: |unwaited| (AdmitTask::PROPERTIES.listing)(&unwaited.0),
        ..Properties::DEFAULT
    };

    fn partition(&self) -> &[u8] {
        self.0.partition()
    }

    fn encode(&self, call: &mut Call) {
        self.0.encode(call);
    }

    fn parse(reply: &mut Reply) -> Result<Admission, Error> {
        AdmitTask::parse(reply)
    }

    fn decide(&self, pool: &mut Pool, now: Timestamp) -> Admission {
        self.0.decide(pool, now)
    }
}

impl History {
    /// Asks for a slot as `decision` does, in a pool that needs one replica acknowledgement.
    pub(super) async fn admit_unwaited(&mut self, decision: &AdmitTask, context: &str) {
        let mut unwaited = Unwaited(decision.clone());
        unwaited.0.settings.acknowledgement = Acknowledgement::by(1);
        let admission = self.agree(&unwaited, context).await;
        self.asked(decision, &admission);
    }

    /// Revokes a lease: the current one of a task, or one that may have ended long ago.
    pub(super) async fn revoke(&mut self, pool: &Name, context: &str) {
        let name = self.task_name(pool);
        let settings = super::settings(pool);
        let member = [name.device.as_bytes(), b"\x1f", name.task.as_bytes()].concat();
        let now = Timestamp(self.twins.time.now());
        let tasks = self.pools.get(pool.as_bytes()).map(|pool| pool.tasks(now));
        let held = tasks.into_iter().flatten().find(|(task, _)| *task == &member[..]);
        let token = held.map(|(_, task)| task.lease.token).filter(|token| *token > 0);
        if let Some(token) = token.or_else(|| self.tokens.last().copied()) {
            let reason = if self.random.random_bool(0.5) {
                RevokeReason::Unacknowledged
            } else {
                RevokeReason::Unreceived
            };
            let before = self.agree(&GetPool { pool: pool.clone(), settings }, context).await;
            let revoked = self.agree(&RevokeTask { name, token, reason, settings }, context).await;
            let after = self.agree(&GetPool { pool: pool.clone(), settings }, context).await;
            let is_fewer = after.usage.in_use < before.usage.in_use;
            self.revoked[0] += usize::from(!revoked);
            self.revoked[1] += usize::from(is_fewer);
        }
    }
}
