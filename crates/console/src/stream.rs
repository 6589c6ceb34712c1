//! The stream of a live page: server-sent events.

use std::{convert::Infallible, sync::Arc, time::Duration};

use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::{
    Response, StatusCode,
    body::{Bytes, Frame},
    header::{CONTENT_TYPE, HeaderValue},
};
use tokio::time::timeout;

use super::{Console, PageBody, answer, live::Watching, visit::Visit};
use tollgate_telemetry::coarse;

/// The content type of streams.
pub(super) const CONTENT: &str = "text/event-stream";
/// How long a stream lasts. The browser then reconnects.
pub const AGE_MAX: Duration = Duration::from_secs(5 * 60);
/// Maximum time without data on a stream, since only a write shows that its reader is gone.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// A stream that is open.
struct OpenPage {
    visit: VisitorCheck,
    watching: Watching,
    /// The number of the last rendering that was sent.
    sent: u64,
    /// When it ends, on the coarse clock.
    end: Duration,
    is_ended: bool,
}

/// Checks the session of a stream; the page checks the token.
struct VisitorCheck {
    console: Arc<Console>,
    session: Option<String>,
}

impl VisitorCheck {
    fn is_current(&self) -> bool {
        let session = |id: &String| self.console.sessions.get(id).is_some();
        self.session.as_ref().is_none_or(session)
    }
}

impl Visit {
    /// Opens the stream of the page, or rejects it with a message.
    pub(super) fn stream(self) -> Response<PageBody> {
        let console = self.console.clone();
        let check = VisitorCheck { console: console.clone(), session: self.session.clone() };
        let watching = match console.live.watch(self) {
            Ok(watching) => watching,
            Err(refused) => {
                let reason = format!("{refused}: this page does not update until you reload it");
                return answer::refusal(StatusCode::SERVICE_UNAVAILABLE, &reason);
            }
        };
        let end = coarse() + AGE_MAX;
        let open = OpenPage { visit: check, watching, sent: 0, end, is_ended: false };
        let events = stream::unfold(open, |mut open| async move {
            let bytes = open.next().await?;
            Some((Ok::<_, Infallible>(Frame::data(bytes)), open))
        });
        let mut response = Response::new(StreamBody::new(events).boxed_unsync());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(CONTENT));
        answer::secured(response)
    }
}

impl OpenPage {
    /// Returns the next events; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.is_ended || coarse() >= self.end {
                return None;
            }
            let changed = timeout(SILENCE_MAX, self.watching.parts.changed()).await;
            if matches!(changed, Ok(Err(_))) || !self.visit.is_current() {
                self.is_ended = true;
                return Some(Bytes::from_static(b"event: ended\ndata:\n\n"));
            }
            if changed.is_err() {
                return Some(Bytes::from_static(b":\n\n"));
            }
            let parts = self.watching.parts.borrow_and_update();
            let (events, number) = parts.since(self.sent);
            self.sent = number;
            if parts.is_ended {
                self.is_ended = true;
                return Some(Bytes::from_static(b"event: ended\ndata:\n\n"));
            }
            if !events.is_empty() {
                return Some(events);
            }
        }
    }
}
