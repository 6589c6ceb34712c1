//! Selects the service of a call by its path.
//!
//! Tollgate's own services are called directly from the HTTP/2 connection. In tonic, a call passes
//! a URL router and seven more layers, and its body is boxed three times: about a tenth of the cost
//! of a call. Health and reflection still use tonic. The handler enforces the deadline of a call;
//! until the message is complete, the body does.

use std::{convert::Infallible, future::ready, sync::Arc};

use hyper::{Request, Response, body::Incoming};
use tonic::{body::Body, codegen::Service as _};

use super::{
    AdmissionHandlers, LockHandlers, MESSAGE_BYTES_MAX, RateHandlers, SequenceHandlers,
    StockHandlers,
    fast_path::{self, AnswerBody, Answering, Opened, Served},
    held::{ConnectionBudget, ServerBudget},
    identity::CertificateNames,
    load,
    pb::{
        admission_service_server::AdmissionServiceServer, lock_service_server::LockServiceServer,
        rate_service_server::RateServiceServer, sequence_service_server::SequenceServiceServer,
        stock_service_server::StockServiceServer,
    },
    protocol, status,
};
use crate::{
    admission::Catalog,
    decision::budget::{CallerLimits, PeerConnection},
    engine::Engine,
    rate::Policies,
    sequence::Sequences,
};

/// All services of a server.
#[derive(Debug, Clone)]
pub struct Routes {
    admission: Arc<Served<AdmissionHandlers, AdmissionServiceServer<AdmissionHandlers>>>,
    lock: Arc<Served<LockHandlers, LockServiceServer<LockHandlers>>>,
    rate: Arc<Served<RateHandlers, RateServiceServer<RateHandlers>>>,
    sequence: Arc<Served<SequenceHandlers, SequenceServiceServer<SequenceHandlers>>>,
    stock: Arc<Served<StockHandlers, StockServiceServer<StockHandlers>>>,
    others: tonic::service::Routes,
    held: Arc<ServerBudget>,
}

/// The services for one connection.
#[derive(Debug, Clone)]
pub struct ConnectionServices {
    routes: Routes,
    holding: Arc<ConnectionBudget>,
    certificate: Option<Arc<CertificateNames>>,
}

impl Routes {
    /// Creates the services of an engine. `others` are health and reflection.
    pub fn new(
        engine: &Arc<Engine>,
        pools: Arc<Catalog>,
        policies: Arc<Policies>,
        sequences: Arc<Sequences>,
        others: tonic::service::Routes,
        limits: CallerLimits,
    ) -> Routes {
        Routes {
            admission: Served::new(
                AdmissionHandlers::new(engine.clone(), pools),
                AdmissionHandlers::server,
            ),
            lock: Served::new(LockHandlers::new(engine.clone()), LockHandlers::server),
            rate: Served::new(RateHandlers::new(engine.clone(), policies), RateHandlers::server),
            sequence: Served::new(
                SequenceHandlers::new(engine.clone(), sequences),
                SequenceHandlers::server,
            ),
            stock: Served::new(StockHandlers::new(engine.clone()), StockHandlers::server),
            others: others.prepare(),
            held: Arc::new(ServerBudget::new(limits)),
        }
    }

    /// Returns the services for a new connection of a peer. `certificate` has the names in its
    /// verified client certificate, if it has presented one.
    pub fn connection(
        &self,
        peer: PeerConnection,
        certificate: Option<Arc<CertificateNames>>,
    ) -> ConnectionServices {
        ConnectionServices {
            holding: self.held.connection(peer),
            routes: self.clone(),
            certificate,
        }
    }
}

impl ConnectionServices {
    /// Returns the accounting of the connection: its bytes and streams.
    pub fn holding(&self) -> Arc<ConnectionBudget> {
        self.holding.clone()
    }

    /// Returns the names in the verified client certificate of the peer.
    pub fn certificate(&self) -> Option<&CertificateNames> {
        self.certificate.as_deref()
    }

    /// Calls health or reflection through tonic.
    fn other(&self, request: Request<Incoming>) -> Answering {
        let (mut others, holding) = (self.routes.others.clone(), self.holding.clone());
        let (head, body) = request.into_parts();
        let mut body = Opened::new(body, holding.clone(), MESSAGE_BYTES_MAX);
        body.await_by_deadline(&head.headers, holding.message_timeout());
        // Health is answered whatever the length of the queue. Reflection goes the same way,
        // because it is cheap and rare.
        load::go_first();
        let path = head.uri.clone();
        Box::pin(async move {
            let (holds, refusal) = (body.holds(), body.refusal());
            let answer = others.call(Request::from_parts(head, Body::new(body))).await?;
            drop(holds);
            Ok(fast_path::retyped(&path, answer, holding, None, refusal))
        })
    }
}

impl hyper::service::Service<Request<Incoming>> for ConnectionServices {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Answering;

    /// Always ready: there is no `poll_ready`.
    fn call(&self, request: Request<Incoming>) -> Answering {
        let preamble = match protocol::read(&request) {
            Ok(preamble) => preamble,
            Err(refusal) => return Box::pin(ready(Ok(*refusal))),
        };
        let ConnectionServices { routes, holding, .. } = self;
        if !holding.may_open() {
            return Box::pin(ready(Ok(status::too_many_streams().into_http())));
        }
        let path = request.uri().path();
        if let Some(by) = fast_path::by::<AdmissionHandlers>(path) {
            fast_path::call(&routes.admission, by, request, &preamble, holding)
        } else if let Some(by) = fast_path::by::<RateHandlers>(path) {
            fast_path::call(&routes.rate, by, request, &preamble, holding)
        } else if let Some(by) = fast_path::by::<SequenceHandlers>(path) {
            fast_path::call(&routes.sequence, by, request, &preamble, holding)
        } else if let Some(by) = fast_path::by::<LockHandlers>(path) {
            fast_path::call(&routes.lock, by, request, &preamble, holding)
        } else if let Some(by) = fast_path::by::<StockHandlers>(path) {
            fast_path::call(&routes.stock, by, request, &preamble, holding)
        } else {
            self.other(request)
        }
    }
}
