//! The verbs of the hot path, one by one and in batches. The items of a batch share reads and
//! writes.

use tollgate_core::admission::{Admission, AdmitDecision, RenewTask};

use super::*;

impl History {
    pub(super) fn admit(&mut self, name: TaskName, settings: Settings) -> AdmitTask {
        let TaskName { pool, device, task } = name;
        let task = self.random.random_bool(0.7).then_some(task);
        let (lease_duration, waiting) =
            (self.length(1..20), self.callers.waiting(&mut self.random));
        AdmitTask { pool, device, task, lease_duration, settings, waiting }
    }

    pub(super) fn asked(&mut self, decision: &AdmitTask, admission: &Admission) {
        if let AdmitDecision::Admitted { lease, .. } = admission.decision {
            self.tokens.push(lease.token);
        }
        self.callers.asked(decision, admission);
    }

    pub(super) fn complete(&mut self, name: TaskName, settings: Settings) -> CompleteTask {
        let outcomes = [Outcome::Failed, Outcome::Succeeded];
        let outcome = *outcomes.choose(&mut self.random).unwrap();
        let result = Bytes::from(vec![self.random.random(); self.random.random_range(0..9)]);
        CompleteTask { name, token: self.token(), outcome, result, settings }
    }

    pub(super) fn renew(&mut self, name: TaskName, settings: Settings) -> RenewTask {
        let (token, lease_duration) = (self.token(), self.length(1..20));
        RenewTask { name, token, lease_duration, settings }
    }

    /// Makes several decisions of one verb in one batch, in runs of one pool.
    pub(super) async fn decide_together(&mut self, context: &str) {
        let mut names = Vec::new();
        for _ in 0..self.random.random_range(1..4) {
            let pool = self.name(&["one", "two", "three{}"]);
            for _ in 0..self.random.random_range(1..9) {
                names.push((self.task_name(&pool), settings(&pool)));
            }
        }
        match self.random.random_range(0..3) {
            0 => {
                let decisions: Vec<_> = names.into_iter().map(|(n, s)| self.admit(n, s)).collect();
                let admissions = self.twins.agree_all(&mut self.pools, &decisions, context).await;
                for (decision, admission) in decisions.iter().zip(&admissions) {
                    self.asked(decision, admission);
                }
            }
            1 => {
                let decisions: Vec<_> =
                    names.into_iter().map(|(n, s)| self.complete(n, s)).collect();
                self.twins.agree_all(&mut self.pools, &decisions, context).await;
            }
            _ => {
                let decisions: Vec<_> = names.into_iter().map(|(n, s)| self.renew(n, s)).collect();
                self.twins.agree_all(&mut self.pools, &decisions, context).await;
            }
        }
    }

    pub(super) fn task_name(&mut self, pool: &Name) -> TaskName {
        let device = self.name(&["a", "b", "c", "d", "e", "f"]);
        TaskName { pool: pool.clone(), device, task: self.name(&["t", "u"]) }
    }

    fn token(&mut self) -> Option<u64> {
        match self.random.random_range(0..4) {
            0 => self.tokens.choose(&mut self.random).copied(),
            1 => self.tokens.last().copied(),
            _ => None,
        }
    }
}
