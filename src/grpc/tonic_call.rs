//! A call of a service within the process: through tonic, within the limits of its namespace.

use std::{convert::Infallible, sync::Arc};

use hyper::{Request, Response};
use tollgate_console::Called;
use tonic::{Status, body::Body, codegen::Service};

use super::{
    failed,
    fast_path::{FastPath, Served},
    quota,
    rpcs::Rpc,
    scope::Origin,
};

/// Calls a service.
pub(super) fn call<T, S>(
    served: Arc<Served<T, S>>,
    rpc: &'static Rpc,
    request: Request<Body>,
    origin: Origin,
) -> Called
where
    T: FastPath + Send + 'static,
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
{
    Box::pin(async move {
        let engine = served.service().engine();
        let entered = quota::enter_console(engine, rpc, request.extensions());
        let answer = match entered {
            Err(error) => super::status::from_error(error).into_http(),
            Ok(held) => {
                let answer = served.tonic().call(request).await?;
                drop(held);
                answer
            }
        };
        if let Some(status) = Status::from_header_map(answer.headers()) {
            failed::note(rpc.service.full_name(), rpc.name, &origin, &status);
        }
        Ok(answer)
    })
}
