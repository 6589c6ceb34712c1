//! A topic of two histories that tests append to.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::super::*;
use crate::{budget::CallerLimits, embedded::Embedded};
use tollgate_core::{
    Call, Reply,
    admission::Pool,
    collections::History,
    script::{self, Script},
    time::Clock,
};

pub(super) const MOST: u32 = 20_000;
/// Maximum number of watchers of the engine.
pub(super) const WATCHERS_MAX: usize = 1000;

/// Two histories of numbered events. The number is also the time of its event.
#[derive(Debug, Default)]
struct Log {
    histories: [Mutex<Option<Box<History<u64>>>>; 2],
    reads: AtomicUsize,
}

#[derive(Debug, Clone)]
pub(super) struct Numbers(Arc<Log>);

#[derive(Debug, Clone)]
pub(super) struct Read {
    log: Arc<Log>,
    history: usize,
    after: After,
}

impl PartialEq for Numbers {
    fn eq(&self, other: &Numbers) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Numbers {}

impl Hash for Numbers {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// An event, or `None` for a gap, with the seen numbers.
pub(super) type Told = (Option<u64>, Vec<u64>);

impl Topic for Numbers {
    type Event = u64;
    type Read = Read;
    type Message = Told;

    const HISTORIES: usize = 2;

    fn name(&self) -> (&str, &str) {
        ("", "numbers")
    }

    fn read(&self, history: usize, after: After) -> Read {
        Read { log: self.0.clone(), history, after }
    }

    fn time(event: &u64) -> Timestamp {
        Timestamp(*event)
    }

    fn told(&self, event: Option<u64>, seen: &[u64]) -> Told {
        (event, seen.to_vec())
    }
}

impl Decision for Read {
    type State = Pool;
    type Outcome = EventPage<u64>;

    const SCRIPT: &'static Script = &script::admission::READ_EVENTS;

    fn partition(&self) -> &[u8] {
        b"log"
    }

    fn encode(&self, _: &mut Call) {}

    fn parse(_: &mut Reply) -> Result<EventPage<u64>, Error> {
        Err(Error::DeadlineExceeded)
    }

    fn decide(&self, _: &mut Pool, _: Timestamp) -> EventPage<u64> {
        self.log.reads.fetch_add(1, Ordering::SeqCst);
        let history = self.log.histories[self.history].lock().expect("no test panics in it");
        History::page(history.as_deref(), self.after)
    }
}

pub(super) struct World {
    pub(super) feeds: Arc<Feeds<Numbers>>,
    pub(super) topic: Numbers,
    now: AtomicU64,
}

impl World {
    pub(super) fn new() -> World {
        let limits = CallerLimits { watchers: WATCHERS_MAX, ..CallerLimits::DEFAULT };
        let engine = Embedded::new(Clock::system()).with_limits(&limits);
        let engine = Arc::new(Engine::Embedded(engine));
        let topic = Numbers(Arc::default());
        World { feeds: Feeds::lookup(&engine), topic, now: AtomicU64::new(1_000_000_000) }
    }

    /// Appends events and returns them.
    pub(super) fn append(&self, history: usize, number: usize) -> Vec<u64> {
        let next = || self.now.fetch_add(1000, Ordering::SeqCst) + 1000;
        let events: Vec<u64> = (0..number).map(|_| next()).collect();
        let mut history = self.topic.0.histories[history].lock().expect("no test panics in it");
        for event in &events {
            History::append(&mut history, *event, MOST, Timestamp(*event));
        }
        events
    }

    /// Removes a history, as if it had expired.
    pub(super) fn lose(&self, history: usize) {
        *self.topic.0.histories[history].lock().expect("no test panics in it") = None;
    }

    pub(super) fn reads(&self) -> usize {
        self.topic.0.reads.load(Ordering::SeqCst)
    }

    pub(super) async fn watch(&self, start: Start) -> Watcher<Numbers> {
        self.try_watch(start).await.expect("there is room")
    }

    pub(super) async fn try_watch(&self, start: Start) -> Result<Watcher<Numbers>, Error> {
        let deadline = monotonic() + Duration::from_secs(60);
        self.feeds.engine.watch(self.topic.clone(), start, deadline).await
    }

    /// Waits until no feed is left.
    pub(super) async fn idle(&self) {
        while self.feeds.count() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
