//! `LockService`: locks with leases and fencing tokens.

mod convert;
mod parse;

use std::sync::Arc;

use tonic::{Request, Response, Status, codec::CompressionEncoding};

use super::{
    deadline, grant, name_listing, page_token,
    pb::{
        self,
        lock_service_server::{LockService, LockServiceServer},
    },
    status::from_error,
};
use tollgate_core::lock::GetLock;
use tollgate_engine::{Engine, Unreceived};

/// The lock service of an engine.
#[derive(Debug)]
pub struct LockHandlers {
    pub(super) engine: Arc<Engine>,
}

type Answer<T> = Result<Response<T>, Status>;

impl LockHandlers {
    /// Maximum message size, bytes: more than all names together.
    pub(super) const MESSAGE_BYTES_MAX: usize = 64 * 1024;

    /// Creates the service.
    pub(super) fn new(engine: Arc<Engine>) -> LockHandlers {
        LockHandlers { engine }
    }

    /// Wraps the service for tonic.
    pub(super) fn server(self: Arc<LockHandlers>) -> LockServiceServer<LockHandlers> {
        LockServiceServer::from_arc(self)
            .max_decoding_message_size(Self::MESSAGE_BYTES_MAX)
            .accept_compressed(CompressionEncoding::Gzip)
    }
}

#[tonic::async_trait]
impl LockService for LockHandlers {
    async fn acquire_lock(
        &self,
        request: Request<pb::AcquireLockRequest>,
    ) -> Answer<pb::AcquireLockResponse> {
        let (asked, scope, request) = deadline::asked(request);
        let (decision, wait) = parse::acquire_lock(request, scope)?;
        let deadline = asked.or_default(wait);
        let answered = self.engine.submit_waiting(&decision, wait, deadline).await;
        let answered = answered.map_err(from_error)?;
        let is_waited = wait.0 > 0;
        let grant =
            is_waited.then(|| Unreceived::new(&self.engine, &decision, &answered)).flatten();
        let acquisition = convert::acquisition(&decision.name, &decision.owner, answered.outcome);
        Ok(grant::attach(acquisition, grant))
    }

    async fn renew_lock(
        &self,
        request: Request<pb::RenewLockRequest>,
    ) -> Answer<pb::RenewLockResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let decision = parse::renew_lock(request, scope)?;
        let renewal = self.engine.submit(&decision, deadline).await.map_err(from_error)?.outcome;
        Ok(Response::new(convert::renewal(&decision, renewal)))
    }

    async fn release_lock(
        &self,
        request: Request<pb::ReleaseLockRequest>,
    ) -> Answer<pb::ReleaseLockResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let decision = parse::release_lock(request, scope)?;
        let release = self.engine.submit(&decision, deadline).await.map_err(from_error)?.outcome;
        Ok(Response::new(convert::release(release)))
    }

    async fn get_lock(&self, request: Request<pb::GetLockRequest>) -> Answer<pb::GetLockResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let decision = parse::get_lock(request, scope)?;
        let view = self.engine.submit(&decision, deadline).await.map_err(from_error)?.outcome;
        Ok(Response::new(convert::view(&decision.name, view)))
    }

    async fn list_locks(
        &self,
        request: Request<pb::ListLocksRequest>,
    ) -> Answer<pb::ListLocksResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let pb::ListLocksRequest { prefix, page_size, page_token } = request;
        let query = name_listing::parse(scope.clone(), prefix, page_size, &page_token)?;
        let read = |partition| Some(GetLock { name: name_listing::permitted(&scope, partition)? });
        let (entries, next) =
            self.engine.list_names(&query, deadline, read).await.map_err(from_error)?;
        let next_page_token = page_token::encode(&query.namespace, next.as_ref());
        Ok(Response::new(convert::lock_page(entries, next_page_token)))
    }
}
