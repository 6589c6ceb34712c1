//! A visit to a page: the visitor, the page, and the services for the visitor.

use std::{fmt, pin::Pin, sync::Arc};

use super::{
    Console, cookies,
    fields::FormFields,
    history::CallHistory,
    page::{ConsolePage, Problem},
    pool_history::PoolHistory,
    quota::Holder,
    services::{ConsoleCaller, InProcess},
    sessions::RightsId,
};
use bytes::Bytes;
use hyper::http::request::Parts;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tollgate_core::{
    names::{Name, Namespace},
    time::{Clock, Timestamp},
};
use tollgate_status::RunningServer;

/// The characters of a name that are not escaped in a URL.
const NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A page that is loading.
pub(super) type LoadingPage<'a> =
    Pin<Box<dyn Future<Output = Result<ConsolePage, Problem>> + Send + 'a>>;
/// An action that is running. It returns the message for the user.
pub(super) type RunningAction<'a> =
    Pin<Box<dyn Future<Output = Result<String, Problem>> + Send + 'a>>;

/// A page of the console.
pub(super) struct PageEntry {
    pub(super) path: &'static str,
    pub(super) title: &'static str,
    /// Whether the navigation has a link to it.
    pub(super) is_linked: bool,
    /// The path of the page that the navigation marks as current.
    pub(super) within: &'static str,
    pub(super) load: for<'a> fn(&'a Visit) -> LoadingPage<'a>,
    /// Its actions, if it has any.
    pub(super) act: Option<for<'a> fn(&'a Visit, &'a FormFields) -> RunningAction<'a>>,
}

impl fmt::Debug for PageEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageEntry").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A visit to a page.
pub(super) struct Visit {
    pub(super) console: Arc<Console>,
    pub(super) entry: &'static PageEntry,
    /// The path and the query of the page.
    pub(super) target: String,
    pub(super) rights: RightsId,
    /// The id of the session; `None` on a server without callers.
    pub(super) session: Option<String>,
    /// The caller; `None` on a server without callers.
    pub(super) caller: Option<ConsoleCaller>,
    /// The namespace that the user chose; empty for the caller's own.
    pub(super) namespace: String,
    services: InProcess,
    query: FormFields,
}

impl fmt::Debug for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visit").field("target", &self.target).finish_non_exhaustive()
    }
}

impl Visit {
    /// Finds the caller of the session of a request. Fails if the session has ended or its token
    /// has expired.
    pub(super) fn new(
        console: &Arc<Console>,
        entry: &'static PageEntry,
        head: &Parts,
    ) -> Result<Visit, Problem> {
        let is_open = console.services.is_open();
        let mut ids = cookies::all(&head.headers, cookies::SESSION).filter(|_| !is_open);
        let known = ids.find_map(|id| Some((id, console.sessions.get(id)?)));
        let (id, session) = known.unzip();
        if session.is_none() && !is_open {
            return Err(Problem::SignedOut("sign in first".to_owned()));
        }
        let token = session.as_ref().map(|session| &session.token);
        let namespace = session.as_ref().map(|session| session.namespace.clone());
        let namespace = namespace.unwrap_or_default();
        let services = console.in_process(token, &namespace);
        let caller = services.caller().map_err(Problem::SignedOut)?;
        let query = head.uri.query().unwrap_or_default();
        Ok(Visit {
            console: console.clone(),
            entry,
            target: match query {
                "" => entry.path.to_owned(),
                query => format!("{}?{query}", entry.path),
            },
            rights: RightsId::new(token, &namespace),
            session: id.map(str::to_owned),
            caller,
            namespace,
            services,
            query: FormFields::parse(query.as_bytes()),
        })
    }

    /// Returns the name that the page is about: the query field `name`.
    pub(super) fn name(&self) -> &str {
        self.query.get("name")
    }

    /// Returns the fields of the query.
    pub(super) fn query(&self) -> &FormFields {
        &self.query
    }

    /// Returns the caller whose quota the visit counts against.
    pub(super) fn holder(&self) -> Holder {
        self.caller.as_ref().map(|caller| caller.name.clone())
    }

    /// Returns the current time.
    pub(super) fn now(&self) -> Timestamp {
        Clock::system().now()
    }

    /// Returns the server, with its status and counters.
    pub(super) fn server(&self) -> &RunningServer {
        &self.console.server
    }

    /// Returns the calls in the last 15 minutes.
    pub(super) fn calls(&self) -> &CallHistory {
        &self.console.calls
    }

    /// Returns the usage of pools in the last 15 minutes.
    pub(super) fn pools(&self) -> &PoolHistory {
        &self.console.pools
    }

    /// Whether the caller may call an RPC, such as `AdmissionService/EvictTask`, for at least some
    /// names.
    pub(super) fn may(&self, rpc: &str) -> bool {
        self.permitted(rpc).is_some()
    }

    /// Returns the namespace in which the caller may call an RPC; `None` if it may not.
    pub(super) fn permitted(&self, rpc: &str) -> Option<Namespace> {
        self.services.permitted(&format!("/tollgate.v1.{rpc}"))
    }

    /// Whether the caller may read data about all namespaces, such as counters of the server.
    pub(super) fn may_read_server(&self) -> bool {
        self.services.permits_server()
    }

    /// Whether the token is still valid.
    pub(super) fn is_known(&self) -> bool {
        self.services.is_known()
    }

    /// Creates a client of a service for the caller: `visit.client(LockServiceClient::new)`.
    pub(super) fn client<C>(&self, new: fn(InProcess) -> C) -> C {
        new(self.services.clone())
    }
}

/// Returns a name as stored in its namespace; `None` if it is invalid.
pub(super) fn stored(name: &str, namespace: &Namespace) -> Option<Name> {
    let name = Name::parse(Bytes::copy_from_slice(name.as_bytes())).ok()?;
    Some(name.within(namespace))
}

/// Encodes a name for a query.
pub(super) fn encoded(name: &str) -> String {
    utf8_percent_encode(name, NAME).to_string()
}
