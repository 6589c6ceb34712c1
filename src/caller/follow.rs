//! A stream of events, followed across lost connections.

use std::time::{Duration, Instant};

use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use tokio::time::sleep_until;

use crate::{
    admission,
    grpc::client::{CallError, Client, RateEvent, RateEvents, Told},
    time::monotonic,
};

/// Between the first tries; doubled after each that fails.
const AGAIN_MIN: Duration = Duration::from_millis(100);
/// Between tries at most.
const AGAIN_MAX: Duration = Duration::from_secs(5);

/// An event that a stream tells.
pub(crate) trait Followable: Sized + Send + 'static {
    /// Where another stream goes on after it.
    fn cursor(&self) -> &str;

    /// Opens a stream of what has this name: from a cursor on or, without one, from now on.
    fn open(
        client: &Client,
        name: &str,
        after: Option<&str>,
    ) -> impl Future<Output = Result<Events<Self>, CallError>> + Send;
}

/// Events as they come.
pub(crate) type Events<E> = BoxStream<'static, Result<E, CallError>>;

/// A stream that goes on where it was when it is lost.
pub(crate) struct Follower<E> {
    client: Client,
    name: String,
    /// The cursor of the last event.
    after: Option<String>,
    stream: Option<Events<E>>,
    again: Duration,
    /// When to try again.
    due: Instant,
}

/// What comes of a stream.
#[derive(Debug)]
pub(crate) enum Followed<E> {
    /// The next event, or that some are missing.
    Event(E),
    /// It is lost, for this reason; tried for again until it goes on.
    Lost(CallError),
    /// It goes on.
    Resumed,
}

impl<E: Followable> Follower<E> {
    /// Opens the stream, from a cursor on or, without one, from now on.
    pub(crate) async fn open(
        client: Client,
        name: &str,
        after: Option<String>,
    ) -> Result<Follower<E>, CallError> {
        let stream = Some(E::open(&client, name, after.as_deref()).await?);
        Ok(Follower { after, stream, ..Follower::new(client, name) })
    }

    /// A stream that is yet to be opened, from when it is on.
    pub(crate) fn new(client: Client, name: &str) -> Follower<E> {
        let (name, due) = (name.to_owned(), monotonic());
        Follower { client, name, after: None, stream: None, again: AGAIN_MIN, due }
    }

    /// Waits for what comes next; an error is one that no other try would mend. A wait
    /// that is dropped loses nothing.
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

    /// Whether a lost stream goes on where it was: not before the first event.
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
