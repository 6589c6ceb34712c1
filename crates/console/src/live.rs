//! Live pages: all watchers of a page with the same rights share one rendering.
//!
//! A page with watchers is rendered once per second, or every two seconds if there are 200 such
//! pages, and less often if rendering would take more than a twentieth of the time. Parts are sent
//! when they change. The last rendering of a page is kept in case the store becomes unreachable.

use std::{collections::HashMap, iter, sync::Arc, time::Duration};

use hyper::body::Bytes;
use parking_lot::Mutex;
use tokio::{sync::watch, time::sleep};

use super::{
    page::{ConsolePage, PagePart, Problem},
    quota::{Permit, Quota, QuotaReached},
    sessions::RightsId,
    visit::Visit,
};
use tollgate_core::time::{Timestamp, monotonic};

/// Maximum number of streams of a server.
const STREAMS_MAX: usize = 500;
/// Maximum number of pages that are rendered each second.
const PAGES_MAX: usize = 200;
/// The usual length of an event without its contents.
const EVENT_BYTES: usize = 64;
/// Maximum number of pages whose last rendering is kept.
const KEPT_MAX: usize = 64;
/// The minimum time between two renderings of a page, and how much each page with watchers adds to
/// it.
const EVERY: Duration = Duration::from_secs(1);
const EVERY_OF_EACH: Duration = Duration::from_millis(10);
/// The minimum ratio between that time and the duration of a rendering.
const REST: u32 = 20;
/// The maximum time between two renderings, since a rendering that waits for the store may take
/// long.
const REST_MAX: Duration = Duration::from_secs(20);

/// Identifies a page: its path and query, and the rights of its visitor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PageId {
    target: String,
    rights: RightsId,
    /// The generation of the callers, since a reload can change what the token may read.
    generation: u64,
}

impl PageId {
    pub(super) fn from_visit(visit: &Visit) -> PageId {
        let generation = visit.console.services.generation();
        PageId { target: visit.target.clone(), rights: visit.rights, generation }
    }
}

/// The pages with watchers, and the last renderings.
#[derive(Debug)]
pub(super) struct LivePages {
    watched: Mutex<HashMap<PageId, WatchedPage>>,
    kept: Mutex<HashMap<PageId, (Timestamp, Arc<ConsolePage>)>>,
    streams: Quota,
    pages: Quota,
}

impl Default for LivePages {
    fn default() -> LivePages {
        LivePages {
            watched: Mutex::default(),
            kept: Mutex::default(),
            streams: Quota::new(STREAMS_MAX, "live pages"),
            pages: Quota::new(PAGES_MAX, "different live pages"),
        }
    }
}

/// A page with watchers.
#[derive(Debug)]
struct WatchedPage {
    sender: watch::Sender<PartsNow>,
    /// Whether the next rendering is published even if nothing has changed, because there is a new
    /// watcher, whose page may be newer than the last rendering.
    is_due: bool,
    _permit: Permit,
}

/// The parts of a page at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct PartsNow {
    /// The number of the rendering.
    number: u64,
    parts: Arc<[LivePart]>,
    /// Whether the page has ended because its caller has lost the right to it.
    pub(super) is_ended: bool,
}

/// A part, and the rendering that changed it.
#[derive(Debug, Clone)]
struct LivePart {
    changed: u64,
    part: PagePart,
}

/// A stream of a live page.
#[derive(Debug)]
pub(super) struct Watching {
    pub(super) parts: watch::Receiver<PartsNow>,
    _permit: Permit,
}

impl LivePages {
    /// Watches a page. Fails if the maximum number of streams or live pages, or the caller's quota
    /// of either, is reached.
    pub(super) fn watch(&self, visit: Visit) -> Result<Watching, QuotaReached> {
        let (id, holder) = (PageId::from_visit(&visit), visit.holder());
        let stream = self.streams.acquire(&holder)?;
        let mut watched = self.watched.lock();
        if let Some(page) = watched.get_mut(&id) {
            page.is_due = true;
            return Ok(Watching { parts: page.sender.subscribe(), _permit: stream });
        }
        let permit = self.pages.acquire(&holder)?;
        let (sender, parts) = watch::channel(PartsNow::default());
        watched.insert(id.clone(), WatchedPage { sender, is_due: false, _permit: permit });
        tokio::spawn(async move { visit.console.live.render(&id, &visit).await });
        Ok(Watching { parts, _permit: stream })
    }

    /// Renders a page until its last watcher has left.
    async fn render(&self, id: &PageId, visit: &Visit) {
        let mut parts = PartsNow::default();
        loop {
            let began = monotonic();
            let rendered = visit.render_live().await;
            parts = match &rendered {
                Ok(rendered) => parts.followed_by(rendered),
                // The page will not change any more: the browser reloads it and shows the reason.
                Err(
                    Problem::SignedOut(_)
                    | Problem::Forbidden(_)
                    | Problem::Absent(_)
                    | Problem::Invalid(_),
                ) => PartsNow { is_ended: true, ..parts },
                Err(problem) => parts.followed_by(&[super::layout::notice_of(problem)]),
            };
            if !self.publish(id, &parts) {
                return;
            }
            let took = monotonic().saturating_duration_since(began);
            let pages = self.watched.lock().len() as u32;
            let least = EVERY.max(EVERY_OF_EACH * pages);
            sleep((took * REST).max(least).min(REST_MAX)).await;
        }
    }

    /// Sends parts to the watchers of a page. Returns false if it has no watchers, or has ended.
    fn publish(&self, id: &PageId, parts: &PartsNow) -> bool {
        let mut watched = self.watched.lock();
        let Some(WatchedPage { sender, is_due, .. }) = watched.get_mut(id) else { return false };
        if sender.receiver_count() == 0 || parts.is_ended {
            sender.send_replace(parts.clone());
            watched.remove(id);
            return false;
        }
        // Unchanged parts are replaced as well, so that only one copy is in memory.
        sender.send_if_modified(|sent| {
            sent.clone_from(parts);
            std::mem::take(is_due) || parts.has_changed()
        });
        true
    }

    /// Keeps a rendering in case the store becomes unreachable.
    pub(super) fn keep(&self, id: &PageId, page: &Arc<ConsolePage>, now: Timestamp) {
        let mut kept = self.kept.lock();
        if kept.len() >= KEPT_MAX && !kept.contains_key(id) {
            let oldest = kept.iter().min_by_key(|(_, (time, _))| *time).map(|(id, _)| id.clone());
            oldest.into_iter().for_each(|id| drop(kept.remove(&id)));
        }
        kept.insert(id.clone(), (now, page.clone()));
    }

    /// Returns the last rendering of a page and its time.
    pub(super) fn kept(&self, id: &PageId) -> Option<(Timestamp, Arc<ConsolePage>)> {
        self.kept.lock().get(id).cloned()
    }
}

impl PartsNow {
    /// Returns the parts after another rendering.
    fn followed_by(&self, rendered: &[PagePart]) -> PartsNow {
        let number = self.number + 1;
        let changed = |part: &PagePart| {
            let mut known = self.parts.iter().filter(|known| known.part.id == part.id);
            match known.find(|known| are_same(&known.part.html, &part.html)) {
                Some(known) => known.changed,
                None => number,
            }
        };
        let live = |part: &PagePart| LivePart { changed: changed(part), part: part.clone() };
        PartsNow { number, parts: rendered.iter().map(live).collect(), is_ended: false }
    }

    /// Whether the last rendering changed a part.
    fn has_changed(&self) -> bool {
        self.parts.iter().any(|part| part.changed == self.number)
    }

    /// Returns the events for all parts that have changed since rendering `number`, and the number
    /// of the current rendering.
    pub(super) fn since(&self, number: u64) -> (Bytes, u64) {
        let changed = || self.parts.iter().filter(|part| part.changed > number);
        let bytes = changed().map(|live| live.part.html.len() * 9 / 8 + EVENT_BYTES).sum();
        let mut events = String::with_capacity(bytes);
        changed().for_each(|live| append(&mut events, &live.part));
        (events.into(), self.number)
    }
}

/// Appends a server-sent event with the id and the contents of a part.
fn append(events: &mut String, part: &PagePart) {
    events.push_str("event: part\n");
    for line in iter::once(part.id).chain(part.html.lines()) {
        events.extend(["data: ", line, "\n"]);
    }
    events.push('\n');
}

/// Whether two renderings differ at most in the text of `<time>` elements, which the script updates.
fn are_same(one: &str, other: &str) -> bool {
    fn pieces(html: &str) -> impl Iterator<Item = &str> {
        let mut parts = html.split("<time ");
        let first = parts.next();
        first.into_iter().chain(parts.flat_map(|part| {
            let (start, rest) = part.split_once('>').unwrap_or((part, ""));
            let (_, end) = rest.split_once("</time>").unwrap_or(("", rest));
            [start, end]
        }))
    }
    pieces(one).eq(pieces(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(html: &str) -> PagePart {
        PagePart { id: "x", html: html.into(), is_live: true }
    }

    #[test]
    fn only_changes_are_sent() {
        let first = PartsNow::default().followed_by(&[part("a\nb")]);
        let (events, number) = first.since(0);
        assert_eq!(&events[..], b"event: part\ndata: x\ndata: a\ndata: b\n\n");
        let second = first.followed_by(&[part("a\nb")]);
        assert!(first.has_changed() && !second.has_changed());
        assert!(second.since(number).0.is_empty());
        let third = second.followed_by(&[part("c")]);
        let news = Bytes::from_static(b"event: part\ndata: x\ndata: c\n\n");
        // A watcher that missed renderings gets the same events as one in step.
        assert_eq!([third.since(number), third.since(0)], [(news.clone(), 3), (news, 3)]);
    }

    #[test]
    fn changed_ages_are_not_sent() {
        let age = |moment, text| format!("<p><time datetime=\"{moment}\">{text}</time> ago</p>");
        assert!(are_same(&age(1, "3 s"), &age(1, "4 s")));
        assert!(!are_same(&age(1, "3 s"), &age(2, "3 s")));
        assert!(!are_same(&age(1, "3 s"), &format!("{}!", age(1, "3 s"))));
    }
}
