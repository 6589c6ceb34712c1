//! Decides the batches of the coalescer on the store, and prepares what they need first.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use super::{
    super::{Batch, Engine, embedded::Sharded},
    Coalescer, Take,
};
use tollgate_core::{Decision, Joined};

/// The most preparations of a batch. More than one is needed if other servers use up the result in
/// between.
const PREPARATIONS_MAX: usize = 4;

impl Engine {
    /// The coalescer of this kind of decision.
    pub(in super::super) fn coalescer<D: Joined>(&self) -> &Arc<Coalescer<D>> {
        self.hub().by_type(|| Arc::new(Coalescer::new(self.hub().coalesced().clone())))
    }

    /// The number of script calls for coalesced decisions of this kind; 0 on the embedded engine.
    pub fn script_calls<D: Joined>(&self) -> u64 {
        self.coalescer::<D>().calls.load(Ordering::Relaxed)
    }
}

impl<D> Take<D> for Arc<Engine>
where
    D: Joined<State: Sharded, Outcome: Clone, Preparation: Decision<State: Sharded>>,
{
    /// Decides a batch. Decisions that lack a preparation are decided again after it, up to
    /// [`PREPARATIONS_MAX`] times.
    async fn take(&self, decisions: Vec<D>, deadline: Instant) -> Batch<D::Outcome> {
        let coalescer = self.coalescer::<D>();
        coalescer.count(decisions.len());
        let mut outcomes = self.store_all(&decisions, deadline).await?;
        for _ in 0..PREPARATIONS_MAX {
            let lacking =
                outcomes.iter().zip(&decisions).enumerate().filter_map(|(index, pair)| {
                    let (outcome, decision) = pair;
                    let outcome =
                        outcome.as_ref().ok().filter(|outcome| D::is_unprepared(outcome))?;
                    Some((index, (decision.clone(), outcome.clone())))
                });
            let (places, lacking): (Vec<usize>, Vec<_>) = lacking.unzip();
            let Some(preparation) = D::preparation(&lacking) else { break };
            coalescer.count(1);
            let decided = match self.store(&preparation, deadline).await {
                Ok(prepared) => {
                    let again = lacking.iter().map(|(decision, _)| decision.prepared(&prepared));
                    let again: Vec<D> = again.collect();
                    coalescer.count(again.len());
                    self.store_all(&again, deadline).await
                }
                Err(error) => Err(error),
            };
            let decided = super::all(decided, places.len());
            for (place, outcome) in places.into_iter().zip(decided) {
                outcomes[place] = outcome;
            }
        }
        Ok(outcomes)
    }
}
