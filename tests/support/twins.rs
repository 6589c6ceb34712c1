//! Both executors of a decision on one clock: `decide` on a state in this process, and the script
//! in Redis.

use std::{
    any::Any,
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{FutureExt, StreamExt};
use redis::aio::{PubSubSink, PubSubStream};
use tollgate_core::{
    Decision, State,
    error::Error,
    rate,
    record::{Entry, Export, Exported, Import, Source},
    time::{Timestamp, monotonic},
};
use tollgate_engine::{Engine, embedded::Tabled};

use crate::support::{
    reread::Reread,
    tier,
    world::{Time, redis_engine, redis_url, up},
};

/// The machine may stall for a while.
const PATIENCE: Duration = Duration::from_secs(60);

/// The states of a capability, by partition.
pub type States<S> = HashMap<Box<[u8]>, S>;

/// Plays a history for one random seed and for the first of `seeds`, or for all of them in
/// `tests/run.sh all`, all at the same time.
pub async fn play<F>(seeds: &[u64], history: fn(u64) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let seeds = if tier::is_full() { seeds } else { &seeds[..seeds.len().min(1)] };
    let fresh = rand::random();
    println!("seeds {seeds:?} and {fresh}");
    let seeds = seeds.iter().copied().chain([fresh]);
    let histories: Vec<_> = seeds.map(|seed| tokio::spawn(history(seed))).collect();
    for history in histories {
        history.await.unwrap();
    }
}

/// A Redis engine and its clock, and the wake-ups and events of `decide` for comparison.
pub struct Twins {
    pub time: Time,
    redis: Arc<Engine>,
    maintain: tokio::task::AbortHandle,
    /// Wake-ups of `decide` since the last comparison.
    told: Mutex<Vec<Hint>>,
    /// Events of `decide` that were not collected yet.
    events: Mutex<Vec<Left>>,
    /// Reads states back from their stored entries at intervals.
    reread: Mutex<Reread>,
    listener: Option<(PubSubSink, PubSubStream)>,
}

/// The channel of a server, and the number of a call.
type Hint = (String, u64);
/// The tag of a partition, an event and its time.
type Left = (Box<[u8]>, rate::RateEvent, Timestamp);

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

    /// Reads a state back before each decision whose number is a multiple of `every`.
    pub fn read_back_every(&self, every: usize) {
        self.reread.lock().unwrap().every = every;
    }

    /// Returns the events of `decide` since the last call.
    pub fn take_events(&self) -> Vec<Left> {
        std::mem::take(&mut *self.events.lock().unwrap())
    }

    /// Compares the wake-ups of both executors since the last comparison. Returns their number.
    pub async fn agree_on_wake_ups(&mut self, context: &str) -> usize {
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
        D::State: Tabled,
    {
        let (native, redis) = self.both(states, decision).await;
        let now = self.time.now();
        assert_eq!(Ok(&native), redis.as_ref(), "{context}, {now}: {decision:?}");
        native
    }

    /// Exports a partition and imports it under another name, on both executors. The export of the
    /// copy must be equal. Returns the number of entries.
    pub async fn copy<S: Exported + Tabled>(
        &self,
        states: &mut States<S>,
        [from, to]: [&[u8]; 2],
        sources: &[Source],
        context: &str,
    ) -> usize {
        let entries = self.exported(states, from, sources, context).await;
        for Entry { part, value } in &entries {
            if let Some(import) = Import::<S>::new(to, part, value).unwrap() {
                self.agree(states, &import, context).await;
            }
        }
        let copied = self.exported(states, to, sources, context).await;
        assert_eq!(copied, entries, "{context}: {}", from.escape_ascii());
        entries.len()
    }

    /// Returns the entries of a partition, equal on both executors. The first entry of a part
    /// counts. Pages may differ: Redis reads hashes in no particular order.
    async fn exported<S: Exported + Tabled>(
        &self,
        states: &mut States<S>,
        partition: &[u8],
        sources: &[Source],
        context: &str,
    ) -> Vec<Entry> {
        let [mut native, mut redis] = [BTreeMap::new(), BTreeMap::new()];
        let put = |entries: &mut BTreeMap<Vec<u8>, Vec<u8>>, of: &Export<S>, page| {
            for Entry { part, value } in of.named(page) {
                entries.entry(part).or_insert(value);
            }
        };
        for source in sources {
            let first = || Some(Export::<S>::new(partition.to_vec(), source.clone()));
            let mut next = first();
            while let Some(export) = next {
                let page = self.native(states, &export);
                next = export.behind(&page);
                put(&mut native, &export, page);
            }
            let mut next = first();
            while let Some(export) = next {
                let deadline = monotonic() + PATIENCE;
                let page = self.redis.store(&export, deadline).await.unwrap();
                next = export.behind(&page);
                put(&mut redis, &export, page);
            }
        }
        let now = self.time.now();
        assert_eq!(native, redis, "{context}, {now}: {}", partition.escape_ascii());
        native.into_iter().map(|(part, value)| Entry { part, value }).collect()
    }

    /// Runs a decision on both executors. Returns both outcomes.
    pub async fn both<D>(
        &self,
        states: &mut States<D::State>,
        decision: &D,
    ) -> (D::Outcome, Result<D::Outcome, Error>)
    where
        D: Decision,
        D::State: Tabled,
    {
        let native = self.native(states, decision);
        let deadline = monotonic() + PATIENCE;
        (native, self.redis.store(decision, deadline).await)
    }

    /// Runs a decision about several partitions on both executors, and compares the outcomes.
    pub async fn agree_several<S: Tabled, D: Decision<State = Vec<S>>>(
        &self,
        states: &mut States<S>,
        decision: &D,
        context: &str,
    ) -> D::Outcome {
        let now = Timestamp(self.time.now());
        let partitions = decision.partitions();
        let taken = partitions.iter().map(|name| states.remove(*name).unwrap_or_default());
        let mut several: Vec<S> = taken.collect();
        let native = decision.decide(&mut several, now);
        for (name, mut state) in partitions.into_iter().zip(several) {
            self.reread.lock().unwrap().keep(name, &mut state);
            states.insert(name.into(), state);
        }
        let redis = self.redis.store(decision, monotonic() + PATIENCE).await;
        assert_eq!(Ok(&native), redis.as_ref(), "{context}, {now:?}: {decision:?}");
        native
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
        D::State: Tabled,
    {
        let native: Vec<_> = decisions.iter().map(|d| self.native(states, d)).collect();
        let deadline = monotonic() + PATIENCE;
        let redis = self.redis.store_all(decisions, deadline).await.expect("they are answered");
        let now = self.time.now();
        assert_eq!(native.len(), redis.len(), "{context}, {now}");
        for (index, (native, redis)) in native.iter().zip(&redis).enumerate() {
            assert_eq!(Ok(native), redis.as_ref(), "{context}, {now}: {:?}", decisions[index]);
        }
        native
    }

    fn native<D: Decision>(&self, states: &mut States<D::State>, decision: &D) -> D::Outcome
    where
        D::State: Tabled,
    {
        let now = Timestamp(self.time.now());
        let state = states.entry(decision.partition().into()).or_default();
        let native = self.reread.lock().unwrap().decide(decision, state, now);
        // Only rates have events that are appended to another state.
        let event = state.take_event().map(|event| event as Box<dyn Any>);
        let event = event.map(|event| event.downcast().expect("an event of a rate"));
        let tag = D::State::tag(decision.partition());
        self.events.lock().unwrap().extend(event.map(|event| (tag.into(), *event, now)));
        let told = state.take_wake_ups().into_iter();
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
