//! Reads the events of a pool, for WatchPool.

use super::{Event, EventKind, Pool};
use crate::{
    Call, Cost, Decision, Properties, Reply,
    collections::{After, EventPage, History},
    denial::{AffectsDenials, Effect},
    error::Error,
    names::Name,
    script::{self, Script},
    time::Timestamp,
};

/// Reads the events of a pool after a cursor.
///
/// Numbers of events rise by one. If the next event after the cursor is no longer stored, the page
/// says so, and starts with the oldest stored event. A read needs no settings and changes nothing.
#[derive(Debug, Clone)]
pub struct ReadEvents {
    /// The pool.
    pub pool: Name,
    /// The cursor and the maximum number of events.
    pub after: After,
}

impl Decision for ReadEvents {
    type State = Pool;
    type Outcome = EventPage<Event>;

    const SCRIPT: &'static Script = &script::admission::READ_EVENTS;
    const PROPERTIES: Properties<ReadEvents> = Properties::<Self> {
        cost: |read| Cost::bulk(20 + 2 * read.after.limit),
        ..Properties::BACKGROUND
    }
    .affects_denials();

    fn partition(&self) -> &[u8] {
        self.pool.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"events"]);
        self.after.encode(call);
    }

    fn parse(reply: &mut Reply) -> Result<EventPage<Event>, Error> {
        reply.ok()?;
        EventPage::parse(reply, Event::parse)
    }

    fn decide(&self, pool: &mut Pool, _: Timestamp) -> EventPage<Event> {
        History::page(pool.events.as_deref(), self.after)
    }
}

impl AffectsDenials for ReadEvents {
    fn effect(&self, page: Option<&EventPage<Event>>) -> Effect {
        let mut kinds = page.into_iter().flat_map(|page| &page.events).map(|event| event.kind);
        Effect::frees(kinds.any(|kind| {
            // Other servers also free slots; their events reach this server through its watchers.
            !matches!(kind, EventKind::Enqueued | EventKind::Admitted | EventKind::Dead)
        }))
    }
}
