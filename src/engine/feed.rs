//! Feeds: what happens in a pool or under a policy, told to any number of watchers.
//!
//! Each topic that is watched on this server has a feed: one task that reads the
//! topic's histories about every 100 ms into a ring, from which all its watchers take.
//! It begins with the first of them and ends with the last. The ring keeps what some
//! watcher has not taken yet, up to a bound: who falls out of it is cut off, and goes on
//! with its last cursor. Who begins with older events catches up by reading the store
//! itself, a few watchers at a time.

mod place;
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

use super::{Engine, embedded::Kept};
use crate::{
    decision::Decision,
    error::Error,
    events::{After, EventPage},
    time::{Timestamp, monotonic},
};
use place::Place;
use reader::Reader;
use ring::{Ring, Seat};
pub use watcher::Watcher;

/// How often a feed reads; and what each further feed of a server adds to that: ten
/// thousand of them read once a second.
const READ_EVERY: Duration = Duration::from_millis(100);
const READ_PER_FEED: Duration = Duration::from_micros(100);
/// By when the store has to answer a read.
const READ_MAX: Duration = Duration::from_secs(1);
/// Events that a feed takes in one read, and a watcher that catches up.
const FEED_PAGE: usize = 1000;
const OWN_PAGE: usize = 128;
/// Watchers of one kind that read the store at a time.
const READERS_MAX: usize = 8;
/// Events in all rings of one kind. A ring alone has room for `RING_MAX`; however many
/// rings there are, each has room for `RING_MIN`.
const RINGS_MAX: usize = 1 << 20;
const RING_MAX: usize = 1 << 14;
const RING_MIN: usize = 1 << 10;

/// What can be watched: a history of events, or several that are told as one.
pub trait Topic: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static {
    /// What the histories hold.
    type Event: Send + 'static;
    /// Reads one of the histories.
    type Read: Decision<State: Kept, Outcome = EventPage<Self::Event>>;
    /// An event as watchers get it; a clone shares its memory.
    type Told: Clone + Send + Sync + 'static;

    /// How many histories it has.
    const HISTORIES: usize;

    /// Asks for what follows in one of its histories.
    fn read(&self, history: usize, after: After) -> Self::Read;
    /// When an event happened.
    fn time(event: &Self::Event) -> Timestamp;
    /// Tells of an event, or of a gap, after which this is seen of each history.
    fn told(event: Option<Self::Event>, seen: &[u64]) -> Self::Told;
}

/// Where a watcher begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// With what happens from now on.
    Now,
    /// With all that is kept.
    Oldest,
    /// After the event of this number, of each history.
    After(Box<[u64]>),
}

/// The feeds of one kind of topic.
pub struct Feeds<T: Topic> {
    engine: Arc<Engine>,
    feeds: Mutex<HashMap<T, Arc<Feed<T>>>>,
    readers: Semaphore,
}

/// What a topic's watchers take from.
struct Feed<T: Topic> {
    ring: watch::Sender<Ring<T::Told>>,
}

impl<T: Topic> fmt::Debug for Feeds<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feeds").field("topics", &self.count()).finish_non_exhaustive()
    }
}

impl<T: Topic> Feeds<T> {
    /// No feeds yet.
    pub fn new(engine: Arc<Engine>) -> Arc<Feeds<T>> {
        let readers = Semaphore::new(READERS_MAX);
        Arc::new(Feeds { engine, feeds: Mutex::default(), readers })
    }

    /// Watches a topic. Once this returns, nothing that happens is missed. Returns by
    /// `deadline`.
    pub async fn watch(
        self: &Arc<Feeds<T>>,
        topic: T,
        start: Start,
        deadline: Instant,
    ) -> Result<Watcher<T>, Error> {
        let permit = self.engine.hub().place()?;
        let deadline = deadline.min(monotonic() + READ_MAX);
        self.engine.check()?;
        let turn = timeout_at(deadline.into(), self.readers.acquire()).await;
        let _turn = turn.map_err(|_| Error::Overloaded)?;
        let (place, ready) = self.begin(&topic, start, deadline).await?;
        let seat = self.join(&topic, &place);
        Ok(Watcher::new(self.clone(), topic, place, ready, seat, permit))
    }

    /// A watcher's place, and what it is told first.
    async fn begin(
        &self,
        topic: &T,
        start: Start,
        deadline: Instant,
    ) -> Result<(Place, Vec<T::Told>), Error> {
        let mut place = match start {
            Start::Now => {
                return Ok((Place::now(&self.engine, topic, deadline).await?, Vec::new()));
            }
            Start::Oldest => Place::oldest(T::HISTORIES),
            Start::After(seen) => Place::after(seen),
        };
        let batch = place.read_on(&self.engine, topic, OWN_PAGE, deadline).await?;
        let gap = batch.gap.map(|gap| gap.told);
        let events = batch.entries.into_iter().filter_map(|entry| entry.told);
        Ok((place, gap.into_iter().chain(events).collect()))
    }

    /// Takes a seat at a topic's ring. The first to come starts its reader, from where
    /// it has read to itself.
    fn join(self: &Arc<Feeds<T>>, topic: &T, place: &Place) -> Seat<T::Told> {
        let mut feeds = self.lock();
        if let Some(feed) = feeds.get(topic) {
            return feed.join();
        }
        let (ring, _) = watch::channel(Ring::new(place.seen()));
        let feed = Arc::new(Feed { ring });
        feeds.insert(topic.clone(), feed.clone());
        let seat = feed.join();
        let reader = Reader::new(self.clone(), topic.clone(), feed, place.clone());
        tokio::spawn(reader.run());
        seat
    }

    /// Ends a feed, unless somebody watches it; whether it did.
    fn retire(&self, topic: &T, feed: &Arc<Feed<T>>) -> bool {
        let mut feeds = self.lock();
        let is_idle = feed.ring.receiver_count() == 0;
        if is_idle {
            forget(&mut feeds, topic, feed);
        }
        is_idle
    }

    /// How many topics are watched.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<T, Arc<Feed<T>>>> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Topic> Feed<T> {
    fn join(&self) -> Seat<T::Told> {
        let mut seat = None;
        self.ring.send_if_modified(|ring| {
            seat = Some(ring.join());
            // Of no concern to the others.
            false
        });
        Seat::new(self.ring.subscribe(), seat.unwrap_or_default())
    }
}

/// Takes a feed out, if it is not another one by now.
fn forget<T: Topic>(feeds: &mut HashMap<T, Arc<Feed<T>>>, topic: &T, feed: &Arc<Feed<T>>) {
    if feeds.get(topic).is_some_and(|there| Arc::ptr_eq(there, feed)) {
        feeds.remove(topic);
    }
}

#[cfg(test)]
mod tests;
