//! The task that reads a topic's histories for all its watchers.

use std::sync::Arc;

use tokio::{task::yield_now, time::sleep};

use super::{
    FEED_PAGE, Feed, Feeds, READ_EVERY, READ_MAX, READ_PER_FEED, RING_MAX, RING_MIN, RINGS_MAX,
    Topic, forget,
    position::{Gap, Position},
};
use tollgate_core::{error::Error, time::monotonic};

/// Reads until there is no watcher; ends the feed when dropped.
pub(super) struct TopicReader<T: Topic> {
    feeds: Arc<Feeds<T>>,
    topic: T,
    feed: Arc<Feed<T>>,
    /// The position up to which the histories were read.
    place: Position,
    /// Whether the last read failed, since the store may have lost events in between.
    was_down: bool,
    /// The engine's epoch at the last read.
    epoch: u64,
    /// The error for watchers that remain when it ends.
    end: Error,
}

impl<T: Topic> TopicReader<T> {
    /// Creates the reader of a new feed, starting at `place`.
    pub(super) fn new(
        feeds: Arc<Feeds<T>>,
        topic: T,
        feed: Arc<Feed<T>>,
        place: Position,
    ) -> TopicReader<T> {
        let epoch = feeds.engine.epoch();
        TopicReader { feeds, topic, feed, place, was_down: false, epoch, end: Error::Ending }
    }

    /// Reads until the last watcher leaves or the server shuts down.
    pub(super) async fn run(mut self) {
        let feeds = self.feeds.clone();
        tokio::select! {
            biased;
            () = feeds.engine.hub().closed() => {}
            end = self.follow() => self.end = end,
        }
    }

    /// Reads at intervals. Returns the reason to end.
    async fn follow(&mut self) -> Error {
        loop {
            let pause = READ_EVERY.max(READ_PER_FEED * self.feeds.count() as u32);
            let feed = self.feed.clone();
            tokio::select! {
                () = sleep(pause) => {}
                () = feed.ring.closed() => {
                    if self.feeds.retire(&self.topic, &feed) {
                        return Error::Ending;
                    }
                }
            }
            // Reads until no more events are stored.
            while match self.read().await {
                Ok(has_more) => has_more,
                Err(error @ Error::Corrupt(_)) => return error,
                Err(error) => {
                    let (namespace, topic) = self.topic.name();
                    tracing::debug!(%error, namespace, topic, "could not read events");
                    self.was_down = true;
                    false
                }
            } {
                // Lets watchers read the events first.
                yield_now().await;
            }
        }
    }

    /// Reads new events into the ring. Returns whether more are stored.
    async fn read(&mut self) -> Result<bool, Error> {
        let engine = &self.feeds.engine;
        let (deadline, before) = (monotonic() + READ_MAX, engine.epoch());
        let batch = self.place.read_on(engine, &self.topic, FEED_PAGE, deadline).await?;
        // The answer may come from a new primary. If the epoch changed during the read, the answer may
        // also be the last one of the old primary, and the next read is the first of the new one.
        self.was_down |= engine.epoch() != self.epoch;
        self.epoch = before;
        // An expired history had been read to its end before, so nothing is missing.
        let is_loss = |gap: &Gap<_>| self.was_down || !gap.may_be_lapse;
        let tells_gap = batch.gap.as_ref().is_some_and(is_loss);
        let (has_more, is_empty) =
            (batch.has_more, batch.entries.is_empty() && batch.gap.is_none());
        let most = (RINGS_MAX / self.feeds.count().max(1)).clamp(RING_MIN, RING_MAX);
        self.feed.ring.send_if_modified(|ring| {
            if !is_empty {
                ring.push(batch, tells_gap, self.place.seen(), most);
            } else if !ring.is_empty() {
                ring.trim(most);
            }
            !is_empty
        });
        self.was_down = false;
        Ok(has_more)
    }
}

impl<T: Topic> Drop for TopicReader<T> {
    fn drop(&mut self) {
        forget(&mut self.feeds.lock(), &self.topic, &self.feed);
        let end = self.end.clone();
        self.feed.ring.send_modify(|ring| ring.end(end));
    }
}
