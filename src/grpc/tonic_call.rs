//! A call of a service within the process: through tonic, within the limits of its namespace.

use std::{convert::Infallible, sync::Arc};

use hyper::{Request, Response};
use tollgate_console::Called;
use tonic::{Status, body::Body, codegen::Service};

use super::{
    failed,
    fast_path::{FastPath, Served},
    quota,
    scope::Origin,
};

/// Calls a service.
pub(super) fn call<T, S>(
    served: &Arc<Served<T, S>>,
    request: Request<Body>,
    origin: Origin,
) -> Called
where
    T: FastPath + Send + 'static,
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let served = served.clone();
    Box::pin(async move {
        let path = request.uri().clone();
        let method = path.path().rsplit('/').next().unwrap_or_default();
        let entered = quota::enter_console(served.service().engine(), method, request.extensions());
        let answer = match entered {
            Err(error) => super::status::from_error(error).into_http(),
            Ok(held) => {
                let answer = served.tonic().call(request).await?;
                drop(held);
                answer
            }
        };
        if let Some(status) = Status::from_header_map(answer.headers()) {
            failed::note_path(T::NAME, path.path(), &origin, &status);
        }
        Ok(answer)
    })
}
