//! Both executors of a decision: `decide` on a state here, and the script in
//! Redis, on one clock.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tollgate::{
    decision::Decision,
    engine::{Engine, embedded::Kept},
    error::Error,
    time::{Timestamp, monotonic},
};

use crate::world::{Time, redis_engine, up};

/// The states of a capability, by partition.
pub type States<S> = HashMap<Box<[u8]>, S>;

/// Plays a history for each seed, and for one that nobody has seen, side by side.
pub async fn play<F>(seeds: &[u64], history: fn(u64) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let fresh = rand::random();
    println!("seeds {seeds:?} and {fresh}");
    let seeds = seeds.iter().copied().chain([fresh]);
    let histories: Vec<_> = seeds.map(|seed| tokio::spawn(history(seed))).collect();
    for history in histories {
        history.await.unwrap();
    }
}

/// A Redis engine and its time.
pub struct Twins {
    pub time: Time,
    redis: Arc<Engine>,
    maintain: tokio::task::AbortHandle,
}

impl Twins {
    pub async fn new() -> Twins {
        let (redis, time) = redis_engine().await;
        let engine = redis.clone();
        let maintain = tokio::spawn(async move { engine.maintain().await }).abort_handle();
        up(redis.state()).await;
        Twins { time, redis, maintain }
    }

    /// Runs a decision on both and compares what they say.
    pub async fn agree<D>(
        &self,
        states: &mut States<D::State>,
        decision: &D,
        context: &str,
    ) -> D::Outcome
    where
        D: Decision,
        D::State: Kept,
    {
        let (native, redis) = self.both(states, decision).await;
        let now = self.time.now();
        assert_eq!(Ok(&native), redis.as_ref(), "{context}, {now}: {decision:?}");
        native
    }

    /// Runs a decision on both.
    pub async fn both<D>(
        &self,
        states: &mut States<D::State>,
        decision: &D,
    ) -> (D::Outcome, Result<D::Outcome, Error>)
    where
        D: Decision,
        D::State: Kept,
    {
        let now = Timestamp(self.time.now());
        let native = decision.decide(states.entry(decision.partition().into()).or_default(), now);
        let deadline = monotonic() + Duration::from_secs(30);
        (native, self.redis.run(decision, deadline).await)
    }
}

impl Drop for Twins {
    fn drop(&mut self) {
        self.maintain.abort();
    }
}
