//! Event streams and their start cursors.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tonic::Status;

use super::{access::Watched, fields::Fields};
use crate::{
    decision::names::{Name, Namespace},
    engine::feed::{Start, Topic, Watcher},
};

/// Ends the namespace in a cursor. Neither namespaces nor cursors contain it.
const SLASH: u8 = b'/';

/// The response of a watch call.
pub(super) type Events<M> = Pin<Box<dyn Stream<Item = Result<M, Status>> + Send>>;

/// Converts a watcher to a response stream, which ends with the right to it.
pub(super) fn of<T: Topic>(watcher: Watcher<T>, right: Option<Watched>) -> Events<T::Message> {
    let events = watcher.into_stream().map(|told| told.map_err(Status::from));
    match right {
        None => Box::pin(events),
        Some(right) => Box::pin(right.guard(events)),
    }
}

/// Returns a cursor of a topic for callers. It carries the namespace of the topic:
/// `NAMESPACE/CURSOR`, and `CURSOR` in the default namespace.
pub(super) fn cursor(topic: &Name, cursor: Bytes) -> Bytes {
    match Namespace::split(topic.as_bytes()) {
        ([], _) => cursor,
        (namespace, _) => [namespace, &[SLASH], &cursor].concat().into(),
    }
}

/// Returns the cursor without the namespace of the caller; `None` for another namespace.
fn own<'c>(namespace: &Namespace, cursor: &'c [u8]) -> Option<&'c [u8]> {
    if namespace.is_default() {
        return Some(cursor);
    }
    cursor.strip_prefix(namespace.as_str().as_bytes())?.strip_prefix(&[SLASH])
}

/// Parses the field `after`: missing means the present, "0" the oldest stored event. `cursor`
/// parses any other value.
pub(super) fn start(
    fields: &mut Fields,
    after: Option<&[u8]>,
    cursor: impl FnOnce(&[u8]) -> Option<Box<[u64]>>,
) -> Start {
    match after {
        None => Start::Now,
        Some(b"0") => Start::Oldest,
        Some(text) => {
            own(fields.namespace(), text).and_then(cursor).map(Start::After).unwrap_or_else(|| {
                fields.violation("after", "must be 0, or the cursor of an event of this stream");
                Start::Now
            })
        }
    }
}
