//! A watcher of a topic first catches up from the store, and then follows the feed.

use std::{collections::VecDeque, fmt, sync::Arc};

use futures_util::{Stream, stream};
use tokio::time::sleep;

use super::{
    Feeds, OWN_PAGE, READ_EVERY, READ_MAX, Topic,
    position::Position,
    ring::{RingReader, Taken},
};
use crate::hub::WatcherPermit;
use tollgate_core::{error::Error, time::monotonic};

/// Watches a topic until dropped.
pub struct Watcher<T: Topic> {
    feeds: Arc<Feeds<T>>,
    topic: T,
    /// The position up to which it has delivered or read events.
    place: Position,
    /// The messages that it has read from the store itself.
    ready: VecDeque<T::Message>,
    /// Its access to the ring.
    reader: RingReader<T::Message>,
    /// Whether it must read the store until it reaches the position at which it joined the ring.
    is_behind: bool,
    /// Whether it has read from the ring; from then on, a missed entry ends it.
    is_live: bool,
    /// Counts it as one of this server's watchers.
    _permit: WatcherPermit,
}

impl<T: Topic> fmt::Debug for Watcher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("topic", &self.topic).finish_non_exhaustive()
    }
}

impl<T: Topic> Watcher<T> {
    /// Creates a watcher at `place`, with the messages `ready` that were read to start it.
    pub(super) fn new(
        feeds: Arc<Feeds<T>>,
        topic: T,
        place: Position,
        ready: Vec<T::Message>,
        reader: RingReader<T::Message>,
        permit: WatcherPermit,
    ) -> Watcher<T> {
        let (ready, is_behind) = (ready.into(), !place.covers(reader.joined()));
        Watcher { feeds, topic, place, ready, reader, is_behind, is_live: false, _permit: permit }
    }

    /// Returns the messages as a stream, up to the error that ends it.
    pub fn into_stream(self) -> impl Stream<Item = Result<T::Message, Error>> + Send {
        stream::unfold(Some(self), async |watcher| {
            let mut watcher = watcher?;
            match watcher.next().await {
                Ok(told) => Some((Ok(told), Some(watcher))),
                // Drops the watcher first, so that its permit is free when the client sees the
                // error.
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    /// Waits for the next message. Fails with [`Error::SlowWatcher`] if it fell behind, and with
    /// [`Error::Ending`] at shutdown.
    pub async fn next(&mut self) -> Result<T::Message, Error> {
        loop {
            if let Some(told) = self.ready.pop_front() {
                return Ok(told);
            }
            if self.is_behind {
                self.catch_up().await?;
                continue;
            }
            match self.reader.take(&mut self.place)? {
                Taken::Message(told) => {
                    self.is_live = true;
                    return Ok(told);
                }
                Taken::Nothing => {
                    self.is_live = true;
                    self.reader.changed().await?;
                }
                Taken::Missed if self.is_live => return Err(Error::SlowWatcher),
                // While it was catching up, more events arrived than fit into the ring, so it joins
                // at the new position.
                Taken::Missed => self.join_again(),
            }
        }
    }

    /// Joins the ring again at its current end, and catches up to there.
    fn join_again(&mut self) {
        self.reader = self.feeds.join(&self.topic, &self.place);
        self.is_behind = !self.place.covers(self.reader.joined());
    }

    /// Reads a page of events from the store.
    async fn catch_up(&mut self) -> Result<(), Error> {
        let Watcher { feeds, topic, place, reader, .. } = self;
        let read = async {
            // The semaphore is never closed.
            let _turn = feeds.shared.readers.acquire().await;
            place.read_on(&feeds.engine, topic, OWN_PAGE, monotonic() + READ_MAX).await
        };
        let read = tokio::select! {
            biased;
            why = reader.ended() => return Err(why),
            read = read => read,
        };
        match read {
            // The events were stored when it started, so it was too slow.
            Ok(batch) if batch.gap.is_some() => return Err(Error::SlowWatcher),
            Ok(batch) => {
                let told = batch.entries.into_iter().filter_map(|entry| entry.told);
                self.ready.extend(told);
                self.is_behind = batch.has_more && !self.place.covers(self.reader.joined());
            }
            Err(error @ Error::Corrupt(_)) => return Err(error),
            // Waits for the store to recover; the next iteration detects the end of the feed.
            Err(_) => sleep(READ_EVERY).await,
        }
        Ok(())
    }
}
