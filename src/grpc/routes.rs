//! Which service answers a call, by the name in its path.
//!
//! Tollgate's own services are called straight from the HTTP/2 connection. On tonic's way,
//! which health and reflection go, a call passes a router of URLs and seven layers more,
//! and its body is boxed three times: about a tenth of what the call costs. A call's deadline
//! is kept by its handler, from the whole message on.

use std::{convert::Infallible, future::Future, pin::Pin, sync::Arc};

use hyper::{Request, Response, body::Incoming};
use tonic::{body::Body, codegen::Service as _};

use super::{
    Admission, Lock, Rate, Sequence, Stock,
    pb::{
        admission_service_server::AdmissionServiceServer, lock_service_server::LockServiceServer,
        rate_service_server::RateServiceServer, sequence_service_server::SequenceServiceServer,
        stock_service_server::StockServiceServer,
    },
};
use crate::{admission::Catalog, engine::Engine, rate::Policies, sequence::Sequences};

/// All services of a server.
#[derive(Debug, Clone)]
pub struct Routes {
    admission: AdmissionServiceServer<Admission>,
    lock: LockServiceServer<Lock>,
    rate: RateServiceServer<Rate>,
    sequence: SequenceServiceServer<Sequence>,
    stock: StockServiceServer<Stock>,
    others: tonic::service::Routes,
}

impl Routes {
    /// The services over an engine, and others beside them.
    pub fn new(
        engine: &Arc<Engine>,
        pools: Arc<Catalog>,
        policies: Arc<Policies>,
        sequences: Arc<Sequences>,
        others: tonic::service::Routes,
    ) -> Routes {
        Routes {
            admission: Admission::service(engine.clone(), pools),
            lock: Lock::service(engine.clone()),
            rate: Rate::service(engine.clone(), policies),
            sequence: Sequence::service(engine.clone(), sequences),
            stock: Stock::service(engine.clone()),
            others: others.prepare(),
        }
    }
}

impl hyper::service::Service<Request<Incoming>> for Routes {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    /// What is called here is always ready.
    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let mut path = request.uri().path().splitn(3, '/').skip(1);
        match path.next().unwrap_or_default() {
            Admission::NAME => self.admission.clone().call(request),
            Lock::NAME => self.lock.clone().call(request),
            Rate::NAME => self.rate.clone().call(request),
            Sequence::NAME => self.sequence.clone().call(request),
            Stock::NAME => self.stock.clone().call(request),
            _ => Box::pin(self.others.clone().call(request.map(Body::new))),
        }
    }
}
