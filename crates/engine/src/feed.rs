//! Feeds deliver the events of a pool or policy to any number of watchers.
//!
//! WatchPool and WatchRates call [`Engine::watch`]. Each watched topic has one feed on this server:
//! a task that reads the topic's histories about every 100 ms into a ring (`ring`), which all its
//! watchers read. The load on the store therefore does not depend on the number of watchers. The
//! feed starts with the first watcher and ends with the last.
//!
//! A watcher that starts with older events reads the store itself until it reaches the ring; at
//! most 8 watchers do so at a time. The ring is bounded. A watcher that falls too far behind ends
//! with [`Error::SlowWatcher`] and can continue from its last cursor.
//!
//! # Guarantee
//! A watcher receives the events of a history in order and without repeats. If events are missing
//! because they are no longer stored, a gap message takes their place.

mod position;
mod reader;
mod ring;
mod watcher;

use std::{
    collections::HashMap,
    fmt,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::{
    sync::{Semaphore, watch},
    time::timeout_at,
};

use super::{Engine, embedded::Sharded};
use crate::budget::{self, ReachedLimit};
use position::Position;
use reader::TopicReader;
use ring::{Ring, RingReader};
use tollgate_core::{
    Decision,
    collections::{After, EventPage},
    error::Error,
    time::{Timestamp, monotonic},
};
pub use watcher::Watcher;

/// The interval between reads of a feed. It increases with the number of feeds: with ten thousand,
/// each feed reads once per second.
const READ_EVERY: Duration = Duration::from_millis(100);
const READ_PER_FEED: Duration = Duration::from_micros(100);
/// The time limit of a read.
const READ_MAX: Duration = Duration::from_secs(1);
/// Maximum number of events of one read by a feed, and by a watcher that catches up.
const FEED_PAGE: usize = 1000;
const OWN_PAGE: usize = 128;
/// Maximum number of watchers of one kind that read the store at a time.
const READERS_MAX: usize = 8;
/// Maximum number of events in all rings of one kind. A single ring may contain up to `RING_MAX`,
/// and always at least `RING_MIN`, however many rings there are.
const RINGS_MAX: usize = 1 << 20;
const RING_MAX: usize = 1 << 14;
const RING_MIN: usize = 1 << 10;

/// A source of events: one history, or several histories that are merged.
pub trait Topic: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static {
    /// The type of stored events.
    type Event: Send + 'static;
    /// The decision that reads a page of one history.
    type Read: Decision<State: Sharded, Outcome = EventPage<Self::Event>>;
    /// The message for watchers. A clone shares its memory.
    type Message: Clone + Send + Sync + 'static;

    /// The number of histories.
    const HISTORIES: usize;

    /// Returns the namespace and the name, for log lines.
    fn name(&self) -> (&str, &str);
    /// Creates the read of the events after a cursor in one history.
    fn read(&self, history: usize, after: After) -> Self::Read;
    /// Returns the time of an event.
    fn time(event: &Self::Event) -> Timestamp;
    /// Creates the message for an event, or for a gap (`None`). `seen` is the cursor after it,
    /// which is the number of the last event of each history.
    fn told(&self, event: Option<Self::Event>, seen: &[u64]) -> Self::Message;
}

/// The position at which a watcher starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// After all events so far.
    Now,
    /// At the oldest stored event.
    Oldest,
    /// After the event with this number, for each history.
    After(Box<[u64]>),
}

/// All feeds of one kind of topic, with the engine that they read.
struct Feeds<T: Topic> {
    engine: Arc<Engine>,
    shared: Arc<SharedFeeds<T>>,
}

/// The feeds of one kind of topic. It does not refer to the engine, which owns it.
struct SharedFeeds<T: Topic> {
    /// The running feeds by topic.
    feeds: Mutex<HashMap<T, Arc<Feed<T>>>>,
    /// Permits for single watchers to read the store.
    readers: Semaphore,
}

/// The feed of a topic.
struct Feed<T: Topic> {
    /// Notifies the watchers on each change; closed once no watcher is left.
    ring: watch::Sender<Ring<T::Message>>,
}

impl<T: Topic> fmt::Debug for Feeds<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feeds").field("topics", &self.count()).finish_non_exhaustive()
    }
}

/// Starts a watcher, as [`Engine::watch`] describes.
pub(crate) async fn watch<T: Topic>(
    engine: &Arc<Engine>,
    topic: T,
    start: Start,
    deadline: Instant,
) -> Result<Watcher<T>, Error> {
    Feeds::lookup(engine).watch(topic, start, deadline).await
}

impl<T: Topic> Feeds<T> {
    /// Returns the feeds of an engine.
    fn lookup(engine: &Arc<Engine>) -> Arc<Feeds<T>> {
        let create =
            || SharedFeeds { feeds: Mutex::default(), readers: Semaphore::new(READERS_MAX) };
        let shared = engine.hub().by_type(|| Arc::<SharedFeeds<T>>::new(create())).clone();
        Arc::new(Feeds { engine: engine.clone(), shared })
    }

    /// Starts a watcher.
    async fn watch(
        self: &Arc<Feeds<T>>,
        topic: T,
        start: Start,
        deadline: Instant,
    ) -> Result<Watcher<T>, Error> {
        let read = topic.read(0, After { number: None, limit: 1 });
        let permit = self.engine.hub().watcher(read.partition())?;
        let deadline = deadline.min(monotonic() + READ_MAX);
        self.engine.admit()?;
        let reader = timeout_at(deadline.into(), self.shared.readers.acquire()).await;
        let _reader = reader.map_err(|_| budget::overloaded(ReachedLimit::Overload))?;
        let (place, ready) = self.begin(&topic, start, deadline).await?;
        let seat = self.join(&topic, &place);
        Ok(Watcher::new(self.clone(), topic, place, ready, seat, permit))
    }

    /// Returns the start position of a watcher, and its first messages.
    async fn begin(
        &self,
        topic: &T,
        start: Start,
        deadline: Instant,
    ) -> Result<(Position, Vec<T::Message>), Error> {
        let mut place = match start {
            Start::Now => {
                return Ok((Position::now(&self.engine, topic, deadline).await?, Vec::new()));
            }
            Start::Oldest => Position::oldest(T::HISTORIES),
            Start::After(seen) => Position::after(seen),
        };
        let batch = place.read_on(&self.engine, topic, OWN_PAGE, deadline).await?;
        let gap = batch.gap.map(|gap| gap.told);
        let events = batch.entries.into_iter().filter_map(|entry| entry.told);
        Ok((place, gap.into_iter().chain(events).collect()))
    }

    /// Joins the ring of a topic. The first watcher starts the feed's reader at its own position.
    fn join(self: &Arc<Feeds<T>>, topic: &T, place: &Position) -> RingReader<T::Message> {
        let mut feeds = self.lock();
        if let Some(feed) = feeds.get(topic) {
            return feed.join();
        }
        let (ring, _) = watch::channel(Ring::new(place.seen()));
        let feed = Arc::new(Feed { ring });
        feeds.insert(topic.clone(), feed.clone());
        let seat = feed.join();
        let reader = TopicReader::new(self.clone(), topic.clone(), feed, place.clone());
        tokio::spawn(reader.run());
        seat
    }

    /// Ends a feed if it has no watcher. Returns whether it has ended.
    fn retire(&self, topic: &T, feed: &Arc<Feed<T>>) -> bool {
        let mut feeds = self.lock();
        let is_idle = feed.ring.receiver_count() == 0;
        if is_idle {
            forget(&mut feeds, topic, feed);
        }
        is_idle
    }

    /// Returns the number of watched topics.
    fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<T, Arc<Feed<T>>>> {
        self.shared.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Topic> Feed<T> {
    /// Adds a watcher to the ring.
    fn join(&self) -> RingReader<T::Message> {
        let mut seat = None;
        self.ring.send_if_modified(|ring| {
            seat = Some(ring.join());
            // Other watchers need no notification.
            false
        });
        RingReader::new(self.ring.subscribe(), seat.unwrap_or_default())
    }
}

/// Removes a feed, unless another one has taken its place.
fn forget<T: Topic>(feeds: &mut HashMap<T, Arc<Feed<T>>>, topic: &T, feed: &Arc<Feed<T>>) {
    if feeds.get(topic).is_some_and(|there| Arc::ptr_eq(there, feed)) {
        feeds.remove(topic);
    }
}

#[cfg(test)]
mod tests;
