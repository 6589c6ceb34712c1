//! Batches: several decisions in one call. Each decision is an atomic step, but the batch is not.
//!
//! Decisions of one partition are executed in order. A batch yields to other calls of its thread
//! after every 32 decisions. Decisions that are not reached by the deadline fail with
//! [`Error::NotReached`]. The first 32 are always executed, so that a repeated batch makes
//! progress.

use std::time::Instant;

use tokio::task::yield_now;

use super::{Embedded, Seen, Sharded};
use crate::Batch;
use tollgate_core::{Decision, error::Error, time::monotonic};

/// Maximum number of decisions of a batch that the embedded engine executes before other calls of
/// the thread run.
const EXECUTED_MAX: usize = 32;
/// How often a batch yields to other calls of the thread while another thread has its shard locked,
/// before the thread blocks.
const BUSY_MAX: usize = 64;

impl Embedded {
    /// Executes a batch in order. Repeats a decision while `is_unfinished`. Passes each outcome through
    /// `answer`.
    pub(crate) async fn decide_all<D, T>(
        &self,
        decisions: &[D],
        deadline: Instant,
        is_unfinished: impl Fn(&D::Outcome) -> bool + Send + Sync,
        answer: impl Fn(D::Outcome) -> T + Send + Sync,
    ) -> Batch<T>
    where
        D: Decision<State: Sharded>,
    {
        self.admit()?;
        let (mut outcomes, mut last) = (Vec::with_capacity(decisions.len()), Seen::default());
        let (mut executed, mut busy) = (0, 0);
        while outcomes.len() < decisions.len() {
            if executed >= EXECUTED_MAX {
                executed = 0;
                yield_now().await;
                if monotonic() >= deadline {
                    break;
                }
            }
            let open = &decisions[outcomes.len()..];
            let run = &open[..open.len().min(EXECUTED_MAX - executed)];
            let seen = D::State::execute_run(self, run, busy == BUSY_MAX, |outcome| {
                executed += 1;
                let is_decided = !outcome.as_ref().is_ok_and(&is_unfinished);
                if is_decided {
                    outcomes.push(outcome.map(&answer));
                } else {
                    // Such a step takes as long as 32 others.
                    executed = EXECUTED_MAX;
                }
                is_decided
            });
            match seen {
                Some(seen) => (last, busy) = (last.and(seen), 0),
                None => {
                    busy += 1;
                    yield_now().await;
                }
            }
        }
        outcomes.resize_with(decisions.len(), || Err(Error::NotReached));
        if !self.is_synced(last) {
            Box::pin(self.synced(last, deadline)).await?;
        }
        Ok(outcomes)
    }
}
