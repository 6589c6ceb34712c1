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
    Admission, Lock, MESSAGE_BYTES_MAX, Rate, Sequence, Stock,
    fast_path::{self, AnswerBody, Answering, Opened, Served},
    held::{Held, Holding},
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
    admission: Arc<Served<Admission, AdmissionServiceServer<Admission>>>,
    lock: Arc<Served<Lock, LockServiceServer<Lock>>>,
    rate: Arc<Served<Rate, RateServiceServer<Rate>>>,
    sequence: Arc<Served<Sequence, SequenceServiceServer<Sequence>>>,
    stock: Arc<Served<Stock, StockServiceServer<Stock>>>,
    others: tonic::service::Routes,
    held: Arc<Held>,
}

/// The services for one connection.
#[derive(Debug, Clone)]
pub struct Connection {
    routes: Routes,
    holding: Arc<Holding>,
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
            admission: Served::new(Admission::new(engine.clone(), pools), Admission::server),
            lock: Served::new(Lock::new(engine.clone()), Lock::server),
            rate: Served::new(Rate::new(engine.clone(), policies), Rate::server),
            sequence: Served::new(Sequence::new(engine.clone(), sequences), Sequence::server),
            stock: Served::new(Stock::new(engine.clone()), Stock::server),
            others: others.prepare(),
            held: Arc::new(Held::new(limits)),
        }
    }

    /// Returns the services for a new connection of a peer. `certificate` has the names in its
    /// verified client certificate, if it has presented one.
    pub fn connection(
        &self,
        peer: PeerConnection,
        certificate: Option<Arc<CertificateNames>>,
    ) -> Connection {
        Connection { holding: self.held.connection(peer), routes: self.clone(), certificate }
    }
}

impl Connection {
    /// Returns the accounting of the connection: its bytes and streams.
    pub fn holding(&self) -> Arc<Holding> {
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

impl hyper::service::Service<Request<Incoming>> for Connection {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Answering;

    /// Always ready: there is no `poll_ready`.
    fn call(&self, request: Request<Incoming>) -> Answering {
        let preamble = match protocol::read(&request) {
            Ok(preamble) => preamble,
            Err(refusal) => return Box::pin(ready(Ok(*refusal))),
        };
        let Connection { routes, holding, .. } = self;
        if !holding.may_open() {
            return Box::pin(ready(Ok(status::too_many_streams().into_http())));
        }
        let path = request.uri().path();
        if let Some(by) = fast_path::by::<Admission>(path) {
            fast_path::call(&routes.admission, by, request, &preamble, holding)
        } else if let Some(by) = fast_path::by::<Rate>(path) {
            fast_path::call(&routes.rate, by, request, &preamble, holding)
        } else if let Some(by) = fast_path::by::<Sequence>(path) {
            fast_path::call(&routes.sequence, by, request, &preamble, holding)
        } else if let Some(by) = fast_path::by::<Lock>(path) {
            fast_path::call(&routes.lock, by, request, &preamble, holding)
        } else if let Some(by) = fast_path::by::<Stock>(path) {
            fast_path::call(&routes.stock, by, request, &preamble, holding)
        } else {
            self.other(request)
        }
    }
}
