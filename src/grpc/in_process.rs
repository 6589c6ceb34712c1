//! Calls services within the process, for the console.
//!
//! A call takes the same steps as one over HTTP/2: credentials, rights, limits of its namespace,
//! parsing, engine, audit line. There are four differences: call metrics do not count it, it is not
//! shed under overload, its deadline is longer than the default, and each action has an audit line.

use std::{future::ready, sync::Arc};

use hyper::{
    HeaderMap, Request,
    header::{AUTHORIZATION, HeaderName, HeaderValue},
};
use tollgate_console::{Called, ConsoleCaller, Services};
use tollgate_http::deadline::TIMEOUT;
use tonic::{Status, body::Body};

use super::{
    access::{Access, CONSOLE, NAMESPACE},
    routes::Routes,
};
use tollgate_core::names::Namespace;

/// The metadata key that names who has banned a key or lifted its ban.
const ACTOR: HeaderName = HeaderName::from_static("x-tollgate-actor");
/// The deadline of a call, since a late page is better than none. While the store is unreachable,
/// calls fail immediately.
const TIME_MAX: HeaderValue = HeaderValue::from_static("5S");

/// The services of a server, called without a connection.
#[derive(Debug)]
pub struct InProcess {
    routes: Routes,
    access: Arc<Access>,
}

impl InProcess {
    /// Creates the services behind these routes, for callers with these rights.
    pub fn new(routes: Routes, access: Arc<Access>) -> InProcess {
        InProcess { routes, access }
    }
}

impl Services for InProcess {
    fn is_open(&self) -> bool {
        self.access.is_open()
    }

    fn generation(&self) -> u64 {
        self.access.generation()
    }

    fn headers(&self, token: Option<HeaderValue>, namespace: Option<HeaderValue>) -> HeaderMap {
        headers(token, namespace)
    }

    fn caller(&self, headers: &HeaderMap) -> Result<ConsoleCaller, String> {
        self.access.console_caller(headers)
    }

    fn knows(&self, headers: &HeaderMap) -> bool {
        self.access.knows(headers)
    }

    fn permitted(&self, path: &str, headers: &HeaderMap) -> Option<Namespace> {
        self.access.permitted(path, headers)
    }

    fn permits_server(&self, headers: &HeaderMap) -> bool {
        self.access.permits_server(headers)
    }

    fn call(&self, mut request: Request<Body>) -> Called {
        let granted = self.access.check_console(request.uri().path(), request.headers());
        let granted = match granted {
            Ok(granted) => granted,
            Err(refused) => return answer(&refused),
        };
        let actor = match granted.origin.caller() {
            "" => CONSOLE,
            caller => caller,
        };
        let actor = HeaderValue::try_from(actor).ok();
        request.headers_mut().extend(actor.map(|actor| (ACTOR, actor)));
        request.extensions_mut().extend(granted.scope.map(extension).unwrap_or_default());
        request.extensions_mut().extend(granted.watched.map(extension).unwrap_or_default());
        let answering = self.routes.call_in_process(request, granted.origin);
        let Some(audited) = granted.audited else { return answering };
        Box::pin(async move {
            let answer = answering.await?;
            audited.end(answer.headers());
            Ok(answer)
        })
    }
}

/// Builds the headers of each call.
fn headers(token: Option<HeaderValue>, namespace: Option<HeaderValue>) -> HeaderMap {
    let mut headers = HeaderMap::from_iter([(TIMEOUT, TIME_MAX)]);
    headers.extend(token.map(|value| (AUTHORIZATION, value)));
    headers.extend(namespace.map(|value| (NAMESPACE, value)));
    headers
}

/// Builds extensions with one value.
fn extension<T: Clone + Send + Sync + 'static>(value: T) -> hyper::http::Extensions {
    let mut extensions = hyper::http::Extensions::new();
    extensions.insert(value);
    extensions
}

fn answer(status: &Status) -> Called {
    Box::pin(ready(Ok(status.clone().into_http())))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate_http::deadline::{DEFAULT, timeout};

    use super::*;

    #[test]
    fn calls_have_five_seconds() {
        let headers = headers(None, None);
        assert_eq!(timeout(&headers), Some(Duration::from_secs(5)));
        assert!(timeout(&headers) > Some(DEFAULT));
    }
}
