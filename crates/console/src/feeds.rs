//! The last events of pools and policies, for the pages that show them.
//!
//! A feed watches its pool or policy from the oldest stored event, like any gRPC caller. It ends
//! when no page has read it for a while, or when its reader loses the right to it.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::{sleep, timeout};

use super::{
    events::{EventRow, EventSource, EventStream},
    page::Problem,
    quota::{Permit, Quota},
    sessions::RightsId,
    visit::Visit,
};
use tollgate_telemetry::coarse;

/// The maximum number of feeds.
const FEEDS_MAX: usize = 100;
/// The maximum number of events in a feed. A further one replaces the oldest.
const EVENTS_MAX: usize = 200;
/// A feed ends this long after its last reader.
const UNREAD_MAX: Duration = Duration::from_secs(15);
/// Interval at which a feed without new events checks that it still has readers.
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// How many times a new feed is checked for its first events, and the interval between two checks.
const TRIES: usize = 15;
const TRY_EVERY: Duration = Duration::from_millis(20);

/// All feeds of a server.
#[derive(Debug)]
pub(super) struct EventFeeds {
    by_id: Mutex<HashMap<FeedId, Arc<EventFeed>>>,
    quota: Quota,
}

impl Default for EventFeeds {
    fn default() -> EventFeeds {
        EventFeeds { by_id: Mutex::default(), quota: Quota::new(FEEDS_MAX, "event streams") }
    }
}

/// Identifies a feed: its source, and the rights of its readers.
type FeedId = (RightsId, EventSource);

/// The last events of a source.
#[derive(Debug)]
struct EventFeed {
    state: Mutex<FeedState>,
    _permit: Permit,
}

#[derive(Debug)]
struct FeedState {
    /// The oldest first.
    events: VecDeque<EventRow>,
    /// When it was last read, on the coarse clock.
    read: Duration,
    /// Why the feed has ended.
    problem: Option<Problem>,
}

impl EventFeeds {
    /// Returns the last events of a source, the newest first. Fails if the visitor may not watch
    /// it, or if the maximum number of feeds or the quota of the caller is reached.
    pub(super) async fn read(
        &self,
        visit: &Visit,
        source: &EventSource,
    ) -> Result<Vec<EventRow>, Problem> {
        let id = (visit.rights, source.clone());
        let known = self.by_id.lock().get(&id).cloned();
        let feed = match known {
            Some(feed) => feed,
            None => self.start(visit, id).await?,
        };
        let mut state = feed.state.lock();
        state.read = coarse();
        match &state.problem {
            Some(problem) => Err(problem.clone()),
            None => Ok(state.events.iter().rev().cloned().collect()),
        }
    }

    async fn start(&self, visit: &Visit, id: FeedId) -> Result<Arc<EventFeed>, Problem> {
        let permit = self.quota.acquire(&visit.holder());
        let permit =
            permit.map_err(|refused| Problem::Busy(format!("{refused}; retry in 15 s")))?;
        let stream = visit.watch(&id.1, "0").await?;
        let state = FeedState { events: VecDeque::new(), read: coarse(), problem: None };
        let feed = Arc::new(EventFeed { state: Mutex::new(state), _permit: permit });
        {
            let mut feeds = self.by_id.lock();
            // Another visit may have started the feed in the meantime.
            if let Some(known) = feeds.get(&id) {
                return Ok(known.clone());
            }
            feeds.insert(id.clone(), feed.clone());
        }
        let (followed, console) = (feed.clone(), visit.console.clone());
        tokio::spawn(async move {
            followed.follow(stream).await;
            console.feeds.by_id.lock().remove(&id);
        });
        for _ in 0..TRIES {
            if !feed.state.lock().events.is_empty() {
                break;
            }
            sleep(TRY_EVERY).await;
        }
        Ok(feed)
    }
}

impl EventFeed {
    /// Stores events until the stream ends, or until the feed has no readers.
    async fn follow(&self, mut stream: EventStream) {
        loop {
            match timeout(CHECK_EVERY, stream.next()).await {
                Err(_) => {}
                Ok(Ok(Some(event))) => {
                    let mut state = self.state.lock();
                    if state.events.len() >= EVENTS_MAX {
                        state.events.pop_front();
                    }
                    state.events.push_back(event);
                }
                Ok(Ok(None)) => return,
                Ok(Err(problem)) => {
                    self.state.lock().problem = Some(problem);
                    return;
                }
            }
            if coarse().saturating_sub(self.state.lock().read) > UNREAD_MAX {
                return;
            }
        }
    }
}
