//! The sweeper expires leases and queued tasks in the background.
//!
//! For decisions, a lease ends the moment it expires. The sweeper removes it from the pool's list,
//! which writes its event, wakes the next waiter and dispatches retries on time even if nobody
//! calls. [`Engine::sweep`](crate::Engine::sweep) runs for the lifetime of the server, with one
//! pass every 500 ms.
//!
//! An embedded engine searches its own shards ([`local`]). One of the servers that share a Redis
//! sweeps, following a schedule in Redis ([`shared`]). There is one schedule for the default
//! namespace and one for all others. They are swept concurrently, so that neither waits for the
//! other. A sweep is a decision like any other (`SweepPool`), so two sweeping servers do no harm.

mod local;
mod shared;

use std::time::Duration;

use tokio::time::sleep_until;

use super::Failures;
use crate::{
    embedded::{Embedded, Tabled},
    redis::{Redis, index::IndexOf},
};
use tollgate_core::{Decision, State, Swept, names::Name, time::monotonic};

/// The time from the start of one pass to the start of the next.
const SWEEP_EVERY: Duration = Duration::from_millis(500);
/// Time limit for one request of the sweeper.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Maximum time that a pass spends on due work.
const PASS_MAX: Duration = Duration::from_secs(1);

/// The log line of failures.
const FAILED: &str = "the sweeper failed: events of expired leases are delayed; it tries again";

/// Sweeps an embedded engine forever. `decision` creates the sweep decision for a partition.
pub(crate) async fn sweep_embedded<D>(engine: &Embedded, decision: impl Fn(Name) -> D)
where
    D: Decision<State: Tabled, Outcome = Swept>,
{
    let (failures, mut pass) = (Failures::new(FAILED), local::Pass::default());
    loop {
        let next = monotonic() + SWEEP_EVERY;
        // An unusable store is reported elsewhere and swept later.
        if engine.check().is_ok() {
            pass.run(engine, &decision, &failures).await;
        }
        sleep_until(next.into()).await;
    }
}

/// Sweeps a Redis forever.
pub(crate) async fn sweep_redis<D>(engine: &Redis, decision: impl Fn(Name) -> D)
where
    D: Decision<State: Tabled, Outcome = Swept>,
{
    let [own, others] =
        IndexOf::both(D::State::CAPABILITY).map(|index| sweep_index(engine, index, &decision));
    tokio::join!(own, others);
}

async fn sweep_index<D>(engine: &Redis, index: IndexOf, decision: &impl Fn(Name) -> D)
where
    D: Decision<State: Tabled, Outcome = Swept>,
{
    let (failures, mut known) = (Failures::new(FAILED), None);
    loop {
        let next = monotonic() + SWEEP_EVERY;
        if engine.check().is_ok() {
            let pass = shared::pass(engine, index, decision, &mut known, next, &failures);
            if let Err(error) = pass.await {
                failures.log(&error);
            }
        }
        sleep_until(next.into()).await;
    }
}
