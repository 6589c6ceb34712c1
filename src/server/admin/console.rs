//! The console of a server, if it was built with the feature `console`.

use std::sync::Arc;

use crate::grpc::{Routes, access::Access};
use tollgate_status::{RunningServer, metrics::PoolMetrics};

#[cfg(feature = "console")]
pub(super) use tollgate_console::{Console, STREAM_AGE_MAX};

/// Opens the console, which samples the pools in `series`.
#[cfg(feature = "console")]
pub(super) fn open(
    server: &Arc<RunningServer>,
    routes: Routes,
    access: &Arc<Access>,
    series: &Arc<PoolMetrics>,
) -> Option<Arc<Console>> {
    let services = Arc::new(crate::grpc::InProcess::new(routes, access.clone()));
    Some(Console::new(server.clone(), services, series.clone()))
}

#[cfg(not(feature = "console"))]
pub(super) use absent::{NoConsole as Console, STREAM_AGE_MAX, open};

/// Stands in for the console in builds without it.
#[cfg(not(feature = "console"))]
mod absent {
    use std::time::Duration;

    use hyper::{Request, Response, body::Incoming};
    use tollgate_status::page::PageBody;

    use super::{Access, Arc, PoolMetrics, Routes, RunningServer};

    pub(in crate::server::admin) const STREAM_AGE_MAX: Duration = Duration::ZERO;

    /// Has no values: without the feature there is no console.
    #[derive(Debug)]
    pub(in crate::server::admin) enum NoConsole {}

    impl NoConsole {
        pub(in crate::server::admin) async fn sample(&self) {
            match *self {}
        }

        pub(in crate::server::admin) fn is_stream(_: &Response<PageBody>) -> bool {
            false
        }

        pub(in crate::server::admin) async fn answer(
            self: &Arc<NoConsole>,
            _: Request<Incoming>,
        ) -> Response<PageBody> {
            match **self {}
        }
    }

    pub(in crate::server::admin) fn open(
        _: &Arc<RunningServer>,
        _: Routes,
        _: &Arc<Access>,
        _: &Arc<PoolMetrics>,
    ) -> Option<Arc<NoConsole>> {
        None
    }
}
