//! Event streams and their start cursors.

use std::pin::Pin;

use futures_util::{Stream, StreamExt};
use tonic::Status;

use super::fields::Fields;
use crate::engine::feed::{Start, Topic, Watcher};

/// The response of a watch call.
pub(super) type Events<M> = Pin<Box<dyn Stream<Item = Result<M, Status>> + Send>>;

/// Converts a watcher to a response stream.
pub(super) fn of<T: Topic>(watcher: Watcher<T>) -> Events<T::Message> {
    Box::pin(watcher.into_stream().map(|told| told.map_err(Status::from)))
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
        Some(text) => cursor(text).map(Start::After).unwrap_or_else(|| {
            fields.violation("after", "must be 0, or the cursor of an event of this stream");
            Start::Now
        }),
    }
}
