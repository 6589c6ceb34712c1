//! Follows a stream of events across lost connections.

use std::time::{Duration, Instant};

use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use tokio::time::sleep_until;

use crate::{
    admission,
    decision::time::monotonic,
    grpc::client::{CallError, Client, RateEvent, RateEvents, Told},
};

/// Pause before the first retry; doubled after each failure.
const AGAIN_MIN: Duration = Duration::from_millis(100);
/// Maximum pause between retries.
const AGAIN_MAX: Duration = Duration::from_secs(5);

/// An event with a cursor.
pub(crate) trait Followable: Sized + Send + 'static {
    /// Returns the cursor of the event. A new stream can continue after it.
    fn cursor(&self) -> &str;

    /// Opens the stream of `name` after a cursor, or at the present without one.
    fn open(
        client: &Client,
        name: &str,
        after: Option<&str>,
    ) -> impl Future<Output = Result<Events<Self>, CallError>> + Send;
}

/// A stream of events.
pub(crate) type Events<E> = BoxStream<'static, Result<E, CallError>>;

/// A stream that is reopened after its last event when it is lost.
pub(crate) struct Follower<E> {
    client: Client,
    name: String,
    /// Cursor of the last event.
    after: Option<String>,
    stream: Option<Events<E>>,
    again: Duration,
    /// Time of the next try.
    due: Instant,
}

/// An item of a followed stream.
#[derive(Debug)]
pub(crate) enum Followed<E> {
    /// The next event, or a gap.
    Event(E),
    /// The stream is lost with this error. It is retried until it succeeds.
    Lost(CallError),
    /// The stream continues.
    Resumed,
}

impl<E: Followable> Follower<E> {
    /// Opens the stream after a cursor, or at the present without one. Fails if the first try
    /// fails.
    pub(crate) async fn open(
        client: Client,
        name: &str,
        after: Option<String>,
    ) -> Result<Follower<E>, CallError> {
        let stream = Some(E::open(&client, name, after.as_deref()).await?);
        Ok(Follower { after, stream, ..Follower::new(client, name) })
    }

    /// Creates a follower whose stream opens with the first call of `next`, at the present.
    pub(crate) fn new(client: Client, name: &str) -> Follower<E> {
        let (name, due) = (name.to_owned(), monotonic());
        Follower { client, name, after: None, stream: None, again: AGAIN_MIN, due }
    }

    /// Waits for the next item. Fails only with errors that a retry cannot solve. Cancel-safe: a
    /// dropped wait loses no event.
    pub(crate) async fn next(&mut self) -> Result<Followed<E>, CallError> {
        if let Some(stream) = &mut self.stream {
            let error = match stream.next().await {
                Some(Ok(event)) => {
                    self.after = Some(event.cursor().to_owned());
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
            match E::open(&self.client, &self.name, self.after.as_deref()).await {
                Ok(stream) => {
                    self.stream = Some(stream);
                    return Ok(Followed::Resumed);
                }
                Err(error) if error.may_pass() => self.put_off(),
                Err(error) => return Err(error),
            }
        }
    }

    fn put_off(&mut self) {
        self.due = monotonic() + self.again;
        self.again = (self.again * 2).min(AGAIN_MAX);
    }

    /// Whether a lost stream can continue where it stopped, which needs at least one event.
    pub(crate) fn has_cursor(&self) -> bool {
        self.after.is_some()
    }
}

impl Followable for Told<admission::Event> {
    fn cursor(&self) -> &str {
        &self.cursor
    }

    async fn open(
        client: &Client,
        name: &str,
        after: Option<&str>,
    ) -> Result<Events<Self>, CallError> {
        Ok(client.watch_pool(name, after).await?.boxed())
    }
}

impl Followable for RateEvent {
    fn cursor(&self) -> &str {
        &self.cursor
    }

    async fn open(
        client: &Client,
        name: &str,
        after: Option<&str>,
    ) -> Result<Events<Self>, CallError> {
        let events = client.watch_rates(name, after).await?;
        let next = async |mut events: RateEvents| {
            let event = events.next().await?;
            Ok(event.map(|event| (event, events)))
        };
        Ok(stream::try_unfold(events, next).boxed())
    }
}
