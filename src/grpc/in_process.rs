//! Calls of the services within the process, for the console.
//!
//! A call has the same steps as one over HTTP/2: credentials, rights, limits of its namespace, parse,
//! engine, audit line. There are four differences: the metrics of calls do not count it, overload
//! does not shed it, its deadline is later than the default one, and each action has an audit line.

use std::{
    convert::Infallible,
    future::ready,
    sync::Arc,
    task::{Context, Poll},
};

use hyper::{
    HeaderMap, Request, Response,
    header::{AUTHORIZATION, HeaderName, HeaderValue},
};
use tonic::{Status, body::Body, codegen::Service};

use super::{
    access::{Access, CONSOLE, ConsoleCaller, NAMESPACE},
    deadline,
    routes::Routes,
    tonic_call::Called,
};
use tollgate_core::names::Namespace;

/// The metadata that names who banned a key, or lifted its ban.
const ACTOR: HeaderName = HeaderName::from_static("x-tollgate-actor");
/// The deadline of a call: a late page is better than none. While the store is unreachable, calls fail
/// at once.
const TIME_MAX: HeaderValue = HeaderValue::from_static("5S");

/// The services of a server for one caller, as a transport of the generated clients.
///
/// Its credentials are checked at each call, so a caller that a reload removes loses its access.
#[derive(Debug, Clone)]
pub struct InProcess {
    routes: Routes,
    access: Arc<Access>,
    /// The credentials, the namespace and the deadline.
    headers: Arc<HeaderMap>,
}

impl InProcess {
    /// The services for a caller. Without a token, for one of a server without callers.
    pub fn new(
        routes: &Routes,
        access: &Arc<Access>,
        token: Option<HeaderValue>,
        namespace: Option<HeaderValue>,
    ) -> InProcess {
        let headers = Arc::new(headers(token, namespace));
        InProcess { routes: routes.clone(), access: access.clone(), headers }
    }

    /// Finds the caller. `None` on a server without callers. The error is the reason of a refusal,
    /// which has an audit line.
    pub fn caller(&self) -> Result<Option<ConsoleCaller>, String> {
        match self.access.is_open() {
            true => Ok(None),
            false => self.access.console_caller(&self.headers).map(Some),
        }
    }

    /// Whether the credentials are still valid.
    pub fn is_known(&self) -> bool {
        self.access.knows(&self.headers)
    }

    /// The namespace in which the caller may use an rpc, such as
    /// `/tollgate.v1.AdmissionService/EvictTask`, for some names; `None` if it may not.
    pub fn permitted(&self, path: &str) -> Option<Namespace> {
        self.access.permitted(path, &self.headers)
    }

    /// Whether the caller may read what concerns all namespaces, such as the metrics.
    pub fn permits_server(&self) -> bool {
        self.access.permits_server(&self.headers)
    }
}

impl Service<Request<Body>> for InProcess {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Called;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Called {
        for (name, value) in self.headers.iter() {
            request.headers_mut().insert(name, value.clone());
        }
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

/// The headers of each call.
fn headers(token: Option<HeaderValue>, namespace: Option<HeaderValue>) -> HeaderMap {
    let mut headers = HeaderMap::from_iter([(deadline::TIMEOUT, TIME_MAX)]);
    headers.extend(token.map(|value| (AUTHORIZATION, value)));
    headers.extend(namespace.map(|value| (NAMESPACE, value)));
    headers
}

/// Extensions with one value.
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

    use super::*;

    #[test]
    fn calls_have_five_seconds() {
        let headers = headers(None, None);
        assert_eq!(deadline::timeout(&headers), Some(Duration::from_secs(5)));
        assert!(deadline::timeout(&headers) > Some(deadline::DEFAULT));
    }
}
