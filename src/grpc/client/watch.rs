//! `WatchPool` in plain types.

use std::future::ready;

use futures_util::{Stream, StreamExt};
use tonic::{Request, Status};

use super::{CallError, Client, answered, convert, pb};
use crate::{
    admission::{Event, EventKind, Outcome},
    decision::names::SEPARATOR,
};

/// An item of a stream of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told<E> {
    /// Cursor of the item. A new stream can continue after it.
    pub cursor: String,
    /// The event. `None` marks a gap: events are missing that are no longer stored.
    pub event: Option<E>,
}

impl Client {
    /// Streams the events of a pool after a cursor. `"0"` starts at the oldest stored event, `None`
    /// at the present. Ends with the error that cut it off.
    pub async fn watch_pool(
        &self,
        pool: &str,
        after: Option<&str>,
    ) -> Result<impl Stream<Item = Result<Told<Event>, CallError>> + use<>, CallError> {
        let (pool, after) = (pool.to_owned(), after.map(str::to_owned));
        let request = Request::new(pb::WatchPoolRequest { pool, after });
        let told = answered(self.admission.clone().watch_pool(request)).await?;
        // Events of a kind that only a newer server knows are skipped.
        Ok(told.filter_map(|told| ready(read(told).transpose())))
    }
}

fn read(told: Result<pb::WatchPoolResponse, Status>) -> Result<Option<Told<Event>>, CallError> {
    pool_event(told?.event)
}

fn pool_event(event: Option<pb::PoolEvent>) -> Result<Option<Told<Event>>, CallError> {
    use pb::PoolEventKind as Wire;

    let event = event.ok_or_else(|| CallError::malformed("event"))?;
    let kind = match event.kind() {
        Wire::Gap => return Ok(Some(Told { cursor: event.cursor, event: None })),
        Wire::Enqueued => EventKind::Enqueued,
        Wire::Admitted => EventKind::Admitted,
        Wire::Renewed => EventKind::Renewed,
        Wire::Completed => EventKind::Completed,
        Wire::Late => EventKind::Late,
        Wire::Expired => EventKind::Expired,
        Wire::Evicted => EventKind::Evicted,
        Wire::Cancelled => EventKind::Cancelled,
        Wire::Dead => EventKind::Dead,
        Wire::Configured => EventKind::Configured,
        Wire::Unspecified => return Ok(None),
    };
    let outcome = match event.outcome() {
        pb::Outcome::Unspecified => None,
        pb::Outcome::Succeeded => Some(Outcome::Succeeded),
        pb::Outcome::Failed => Some(Outcome::Failed),
    };
    let names = [event.device_id.as_bytes(), event.task_id.as_bytes()];
    let member = if names[0].is_empty() { Vec::new() } else { names.join(&SEPARATOR) };
    let pb::PoolEvent { cursor, fencing_token: token, attempt, capacity, .. } = event;
    let time = convert::timestamp(event.event_time)?;
    let event = Event { kind, token, attempt, outcome, capacity, time, member: member.into() };
    Ok(Some(Told { cursor, event: Some(event) }))
}
