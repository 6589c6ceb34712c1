//! Ends what ends though nobody calls: leases that lapse, queued tasks whose time is over.
//!
//! Twice a second the server that sweeps sees to the partitions in which something has
//! ended, and to those in which something may have begun since. What a partition's next
//! end is it says itself.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use tokio::time::{MissedTickBehavior, interval};

use super::{Engine, embedded::Kept};
use crate::{
    decision::{Decision, State},
    error::Error,
    names::Name,
    time::{Timestamp, monotonic},
};

const SWEEP_EVERY: Duration = Duration::from_millis(500);
/// By when the store has to answer.
const ROUND_MAX: Duration = Duration::from_secs(2);
/// Partitions that are swept in one round trip.
const SWEPT_MAX: usize = 128;
/// Further partitions are swept while they are in use only.
const SCHEDULED_MAX: usize = 1_000_000;

/// What a sweep begins with.
#[derive(Debug)]
pub(super) struct Round {
    /// The time of the store.
    pub(super) now: Timestamp,
    /// The partitions in which something may have begun, or has ended.
    pub(super) active: Vec<Name>,
}

impl Engine {
    /// Sweeps partitions by these decisions, for ever. Each answers when something of its
    /// partition ends next; if that has passed, it is asked again.
    pub async fn sweep<D>(&self, decision: impl Fn(Name) -> D)
    where
        D: Decision<State: Kept, Outcome = Option<Timestamp>>,
    {
        let mut schedule = HashMap::new();
        let mut leads = false;
        let mut tick = interval(SWEEP_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            match self.pass(&decision, &mut schedule, !leads).await {
                Ok(does_lead) => leads = does_lead,
                Err(error) => {
                    tracing::debug!(%error, "could not sweep");
                    leads = false;
                }
            }
        }
    }

    /// Sweeps once; whether this server is the one that does.
    async fn pass<D>(
        &self,
        decision: &impl Fn(Name) -> D,
        schedule: &mut HashMap<Name, Timestamp>,
        first: bool,
    ) -> Result<bool, Error>
    where
        D: Decision<State: Kept, Outcome = Option<Timestamp>>,
    {
        let deadline = monotonic() + ROUND_MAX;
        let round = match self {
            Engine::Embedded(engine) => Some(engine.round::<D::State>()),
            Engine::Redis(engine) => engine.round(D::State::CAPABILITY, first, deadline).await?,
        };
        let Some(Round { now, active }) = round else {
            schedule.clear();
            return Ok(false);
        };
        let mut due = active;
        if first {
            schedule.clear();
        }
        let ended = schedule.extract_if(|_, next| *next <= now).map(|(name, _)| name);
        due.extend(ended);
        due.sort();
        due.dedup();
        self.sweep_all(due, now, decision, schedule, deadline).await?;
        Ok(true)
    }

    async fn sweep_all<D>(
        &self,
        mut due: Vec<Name>,
        now: Timestamp,
        decision: &impl Fn(Name) -> D,
        schedule: &mut HashMap<Name, Timestamp>,
        deadline: Instant,
    ) -> Result<(), Error>
    where
        D: Decision<State: Kept, Outcome = Option<Timestamp>>,
    {
        while !due.is_empty() && monotonic() < deadline {
            let names = due.split_off(due.len().saturating_sub(SWEPT_MAX));
            let decisions: Vec<D> = names.iter().cloned().map(decision).collect();
            let swept = self.run_all(&decisions, deadline).await;
            let swept = swept.unwrap_or_else(|error| vec![Err(error); names.len()]);
            for (name, next) in names.into_iter().zip(swept) {
                match next {
                    Ok(Some(next)) if next <= now => due.insert(0, name),
                    Ok(Some(next)) if self.is_remote() && schedule.len() < SCHEDULED_MAX => {
                        schedule.insert(name, next);
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::debug!(%error, pool = %name, "could not sweep a partition");
                        schedule.insert(name, now);
                    }
                }
            }
            // Calls go first.
            tokio::task::yield_now().await;
        }
        schedule.extend(due.into_iter().map(|name| (name, now)));
        Ok(())
    }
}
