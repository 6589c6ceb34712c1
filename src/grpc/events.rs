//! Event streams and their start cursors.

use std::{pin::Pin, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tonic::Status;

use super::{access::Watched, fields::Fields, status::from_error};
use tollgate_core::{
    error::Error,
    names::{Name, Namespace},
};
use tollgate_engine::feed::{Start, Topic, Watcher};
use tollgate_telemetry::line_pace::LinePace;

/// Separates the namespace from the rest of a cursor. Neither contains it.
const SLASH: u8 = b'/';

/// Limits the log lines about failed streams, which a caller can repeat.
static FAILED: LinePace = LinePace::new(5, Duration::from_secs(10));

/// The response of a watch call.
pub(super) type Events<M> = Pin<Box<dyn Stream<Item = Result<M, Status>> + Send>>;

/// Converts a watcher to a response stream, which ends when its caller loses the right to it.
pub(super) fn stream<T: Topic>(watcher: Watcher<T>, right: Option<Watched>) -> Events<T::Message> {
    let events = watcher.into_stream().map(|told| told.map_err(failed));
    match right {
        None => Box::pin(events),
        Some(right) => Box::pin(right.guard(events)),
    }
}

/// Returns the status of a failed stream, and logs it.
fn failed(error: Error) -> Status {
    if let Some(suppressed) = FAILED.due() {
        tracing::debug!(%error, suppressed, "an event stream has failed");
    }
    from_error(error)
}

/// Returns the cursor that callers get, which contains the namespace of the topic:
/// `NAMESPACE/CURSOR`, or just `CURSOR` in the default namespace.
pub(super) fn cursor(topic: &Name, cursor: Bytes) -> Bytes {
    match Namespace::split(topic.as_bytes()) {
        ([], _) => cursor,
        (namespace, _) => [namespace, &[SLASH], &cursor].concat().into(),
    }
}

/// Strips the namespace of the caller from a cursor; `None` if the cursor belongs to another
/// namespace.
fn own<'c>(namespace: &Namespace, cursor: &'c [u8]) -> Option<&'c [u8]> {
    if namespace.is_default() {
        return Some(cursor);
    }
    cursor.strip_prefix(namespace.as_str().as_bytes())?.strip_prefix(&[SLASH])
}

/// Parses the field `after`: if it is missing, the stream starts now; "0" stands for the oldest
/// stored event; `cursor` parses any other value.
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

#[cfg(test)]
mod tests {
    use super::{super::scope::Scope, *};

    fn from(namespace: &str, after: &[u8]) -> Option<Start> {
        let namespace = Namespace::parse(namespace.as_bytes()).unwrap();
        let mut fields = Fields::new(Scope::new("a caller", namespace, None));
        let digits = |text: &[u8]| {
            let number = std::str::from_utf8(text).ok()?.parse().ok()?;
            Some([number].into())
        };
        let start = start(&mut fields, Some(after), digits);
        fields.finish(Some(start)).ok()
    }

    #[test]
    fn a_cursor_is_valid_in_its_namespace_only() {
        let name = |namespace: &str| {
            let namespace = Namespace::parse(namespace.as_bytes()).unwrap();
            Name::parse("p".into()).unwrap().within(&namespace)
        };
        for of in ["", "a", "acme", "1"] {
            let cursor = cursor(&name(of), "12".into());
            assert_eq!(from(of, &cursor), Some(Start::After([12].into())));
            assert_eq!(from(of, b"0"), Some(Start::Oldest));
            for other in ["", "a", "acm", "acme", "acme2", "1"] {
                assert_eq!(from(other, &cursor).is_some(), other == of, "{of} {other}");
            }
        }
        assert_eq!(from("acme", b"acme"), None);
        assert_eq!(from("acme", b"acme/"), None);
        assert_eq!(from("acme", b"12"), None);
    }
}
