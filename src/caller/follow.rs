//! A pool's events, followed across lost connections.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream::BoxStream};
use tokio::time::sleep_until;

use crate::{
    admission::Event,
    grpc::client::{CallError, Client, Told},
    time::monotonic,
};

/// Between the first tries; doubled after each that fails.
const AGAIN_MIN: Duration = Duration::from_millis(100);
/// Between tries at most.
const AGAIN_MAX: Duration = Duration::from_secs(5);

/// A stream that goes on where it was when it is lost.
pub(crate) struct Follower {
    client: Client,
    pool: String,
    /// The cursor of the last event.
    after: Option<String>,
    stream: Option<Events>,
    again: Duration,
    /// When to try again.
    due: Instant,
}

type Events = BoxStream<'static, Result<Told<Event>, CallError>>;

/// What comes of a stream.
#[derive(Debug)]
pub(crate) enum Followed {
    /// The next event, or that some are missing.
    Event(Told<Event>),
    /// It is lost, for this reason; tried for again until it goes on.
    Lost(CallError),
    /// It goes on.
    Resumed,
}

impl Follower {
    /// Opens the stream, from a cursor on or, without one, from now on.
    pub(crate) async fn open(
        client: Client,
        pool: &str,
        after: Option<String>,
    ) -> Result<Follower, CallError> {
        let stream = Some(client.watch_pool(pool, after.as_deref()).await?.boxed());
        Ok(Follower { after, stream, ..Follower::new(client, pool) })
    }

    /// A stream that is yet to be opened, from when it is on.
    pub(crate) fn new(client: Client, pool: &str) -> Follower {
        let (pool, due) = (pool.to_owned(), monotonic());
        Follower { client, pool, after: None, stream: None, again: AGAIN_MIN, due }
    }

    /// Waits for what comes next; an error is one that no other try would mend. A wait
    /// that is dropped loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Followed, CallError> {
        if let Some(stream) = &mut self.stream {
            let error = match stream.next().await {
                Some(Ok(event)) => {
                    self.after = Some(event.cursor.clone());
                    self.again = AGAIN_MIN;
                    return Ok(Followed::Event(event));
                }
                Some(Err(error)) => error,
                None => CallError::ended(),
            };
            self.stream = None;
            self.put_off();
            return if error.may_pass() { Ok(Followed::Lost(error)) } else { Err(error) };
        }
        loop {
            sleep_until(self.due.into()).await;
            match self.client.watch_pool(&self.pool, self.after.as_deref()).await {
                Ok(stream) => {
                    self.stream = Some(stream.boxed());
                    return Ok(Followed::Resumed);
                }
                Err(error) if error.may_pass() => {
                    self.put_off();
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn put_off(&mut self) {
        self.due = monotonic() + self.again;
        self.again = (self.again * 2).min(AGAIN_MAX);
    }

    /// Whether a lost stream goes on where it was: not before the first event.
    pub(crate) fn has_cursor(&self) -> bool {
        self.after.is_some()
    }
}
