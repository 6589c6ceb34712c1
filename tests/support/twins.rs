//! Both executors of a decision on one clock: `decide` on a state in this process, and the script
//! in Redis.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{FutureExt, StreamExt};
use redis::aio::{PubSubSink, PubSubStream};
use tollgate::{
    decision::{
        Decision, State,
        error::Error,
        time::{Timestamp, monotonic},
    },
    engine::{Engine, embedded::Kept},
    rate,
};

use crate::{
    support::reread::Reread,
    support::world::{Time, redis_engine, redis_url, up},
};

/// The states of a capability, by partition.
pub type States<S> = HashMap<Box<[u8]>, S>;

/// Plays a history for each seed, and for one random seed, all at the same time.
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

/// A Redis engine and its clock, and what `decide` has produced for comparison.
pub struct Twins {
    pub time: Time,
    redis: Arc<Engine>,
    maintain: tokio::task::AbortHandle,
    /// Wake-ups of `decide` since the last comparison.
    told: Mutex<Vec<Hint>>,
    /// Events of `decide` that were not taken yet.
    events: Mutex<Vec<Left>>,
    /// Reads states back from their stored entries at intervals.
    reread: Mutex<Reread>,
    listener: Option<(PubSubSink, PubSubStream)>,
}

/// The channel of a server, and the number of a call.
type Hint = (String, u64);
/// The tag of a partition, an event and its time.
type Left = (Box<[u8]>, rate::Event, Timestamp);

impl Twins {
    pub async fn new() -> Twins {
        let (redis, time) = redis_engine().await;
        let engine = redis.clone();
        let maintain = tokio::spawn(async move { engine.maintain().await }).abort_handle();
        up(redis.state()).await;
        let (told, events, reread) = (Mutex::default(), Mutex::default(), Mutex::default());
        Twins { time, redis, maintain, told, events, reread, listener: None }
    }

    /// Also receives the wake-ups that scripts publish on these channels.
    pub async fn listening(channels: &[String]) -> Twins {
        let mut twins = Twins::new().await;
        let client = redis::Client::open(redis_url()).unwrap();
        let (mut sink, stream) = client.get_async_pubsub().await.unwrap().split();
        for channel in channels {
            sink.subscribe(channel).await.unwrap();
        }
        twins.listener = Some((sink, stream));
        twins
    }

    /// Takes the events of `decide` since the last call.
    pub fn take_events(&self) -> Vec<Left> {
        std::mem::take(&mut *self.events.lock().unwrap())
    }

    /// Compares the wake-ups of both executors since the last comparison. Returns their number.
    pub async fn agree_on_hints(&mut self, context: &str) -> usize {
        let mut native = std::mem::take(&mut *self.told.lock().unwrap());
        let (sink, stream) = self.listener.as_mut().expect("Twins::listening was not used");
        // Messages that were published before the answer to PING arrive before it.
        sink.ping::<redis::Value>().await.unwrap();
        let mut redis = Vec::new();
        while let Some(Some(message)) = stream.next().now_or_never() {
            let number = message.get_payload::<String>().unwrap().parse().unwrap();
            redis.push((message.get_channel_name().to_owned(), number));
        }
        // Batches are decided pool by pool, so the order may differ.
        native.sort();
        redis.sort();
        assert_eq!(native, redis, "{context}: different wake-ups");
        native.len()
    }

    /// Runs a decision on both executors, and compares the outcomes.
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

    /// Runs a decision on both executors. Returns both outcomes.
    pub async fn both<D>(
        &self,
        states: &mut States<D::State>,
        decision: &D,
    ) -> (D::Outcome, Result<D::Outcome, Error>)
    where
        D: Decision,
        D::State: Kept,
    {
        let native = self.native(states, decision);
        let deadline = monotonic() + Duration::from_secs(30);
        (native, self.redis.run(decision, deadline).await)
    }

    /// Runs decisions on both executors, in Redis as one batch, and compares the outcomes.
    pub async fn agree_all<D>(
        &self,
        states: &mut States<D::State>,
        decisions: &[D],
        context: &str,
    ) -> Vec<D::Outcome>
    where
        D: Decision,
        D::State: Kept,
    {
        let native: Vec<_> = decisions.iter().map(|d| self.native(states, d)).collect();
        let deadline = monotonic() + Duration::from_secs(30);
        let redis = self.redis.run_all(decisions, deadline).await.expect("they are answered");
        let now = self.time.now();
        assert_eq!(native.len(), redis.len(), "{context}, {now}");
        for (index, (native, redis)) in native.iter().zip(&redis).enumerate() {
            assert_eq!(Ok(native), redis.as_ref(), "{context}, {now}: {:?}", decisions[index]);
        }
        native
    }

    fn native<D: Decision>(&self, states: &mut States<D::State>, decision: &D) -> D::Outcome
    where
        D::State: Kept,
    {
        let now = Timestamp(self.time.now());
        let state = states.entry(decision.partition().into()).or_default();
        let native = self.reread.lock().unwrap().decide(decision, state, now);
        let event = state.take_event().map(|event| (decision.tag().into(), *event, now));
        self.events.lock().unwrap().extend(event);
        let told = state.take_hints().into_iter();
        self.told.lock().unwrap().extend(told.map(|(channel, call)| (channel.to_string(), call)));
        native
    }
}

impl Drop for Twins {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            println!("states read back: {}", self.reread.lock().unwrap().count);
        }
        self.maintain.abort();
    }
}
