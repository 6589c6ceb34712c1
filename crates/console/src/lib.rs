//! The web console: pages for operators, on the admin listener.
//!
//! The server renders every page, so reading needs no script. The script only replaces the parts of
//! a page whose contents have changed, which arrive as server-sent events ([`live`]). Data and
//! actions go through the services like gRPC calls ([`visit::Visit`]), with the same rights, limits
//! and audit lines.
//!
//! # Add a page
//! 1. `pages/NAME.rs`: `load` returns a [`page::ConsolePage`] of parts, each rendered by a template
//!    in `templates/`. A part is `live` if its numbers change, otherwise `fixed`. A form is
//!    `fixed`, or inside a `<details class="act">`, because the script does not replace a part
//!    while one is open in it.
//! 2. If the page has actions: `act` reads the [`fields::FormFields`] of the form, calls a service,
//!    and returns the message for the user. The form is posted to the URL of its page. Its button
//!    is shown only if `visit.may(…)`, but it is the call that checks the rights.
//! 3. `pages.rs`: a row in `PAGES`. A page about one thing takes its name from the query, as in
//!    `/pool?name=ar%3A1`: `visit.name()` returns it, and `visit::encoded` encodes it.
//! 4. Times, ages and numbers come from [`format`], charts from [`chart`]. askama escapes
//!    everything else.
//!
//! `?` converts the status of a call to a [`page::Problem`], such as a missing right. While the
//! store is unreachable, the page shows the last rendering of its parts.

mod assets;
mod chart;
mod cookies;
mod events;
mod feeds;
mod fields;
mod format;
mod history;
mod layout;
mod live;
mod page;
mod pages;
mod paging;
mod pool_history;
mod quota;
mod render;
mod services;
mod sessions;
mod sign_in;
mod stream;
mod visit;

use std::sync::Arc;

use hyper::{
    HeaderMap, Method, Request, Response, StatusCode, body::Incoming, header::CONTENT_TYPE,
};
use tokio::{sync::Notify, time::sleep};

use feeds::EventFeeds;
use fields::FormFields;
use history::CallHistory;
use live::LivePages;
use page::Problem;
use pool_history::{PoolHistory, PoolStep};
use services::InProcess;
use sessions::Sessions;
use tollgate_status::{
    RunningServer, guard,
    metrics::PoolMetrics,
    page::{self as answer, PageBody},
};
use tollgate_telemetry::metrics::refusals;
use visit::Visit;

pub use services::{Called, ConsoleCaller, Services};
pub use stream::AGE_MAX as STREAM_AGE_MAX;

/// Maximum size of a form, bytes.
const FORM_BYTES_MAX: usize = 32 * 1024;
/// The prefix that turns the path of a page into the path of its stream.
const LIVE: &str = "/live";

/// The console of a server.
#[derive(Debug)]
pub struct Console {
    server: Arc<RunningServer>,
    services: Arc<dyn Services>,
    series: Arc<PoolMetrics>,
    /// Notified by each visit.
    visited: Notify,
    sessions: Sessions,
    live: LivePages,
    calls: CallHistory,
    pools: PoolHistory,
    feeds: EventFeeds,
}

impl Console {
    /// Creates the console of a server. It samples the pools in `series`.
    pub fn new(
        server: Arc<RunningServer>,
        services: Arc<dyn Services>,
        series: Arc<PoolMetrics>,
    ) -> Arc<Console> {
        Arc::new(Console {
            server,
            services,
            series,
            visited: Notify::new(),
            sessions: Sessions::default(),
            live: LivePages::default(),
            calls: CallHistory::default(),
            pools: PoolHistory::default(),
            feeds: EventFeeds::default(),
        })
    }

    /// Samples the calls of the server and, after the first visit, the pools with time series.
    /// Never completes.
    pub async fn sample(&self) {
        refusals::turn_on();
        tokio::join!(self.calls.sample(&self.server), self.sample_pools());
    }

    async fn sample_pools(&self) {
        self.visited.notified().await;
        loop {
            for (name, view) in self.server.pools(&self.series).await.pools() {
                let waiters = u32::try_from(view.waiters).unwrap_or(u32::MAX);
                let step = PoolStep::new(view.usage.in_use, view.usage.capacity, waiters);
                self.pools.sample(name, step);
            }
            sleep(history::next_step()).await;
        }
    }

    /// Whether a response is the stream of a live page.
    pub fn is_stream(response: &Response<PageBody>) -> bool {
        response.headers().get(CONTENT_TYPE).is_some_and(|it| it == stream::CONTENT)
    }

    /// Answers a request.
    pub async fn answer(self: &Arc<Console>, request: Request<Incoming>) -> Response<PageBody> {
        let (head, body) = request.into_parts();
        if let Some(asset) = assets::find(head.uri.path()) {
            return asset;
        }
        // DNS rebinding: another site can resolve its own name to this address.
        if self.services.is_open() && !guard::is_loopback_host(&head.headers) {
            return answer::refusal(
                StatusCode::FORBIDDEN,
                "without callers, the console is available only at localhost, 127.0.0.1 or [::1]",
            );
        }
        let form = match head.method {
            Method::GET | Method::HEAD => None,
            Method::POST if !guard::is_same_origin(&head.headers) => {
                let reason = "forms from other sites are refused: Origin must match Host";
                return answer::refusal(StatusCode::FORBIDDEN, reason);
            }
            // The session is checked before the body is read, except for a login, which has none
            // yet, and a logout, which may arrive after the session has ended.
            Method::POST
                if !["/login", "/logout"].contains(&head.uri.path())
                    && !self.has_session(&head.headers) =>
            {
                return sign_in::redirect(&head.uri);
            }
            Method::POST => match FormFields::parse_body(body).await {
                Some(form) => Some(form),
                None => {
                    let reason = format!("the form exceeds {FORM_BYTES_MAX} bytes");
                    return answer::refusal(StatusCode::PAYLOAD_TOO_LARGE, &reason);
                }
            },
            _ => {
                let reason = "only GET, HEAD and POST are supported";
                return answer::refusal(StatusCode::METHOD_NOT_ALLOWED, reason);
            }
        };
        match (head.uri.path(), form) {
            ("/login", None) => self.login_page(&head),
            ("/login", Some(form)) => self.log_in(&form).await,
            ("/logout", Some(_)) => self.log_out(&head.headers),
            ("/namespace", Some(form)) => self.choose_namespace(&head.headers, &form),
            (path, form) => {
                let (path, is_live) = match path.strip_prefix(LIVE) {
                    Some(path) if path.starts_with('/') => (path, true),
                    _ => (path, false),
                };
                let visit = pages::find(path).and_then(|entry| Visit::new(self, entry, &head));
                let visit = match visit {
                    Ok(visit) => visit,
                    Err(problem) => return self.problem(&problem, is_live, &head),
                };
                self.visited.notify_one();
                match form {
                    None if is_live => visit.stream(),
                    None => self.page(&visit, &head).await,
                    Some(form) => self.act(&visit, &form, &head).await,
                }
            }
        }
    }

    /// Whether a request has a session, or needs none.
    fn has_session(&self, headers: &HeaderMap) -> bool {
        let mut ids = cookies::all(headers, cookies::SESSION);
        self.services.is_open() || ids.any(|id| self.sessions.get(id).is_some())
    }

    /// Answers a request that has no page.
    fn problem(
        self: &Arc<Console>,
        problem: &Problem,
        is_live: bool,
        head: &hyper::http::request::Parts,
    ) -> Response<PageBody> {
        match problem {
            Problem::SignedOut(_) if !is_live => sign_in::redirect(&head.uri),
            problem => answer::refusal(problem.status(), problem.message()),
        }
    }

    /// Returns the services for a caller with this token.
    fn in_process(&self, token: Option<&sessions::Token>, namespace: &str) -> InProcess {
        let namespace = namespace.parse().ok().filter(|_| !namespace.is_empty());
        InProcess::new(&self.services, token.map(sessions::Token::header), namespace)
    }
}
