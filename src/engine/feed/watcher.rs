//! One of those who watch a topic.

use std::{collections::VecDeque, fmt, sync::Arc};

use futures_util::{Stream, stream};
use tokio::{sync::OwnedSemaphorePermit, time::sleep};

use super::{
    Feeds, OWN_PAGE, READ_EVERY, READ_MAX, Topic,
    place::Place,
    ring::{Seat, Taken},
};
use crate::{error::Error, time::monotonic};

/// Watches a topic until dropped.
pub struct Watcher<T: Topic> {
    feeds: Arc<Feeds<T>>,
    topic: T,
    place: Place,
    /// What it has read itself.
    ready: VecDeque<T::Told>,
    seat: Seat<T::Told>,
    /// Whether it has to read the store until it has seen what the ring had when it
    /// joined.
    is_behind: bool,
    /// Whether it takes from the ring.
    is_live: bool,
    /// Its place among the watchers of this server.
    _permit: OwnedSemaphorePermit,
}

impl<T: Topic> fmt::Debug for Watcher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("topic", &self.topic).finish_non_exhaustive()
    }
}

impl<T: Topic> Watcher<T> {
    pub(super) fn new(
        feeds: Arc<Feeds<T>>,
        topic: T,
        place: Place,
        ready: Vec<T::Told>,
        seat: Seat<T::Told>,
        permit: OwnedSemaphorePermit,
    ) -> Watcher<T> {
        let (ready, is_behind) = (ready.into(), !place.covers(seat.joined()));
        Watcher { feeds, topic, place, ready, seat, is_behind, is_live: false, _permit: permit }
    }

    /// What it is told, until the error that ends it.
    pub fn into_stream(self) -> impl Stream<Item = Result<T::Told, Error>> + Send {
        stream::unfold(Some(self), async |watcher| {
            let mut watcher = watcher?;
            match watcher.next().await {
                Ok(told) => Some((Ok(told), Some(watcher))),
                // Its place is free before the error has arrived.
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    /// What it is told next.
    pub async fn next(&mut self) -> Result<T::Told, Error> {
        loop {
            if let Some(told) = self.ready.pop_front() {
                return Ok(told);
            }
            if self.is_behind {
                self.catch_up().await?;
                continue;
            }
            match self.seat.take(&mut self.place)? {
                Taken::Told(told) => {
                    self.is_live = true;
                    return Ok(told);
                }
                Taken::Nothing => {
                    self.is_live = true;
                    self.seat.changed().await?;
                }
                Taken::Missed if self.is_live => return Err(Error::SlowWatcher),
                // More happened while it read than the ring has room for.
                Taken::Missed => self.join_again(),
            }
        }
    }

    fn join_again(&mut self) {
        self.seat = self.feeds.join(&self.topic, &self.place);
        self.is_behind = !self.place.covers(self.seat.joined());
    }

    /// Reads a page of the store.
    async fn catch_up(&mut self) -> Result<(), Error> {
        let Watcher { feeds, topic, place, seat, .. } = self;
        let read = async {
            // Never closed.
            let _turn = feeds.readers.acquire().await;
            place.read_on(&feeds.engine, topic, OWN_PAGE, monotonic() + READ_MAX).await
        };
        let read = tokio::select! {
            biased;
            why = seat.ended() => return Err(why),
            read = read => read,
        };
        match read {
            // They were there when it began.
            Ok(batch) if batch.gap.is_some() => return Err(Error::SlowWatcher),
            Ok(batch) => {
                let told = batch.entries.into_iter().filter_map(|entry| entry.told);
                self.ready.extend(told);
                self.is_behind = batch.has_more && !self.place.covers(self.seat.joined());
            }
            Err(error @ Error::Corrupt(_)) => return Err(error),
            // It waits for the store, and for the end of the feed in the next round.
            Err(_) => sleep(READ_EVERY).await,
        }
        Ok(())
    }
}
