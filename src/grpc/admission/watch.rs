//! `WatchPool`: the events of a pool.

use bytes::Bytes;
use tonic::Status;

use super::super::{convert::timestamp, events, fields::Fields, pb, scope::Scope};
use tollgate_core::{
    admission::{Event, EventKind, Outcome, ReadEvents},
    collections::After,
    names::Name,
    time::Timestamp,
};
use tollgate_engine::feed::{Start, Topic};

/// Maximum number of digits in a cursor, which is a number below 2^53.
const DIGITS_MAX: usize = 16;

/// The feed topic of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PoolEvents(Name);

/// Parses the pool and the start of the stream.
pub(super) fn parse(
    request: pb::WatchPoolRequest,
    scope: Scope,
) -> Result<(PoolEvents, Start), Status> {
    let mut fields = Fields::new(scope);
    let pool = fields.partition("pool", request.pool);
    let start = events::start(&mut fields, request.after.as_deref(), cursor);
    fields.finish(pool.map(|pool| (PoolEvents(pool.detached()), start)))
}

/// Parses a cursor, which is the number of an event.
fn cursor(text: &[u8]) -> Option<Box<[u64]>> {
    if text.len() > DIGITS_MAX || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some([number].into())
}

impl Topic for PoolEvents {
    type Event = Event;
    type Read = ReadEvents;
    type Message = pb::WatchPoolResponse;

    const HISTORIES: usize = 1;

    fn name(&self) -> (&str, &str) {
        (self.0.namespace(), self.0.as_str())
    }

    fn read(&self, _: usize, after: After) -> ReadEvents {
        ReadEvents { pool: self.0.clone(), after }
    }

    fn time(event: &Event) -> Timestamp {
        event.time
    }

    fn told(&self, event: Option<Event>, seen: &[u64]) -> pb::WatchPoolResponse {
        let number = seen.first().copied().unwrap_or_default();
        let mut told = event.map_or_else(gap, pool_event);
        told.cursor = events::cursor(&self.0, number.to_string().into());
        pb::WatchPoolResponse { event: Some(told) }
    }
}

fn gap() -> pb::PoolEvent {
    pb::PoolEvent { kind: pb::PoolEventKind::Gap.into(), ..pb::PoolEvent::default() }
}

fn pool_event(event: Event) -> pb::PoolEvent {
    let kind = match event.kind {
        EventKind::Enqueued => pb::PoolEventKind::Enqueued,
        EventKind::Admitted => pb::PoolEventKind::Admitted,
        EventKind::Renewed => pb::PoolEventKind::Renewed,
        EventKind::Completed => pb::PoolEventKind::Completed,
        EventKind::Late => pb::PoolEventKind::Late,
        EventKind::Expired => pb::PoolEventKind::Expired,
        EventKind::Evicted => pb::PoolEventKind::Evicted,
        EventKind::Cancelled => pb::PoolEventKind::Cancelled,
        EventKind::Dead => pb::PoolEventKind::Dead,
        EventKind::Configured => pb::PoolEventKind::Configured,
    };
    let outcome = match event.outcome {
        None => pb::Outcome::Unspecified,
        Some(Outcome::Succeeded) => pb::Outcome::Succeeded,
        Some(Outcome::Failed) => pb::Outcome::Failed,
    };
    // Both ids are slices of the event's name, whose buffer all watchers share.
    let (device, task) = event.device_and_task();
    let (device, task) = (device.len(), task.len());
    let member = Bytes::from_owner(event.member);
    let (device_id, task_id) = (member.slice(..device), member.slice(member.len() - task..));
    pb::PoolEvent {
        cursor: Bytes::new(),
        kind: kind.into(),
        device_id,
        task_id,
        fencing_token: event.token,
        attempt: event.attempt,
        outcome: outcome.into(),
        event_time: Some(timestamp(event.time)),
        capacity: event.capacity,
    }
}
