//! The services of a server, behind the transport.

#[cfg(any(feature = "console", test, fuzzing))]
mod in_process;

use std::sync::Arc;

use tollgate_http::{Router, Service as RoutedService};

use super::{
    AdmissionHandlers, EnvoyHandlers, LockHandlers, RateHandlers, SequenceHandlers, StockHandlers,
    access::{Access, Service},
    program::Tollgate,
    rules::CurrentRules,
    traces::Tracer,
};
use tollgate_core::names::Name;
use tollgate_engine::Engine;

/// All services of a server.
#[derive(Debug, Clone)]
pub struct Routes {
    router: Router<Tollgate>,
    admission: Arc<AdmissionHandlers>,
}

impl Routes {
    /// Creates the services of an engine. `others` are health, reflection and `AdminService`. The
    /// tracer samples calls; `None` if no spans are exported.
    pub fn new(
        engine: &Arc<Engine>,
        rules: &Arc<CurrentRules>,
        others: tonic::service::Routes,
        access: Arc<Access>,
        tracer: Option<Tracer>,
    ) -> Routes {
        let program = &Arc::new(Tollgate::new(engine.clone(), access, tracer));
        let admission = Arc::new(AdmissionHandlers::new(engine.clone(), rules.clone()));
        let lock = Arc::new(LockHandlers::new(engine.clone()));
        let rate = Arc::new(RateHandlers::new(engine.clone(), rules.clone()));
        let sequence = Arc::new(SequenceHandlers::new(engine.clone(), rules.clone()));
        let stock = Arc::new(StockHandlers::new(engine.clone()));
        let envoy = Arc::new(EnvoyHandlers::new(engine.clone(), rules.clone()));
        let services = Service::ALL.map(|service| match service {
            Service::Admission => {
                Some(RoutedService::new(program, admission.clone(), AdmissionHandlers::server))
            }
            Service::Lock => Some(RoutedService::new(program, lock.clone(), LockHandlers::server)),
            Service::Rate => Some(RoutedService::new(program, rate.clone(), RateHandlers::server)),
            Service::Sequence => {
                Some(RoutedService::new(program, sequence.clone(), SequenceHandlers::server))
            }
            Service::Stock => {
                Some(RoutedService::new(program, stock.clone(), StockHandlers::server))
            }
            Service::Envoy => {
                Some(RoutedService::new(program, envoy.clone(), EnvoyHandlers::server))
            }
            // One of the others.
            Service::Admin => None,
        });
        Routes { router: Router::new(program.clone(), services.into(), others), admission }
    }

    /// Returns the router of the transport.
    pub(crate) fn router(&self) -> &Router<Tollgate> {
        &self.router
    }

    /// Returns how many AdmitTask calls for a pool this server has answered FULL.
    pub fn refused(&self, pool: &Name) -> u64 {
        self.admission.refused(pool)
    }
}
