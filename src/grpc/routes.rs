//! Which service answers a call, by the name in its path.
//!
//! Tollgate's own services are called straight from the HTTP/2 connection. On tonic's way,
//! which health and reflection go, a call passes a router of URLs and seven layers more,
//! and its body is boxed three times: about a tenth of what the call costs. A call's deadline
//! is kept by its handler, and by the body until its message is there.

use std::{convert::Infallible, sync::Arc};

use hyper::{Request, Response, body::Incoming};
use tonic::{body::Body, codegen::Service as _};

use super::{
    Admission, Lock, Rate, Sequence, Stock,
    pb::{
        admission_service_server::AdmissionServiceServer, lock_service_server::LockServiceServer,
        rate_service_server::RateServiceServer, sequence_service_server::SequenceServiceServer,
        stock_service_server::StockServiceServer,
    },
    unary::{self, AnswerBody, Answering, Served},
};
use crate::{admission::Catalog, engine::Engine, rate::Policies, sequence::Sequences};

/// All services of a server.
#[derive(Debug, Clone)]
pub struct Routes {
    admission: Arc<Served<Admission, AdmissionServiceServer<Admission>>>,
    lock: Arc<Served<Lock, LockServiceServer<Lock>>>,
    rate: Arc<Served<Rate, RateServiceServer<Rate>>>,
    sequence: Arc<Served<Sequence, SequenceServiceServer<Sequence>>>,
    stock: Arc<Served<Stock, StockServiceServer<Stock>>>,
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
            admission: Served::new(Admission::new(engine.clone(), pools), Admission::server),
            lock: Served::new(Lock::new(engine.clone()), Lock::server),
            rate: Served::new(Rate::new(engine.clone(), policies), Rate::server),
            sequence: Served::new(Sequence::new(engine.clone(), sequences), Sequence::server),
            stock: Served::new(Stock::new(engine.clone()), Stock::server),
            others: others.prepare(),
        }
    }
}

impl hyper::service::Service<Request<Incoming>> for Routes {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Answering;

    /// What is called here is always ready.
    fn call(&self, request: Request<Incoming>) -> Answering {
        let path = request.uri().path();
        if let Some(by) = unary::by::<Admission>(path) {
            unary::call(&self.admission, by, request)
        } else if let Some(by) = unary::by::<Rate>(path) {
            unary::call(&self.rate, by, request)
        } else if let Some(by) = unary::by::<Sequence>(path) {
            unary::call(&self.sequence, by, request)
        } else if let Some(by) = unary::by::<Lock>(path) {
            unary::call(&self.lock, by, request)
        } else if let Some(by) = unary::by::<Stock>(path) {
            unary::call(&self.stock, by, request)
        } else {
            let answer = self.others.clone().call(request.map(Body::new));
            Box::pin(async move { Ok(answer.await?.map(AnswerBody::Other)) })
        }
    }
}
