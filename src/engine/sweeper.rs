//! Ends what ends though nobody calls: leases that lapse, queued tasks whose time is over.
//!
//! A server on its own engine looks through its partitions ([`local`]). Of the servers that
//! share a Redis one sweeps, by a schedule in Redis ([`shared`]).

mod failures;
mod local;
mod shared;

use std::time::Duration;

use tokio::time::sleep_until;

use super::{Engine, embedded::Kept};
use crate::{
    decision::{Decision, Swept},
    names::Name,
    time::monotonic,
};
use failures::Failures;

/// The time from the begin of one pass to the next.
const SWEEP_EVERY: Duration = Duration::from_millis(500);
/// By when the store has to answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// How long one pass ends what has ended, at most.
const PASS_MAX: Duration = Duration::from_secs(1);

impl Engine {
    /// Sweeps partitions by these decisions, for ever.
    pub async fn sweep<D>(&self, decision: impl Fn(Name) -> D)
    where
        D: Decision<State: Kept, Outcome = Swept>,
    {
        let mut failures = Failures::default();
        let (mut local, mut shared) = (local::Pass::default(), None);
        loop {
            let next = monotonic() + SWEEP_EVERY;
            // A store that does not answer is told of elsewhere.
            if self.check().is_ok() {
                match self {
                    Engine::Embedded(engine) => {
                        local.run(engine, &decision, &mut failures).await;
                    }
                    Engine::Redis(engine) => {
                        let pass = self.pass(engine, &decision, &mut shared, next, &mut failures);
                        if let Err(error) = pass.await {
                            failures.note(&error);
                        }
                    }
                }
            }
            failures.report(monotonic());
            sleep_until(next.into()).await;
        }
    }
}
