//! Streams of events, and the cursors at which they begin.

use std::pin::Pin;

use futures_util::{Stream, StreamExt};
use tonic::Status;

use super::fields::Fields;
use crate::engine::feed::{Start, Topic, Watcher};

/// What a call that watches is answered.
pub(super) type Events<M> = Pin<Box<dyn Stream<Item = Result<M, Status>> + Send>>;

/// The answers of a watcher.
pub(super) fn of<T: Topic>(watcher: Watcher<T>) -> Events<T::Told> {
    Box::pin(watcher.into_stream().map(|told| told.map_err(Status::from)))
}

/// Reads the field `after`; `cursor` reads one that is not "0".
pub(super) fn start(
    fields: &mut Fields,
    after: Option<&[u8]>,
    cursor: impl FnOnce(&[u8]) -> Option<Box<[u64]>>,
) -> Start {
    match after {
        None => Start::Now,
        Some(b"0") => Start::Oldest,
        Some(text) => cursor(text).map(Start::After).unwrap_or_else(|| {
            fields.violation("after", "must be 0, or the cursor of an event of this stream");
            Start::Now
        }),
    }
}
