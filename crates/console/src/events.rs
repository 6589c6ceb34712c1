//! Events of pools and policies as rows of a table.

use std::fmt;

use tollgate_client::pb::{
    PoolEvent, PoolEventKind, RateEvent, RateEventKind, WatchPoolRequest, WatchPoolResponse,
    WatchRatesRequest, WatchRatesResponse, admission_service_client::AdmissionServiceClient,
    rate_service_client::RateServiceClient,
};
use tonic::Streaming;

use super::{
    format::{Moment, of_wire},
    page::Problem,
    visit::Visit,
};

/// The source of a stream of events.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum EventSource {
    /// The pool with this name.
    Pool(String),
    /// The policy with this name.
    Policy(String),
}

/// An event.
#[derive(Debug, Clone)]
pub(super) struct EventRow {
    pub(super) cursor: String,
    pub(super) kind: &'static str,
    /// The device or the key.
    pub(super) subject: String,
    /// The task; empty for a policy.
    pub(super) task: String,
    /// The other fields, as text.
    pub(super) detail: String,
    pub(super) time: Option<Moment>,
}

/// An event stream.
pub(super) enum EventStream {
    Pool(Streaming<WatchPoolResponse>),
    Rates(Streaming<WatchRatesResponse>),
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventStream")
    }
}

impl Visit {
    /// Watches a source after a cursor; `0` is before the oldest stored event.
    pub(super) async fn watch(
        &self,
        source: &EventSource,
        after: &str,
    ) -> Result<EventStream, Problem> {
        let after = Some(after.to_owned());
        Ok(match source.clone() {
            EventSource::Pool(pool) => {
                let mut admission = self.client(AdmissionServiceClient::new);
                let request = WatchPoolRequest { pool, after };
                EventStream::Pool(admission.watch_pool(request).await?.into_inner())
            }
            EventSource::Policy(policy) => {
                let mut rates = self.client(RateServiceClient::new);
                let request = WatchRatesRequest { policy, after };
                EventStream::Rates(rates.watch_rates(request).await?.into_inner())
            }
        })
    }
}

impl EventStream {
    /// Returns the next event; `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Result<Option<EventRow>, Problem> {
        Ok(match self {
            EventStream::Pool(stream) => {
                let message = stream.message().await?;
                message.and_then(|it| it.event).map(|event| pool_row(&event))
            }
            EventStream::Rates(stream) => {
                let message = stream.message().await?;
                message.and_then(|it| it.event).map(|event| rate_row(&event))
            }
        })
    }
}

fn pool_row(event: &PoolEvent) -> EventRow {
    let mut details = Vec::new();
    if event.fencing_token > 0 {
        details.push(format!("token {}", event.fencing_token));
    }
    if event.attempt > 0 {
        details.push(format!("attempt {}", event.attempt));
    }
    details.extend(event.capacity.map(|capacity| format!("capacity {capacity}")));
    let kind = match event.kind() {
        PoolEventKind::Enqueued => "enqueued",
        PoolEventKind::Admitted => "admitted",
        PoolEventKind::Renewed => "renewed",
        PoolEventKind::Completed => "completed",
        PoolEventKind::Late => "late",
        PoolEventKind::Expired => "expired",
        PoolEventKind::Evicted => "evicted",
        PoolEventKind::Cancelled => "cancelled",
        PoolEventKind::Dead => "dead",
        PoolEventKind::Configured => "configured",
        PoolEventKind::Gap | PoolEventKind::Unspecified => "gap",
    };
    EventRow {
        cursor: event.cursor.clone(),
        kind,
        subject: event.device_id.clone(),
        task: event.task_id.clone(),
        detail: details.join(", "),
        time: of_wire(event.event_time.as_ref()).map(Moment),
    }
}

fn rate_row(event: &RateEvent) -> EventRow {
    let mut details = Vec::new();
    if let Some(above) = event.above {
        details.push(format!("count {} above {above}", event.count));
    }
    if let Some(ban) = &event.ban
        && !ban.reason.is_empty()
    {
        details.push(ban.reason.clone());
    }
    if !event.actor.is_empty() {
        details.push(format!("by {}", event.actor));
    }
    let kind = match event.kind() {
        RateEventKind::Warned => "warned",
        RateEventKind::Throttled => "throttled",
        RateEventKind::Banned => "banned",
        RateEventKind::Unbanned => "unbanned",
        RateEventKind::Gap | RateEventKind::Unspecified => "gap",
    };
    EventRow {
        cursor: event.cursor.clone(),
        kind,
        subject: event.key.clone(),
        task: String::new(),
        detail: details.join(", "),
        time: of_wire(event.event_time.as_ref()).map(Moment),
    }
}

impl EventRow {
    /// Whether the kind, the subject, the task or the details contain a text.
    pub(super) fn contains(&self, text: &str) -> bool {
        [self.kind, &self.subject, &self.task, &self.detail].iter().any(|it| it.contains(text))
    }
}
