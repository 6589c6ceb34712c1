//! The events of a pool or a policy: the latest ones, or those after a cursor.

use std::time::Duration;

use askama::Template;
use tokio::time::timeout_at;

use crate::{
    events::{EventRow, EventSource},
    page::{ConsolePage, Problem},
    visit::{Visit, encoded},
};
use tollgate_core::time::monotonic;

/// Maximum number of events after a cursor.
const PAGE: usize = 100;
/// How long a page waits for the stored events after a cursor.
const READ_TIME: Duration = Duration::from_millis(500);

#[derive(Template)]
#[template(path = "events_filter.html")]
struct EventsFilter<'a> {
    name: &'a str,
    is_policy: bool,
    filter: &'a str,
}

#[derive(Template)]
#[template(path = "events_list.html")]
struct EventsTemplate {
    rows: Vec<LinkedEvent>,
    is_policy: bool,
    /// The query of the live page.
    query: String,
    is_paused: bool,
    /// The query for the events after the last one on the page; `None` on the live page.
    later: Option<String>,
}

struct LinkedEvent {
    event: EventRow,
    /// The query for the events after this one.
    after: String,
}

fn query(source: &EventSource, filter: &str) -> String {
    let (of, name) = match source {
        EventSource::Pool(name) => ("pool", name),
        EventSource::Policy(name) => ("policy", name),
    };
    format!("of={of}&name={}&filter={}", encoded(name), encoded(filter))
}

/// Returns the stored events after a cursor, the oldest first.
async fn after(
    visit: &Visit,
    source: &EventSource,
    cursor: &str,
) -> Result<Vec<EventRow>, Problem> {
    let mut stream = visit.watch(source, cursor).await?;
    let (end, mut events) = (monotonic() + READ_TIME, Vec::new());
    while events.len() < PAGE {
        match timeout_at(end.into(), stream.next()).await {
            Ok(event) => match event? {
                Some(event) => events.push(event),
                None => break,
            },
            Err(_) => break,
        }
    }
    Ok(events)
}

/// Loads the page.
pub(super) async fn load(visit: &Visit) -> Result<ConsolePage, Problem> {
    let fields = visit.query();
    let (name, filter, cursor) = (visit.name(), fields.get("filter"), fields.get("after"));
    let is_policy = fields.get("of") == "policy";
    let is_paused = fields.get("paused") == "1";
    let page =
        ConsolePage::new("Events").fixed("filter", &EventsFilter { name, is_policy, filter })?;
    if name.is_empty() {
        return Ok(page);
    }
    let source = if is_policy {
        EventSource::Policy(name.to_owned())
    } else {
        EventSource::Pool(name.to_owned())
    };
    let events = match cursor {
        "" => visit.console.feeds.read(visit, &source).await,
        cursor => after(visit, &source, cursor).await,
    };
    let mut events = match events {
        Err(Problem::Store(why)) => return Ok(page.lacking(why)),
        events => events?,
    };
    let query = query(&source, filter);
    let last = events.last().map_or_else(|| cursor.to_owned(), |event| event.cursor.clone());
    events.retain(|event| event.contains(filter));
    let rows = events.into_iter().map(|event| LinkedEvent {
        after: format!("{query}&after={}", encoded(&event.cursor)),
        event,
    });
    let list = EventsTemplate {
        rows: rows.collect(),
        is_policy,
        is_paused,
        later: (!cursor.is_empty()).then(|| format!("{query}&after={}", encoded(&last))),
        query,
    };
    if is_paused || !cursor.is_empty() {
        page.fixed("events", &list)
    } else {
        page.live("events", &list)
    }
}
