//! Follows a stream of events beyond lost connections.

use std::time::{Duration, Instant};

use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use tokio::time::sleep_until;
use tonic::{Code, Streaming};

use crate::{
    Connection, Error, PoolEvent, RateEvent,
    lanes::LanePlace,
    pb::{
        self, admission_service_client::AdmissionServiceClient,
        rate_service_client::RateServiceClient,
    },
    random,
    time::now,
};

/// Pause before the first retry; doubled after each failure.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// Maximum pause between retries.
const PAUSE_MAX: Duration = Duration::from_secs(5);

type Events<E> = BoxStream<'static, Result<E, Error>>;

/// An event with a cursor: [`PoolEvent`] or [`RateEvent`].
pub trait Event: Sized + Send + 'static {
    /// Returns the cursor of the event. A new stream can continue after it.
    fn cursor(&self) -> &str;

    /// Opens the stream of `name` after a cursor; without a cursor, it starts with new events.
    #[doc(hidden)]
    fn open(
        connection: &Connection,
        name: &str,
        after: Option<&str>,
    ) -> impl Future<Output = Result<Events<Self>, Error>> + Send;
}

/// The events of a pool or policy. A lost stream is reopened after its last event.
pub struct Watch<E> {
    connection: Connection,
    name: String,
    /// Cursor of the last event.
    after: Option<String>,
    stream: Option<Events<E>>,
    pause: Duration,
    /// Time of the next attempt.
    due: Instant,
}

/// An item of a watch.
#[derive(Debug)]
pub enum Watched<E> {
    /// The next event. Its kind may be a gap: events are missing that are no longer stored.
    Event(E),
    /// The stream is lost with this error. It is retried until it succeeds.
    Lost(Error),
    /// The stream continues.
    Resumed,
}

impl<E: Event> Watch<E> {
    /// Opens the stream of a pool or policy after a cursor. `"0"` starts with the oldest stored
    /// event, `None` with new events. Fails if the first attempt fails.
    pub async fn open(
        connection: Connection,
        name: &str,
        after: Option<String>,
    ) -> Result<Watch<E>, Error> {
        let stream = Some(E::open(&connection, name, after.as_deref()).await?);
        Ok(Watch { after, stream, ..Watch::new(connection, name) })
    }

    /// Creates a watch whose stream opens with the first call of [`next`](Watch::next), and starts
    /// with new events.
    pub fn new(connection: Connection, name: &str) -> Watch<E> {
        let (name, due) = (name.to_owned(), now());
        Watch { connection, name, after: None, stream: None, pause: PAUSE_MIN, due }
    }

    /// Waits for the next item. Fails only with errors that a retry cannot solve. Cancel-safe: a
    /// dropped wait loses no event.
    pub async fn next(&mut self) -> Result<Watched<E>, Error> {
        if let Some(stream) = &mut self.stream {
            let error = match stream.next().await {
                Some(Ok(event)) => {
                    self.after = Some(event.cursor().to_owned());
                    self.pause = PAUSE_MIN;
                    return Ok(Watched::Event(event));
                }
                Some(Err(error)) => error,
                None => Error::new(Code::Unavailable, "the server ended the stream"),
            };
            self.stream = None;
            self.postpone();
            return if error.is_retryable() { Ok(Watched::Lost(error)) } else { Err(error) };
        }
        loop {
            self.connection.closing().run(sleep_until(self.due.into())).await?;
            match E::open(&self.connection, &self.name, self.after.as_deref()).await {
                Ok(stream) => {
                    self.stream = Some(stream);
                    return Ok(Watched::Resumed);
                }
                Err(error) if error.is_retryable() => self.postpone(),
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether a lost stream can continue where it stopped, which needs at least one event.
    pub fn has_cursor(&self) -> bool {
        self.after.is_some()
    }

    fn postpone(&mut self) {
        self.due = now() + random::between(self.pause, 0.5, 1.0);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

impl<E> std::fmt::Debug for Watch<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("name", &self.name).field("after", &self.after).finish()
    }
}

impl Event for PoolEvent {
    fn cursor(&self) -> &str {
        &self.cursor
    }

    async fn open(
        connection: &Connection,
        name: &str,
        after: Option<&str>,
    ) -> Result<Events<PoolEvent>, Error> {
        let (pool, after) = (name.to_owned(), after.map(str::to_owned));
        let open = |channel, request| async move {
            AdmissionServiceClient::new(channel).watch_pool(request).await
        };
        let place = connection.lane();
        let message = pb::WatchPoolRequest { pool, after };
        let stream = connection.stream(&place, message, open).await?;
        Ok(events(connection.clone(), place, stream, |response| response.event))
    }
}

impl Event for RateEvent {
    fn cursor(&self) -> &str {
        &self.cursor
    }

    async fn open(
        connection: &Connection,
        name: &str,
        after: Option<&str>,
    ) -> Result<Events<RateEvent>, Error> {
        let (policy, after) = (name.to_owned(), after.map(str::to_owned));
        let open = |channel, request| async move {
            RateServiceClient::new(channel).watch_rates(request).await
        };
        let place = connection.lane();
        let message = pb::WatchRatesRequest { policy, after };
        let stream = connection.stream(&place, message, open).await?;
        Ok(events(connection.clone(), place, stream, |response| response.event))
    }
}

/// Takes the events out of the responses of a stream, which keeps its place on a connection.
fn events<R: Send + 'static, E: Send + 'static>(
    connection: Connection,
    place: LanePlace,
    responses: Streaming<R>,
    event: fn(R) -> Option<E>,
) -> Events<E> {
    let next = move |(connection, mut responses, place): (Connection, Streaming<R>, LanePlace)| async move {
        let response = connection.closing().run(responses.message()).await??;
        let Some(response) = response else { return Ok(None) };
        let event = event(response).ok_or_else(|| Error::malformed("event"))?;
        Ok(Some((event, (connection, responses, place))))
    };
    stream::try_unfold((connection, responses, place), next).boxed()
}
