//! `AdmissionService`: pools, leases and queued tasks.
//!
//! In addition to the four steps of a handler, AdmitTask counts the FULL answers of this server per
//! pool (`refusals`), which GetPool returns. The handlers have no other state.

mod bulk;
mod convert;
mod encoded;
mod parse;
mod refusals;
mod watch;

use std::sync::Arc;

use tonic::{Request, Response, Status, codec::CompressionEncoding};

pub(crate) use encoded::EncodedResults;
use refusals::Refusals;

use super::{
    deadline, events, grant, page_token,
    pb::{
        self,
        admission_service_server::{AdmissionService, AdmissionServiceServer},
    },
    rules::CurrentRules,
    status::{self, from_error},
};
use tollgate_core::{
    Decision,
    admission::{
        Admission, AdmitDecision, AdmitTask, CompleteTask, CompleteVerdict, Completion, EvictTask,
        EvictVerdict, GetPool, PoolView, RenewTask, RenewVerdict, Settings, TaskName,
    },
    names::Name,
};
use tollgate_engine::{Answered, Engine, Unreceived};

/// The admission service of an engine.
#[derive(Debug)]
pub struct AdmissionHandlers {
    pub(super) engine: Arc<Engine>,
    /// The configured rules, for the settings of pools.
    rules: Arc<CurrentRules>,
    /// The FULL answers of this server, for GetPool.
    refusals: Refusals,
}

type Answer<T> = Result<Response<T>, Status>;

impl AdmissionHandlers {
    /// Maximum message size, bytes: a batch of 1,000 tasks with payloads of 4 KiB.
    pub(super) const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

    /// Creates the service.
    pub(super) fn new(engine: Arc<Engine>, rules: Arc<CurrentRules>) -> AdmissionHandlers {
        AdmissionHandlers { engine, rules, refusals: Refusals::default() }
    }

    /// Wraps the service for tonic.
    pub(super) fn server(
        self: Arc<AdmissionHandlers>,
    ) -> AdmissionServiceServer<AdmissionHandlers> {
        AdmissionServiceServer::from_arc(self)
            .max_decoding_message_size(Self::MESSAGE_BYTES_MAX)
            .accept_compressed(CompressionEncoding::Gzip)
    }

    /// Returns the number of AdmitTask calls for a pool that this server has answered FULL.
    pub(super) fn refused(&self, pool: &Name) -> u64 {
        self.refusals.lookup(pool).all
    }

    /// Converts a pool, with the number of calls that this server has answered FULL.
    fn pool(&self, pool: &Name, settings: &Settings, view: &PoolView) -> pb::Pool {
        convert::pool(pool, settings, view, self.refusals.lookup(pool))
    }

    /// Counts a FULL answer, and logs a refusal.
    fn record_admission(&self, decision: &AdmitTask, answered: &Answered<Admission>) {
        if let AdmitDecision::Full { .. } = answered.outcome.decision {
            self.refusals.add(&decision.pool, answered.is_cached());
        }
        if !answered.outcome.is_granted() {
            tracing::debug!(
                namespace = decision.pool.namespace(),
                pool = decision.pool.as_str(),
                device = decision.device.as_str(),
                task = decision.task.as_ref().map(Name::as_str),
                outcome = AdmitTask::PROPERTIES.outcomes.label(&answered.outcome),
                cached = answered.is_cached(),
                "refused"
            );
        }
    }

    /// Builds the decision that reads a pool with its configured settings.
    fn get(&self, pool: Name) -> GetPool {
        GetPool { settings: self.rules.load().pools.settings(&pool), pool }
    }
}

/// Logs a refusal that concerns a task.
fn log_refusal(TaskName { pool, device, task }: &TaskName, outcome: &str) {
    let (pool, device, task, namespace) =
        (pool.as_str(), device.as_str(), task.as_str(), pool.namespace());
    tracing::debug!(namespace, pool, device, task, outcome, "refused");
}

/// Logs a result that frees no slot.
fn log_completion(decision: &CompleteTask, completion: &Answered<Completion>) {
    if completion.outcome.verdict != CompleteVerdict::Completed {
        log_refusal(&decision.name, CompleteTask::PROPERTIES.outcomes.label(&completion.outcome));
    }
}

/// Logs a refused renewal.
fn log_renewal(decision: &RenewTask, renewal: &Answered<RenewVerdict>) {
    if !matches!(renewal.outcome, RenewVerdict::Renewed(_)) {
        log_refusal(&decision.name, RenewTask::PROPERTIES.outcomes.label(&renewal.outcome));
    }
}

#[tonic::async_trait]
impl AdmissionService for AdmissionHandlers {
    async fn admit_task(
        &self,
        request: Request<pb::AdmitTaskRequest>,
    ) -> Answer<pb::AdmitTaskResponse> {
        let (asked, scope, request) = deadline::asked(request);
        let (decision, wait) = parse::admit_task(request, scope, &self.rules.load().pools)?;
        let deadline = asked.or_default(wait);
        let answered = self.engine.submit_waiting(&decision, wait, deadline).await;
        let answered = answered.map_err(from_error)?;
        self.record_admission(&decision, &answered);
        let is_waited = wait.0 > 0;
        let grant =
            is_waited.then(|| Unreceived::new(&self.engine, &decision, &answered)).flatten();
        Ok(grant::attach(convert::admission(decision, &answered), grant))
    }

    async fn complete_task(
        &self,
        request: Request<pb::CompleteTaskRequest>,
    ) -> Answer<pb::CompleteTaskResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let decision = parse::complete_task(request, scope, &self.rules.load().pools)?;
        let completion = self.engine.submit(&decision, deadline).await.map_err(from_error)?;
        log_completion(&decision, &completion);
        Ok(Response::new(convert::completion(&completion)))
    }

    async fn renew_task(
        &self,
        request: Request<pb::RenewTaskRequest>,
    ) -> Answer<pb::RenewTaskResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let decision = parse::renew_task(request, scope, &self.rules.load().pools)?;
        let renewal = self.engine.submit(&decision, deadline).await.map_err(from_error)?;
        log_renewal(&decision, &renewal);
        Ok(Response::new(convert::renewal(decision, &renewal)))
    }

    async fn admit_tasks(&self, request: Request<pb::AdmitTasksRequest>) -> Answer<EncodedResults> {
        bulk::admit_tasks(self, request).await
    }

    async fn complete_tasks(
        &self,
        request: Request<pb::CompleteTasksRequest>,
    ) -> Answer<EncodedResults> {
        bulk::complete_tasks(self, request).await
    }

    async fn renew_tasks(&self, request: Request<pb::RenewTasksRequest>) -> Answer<EncodedResults> {
        bulk::renew_tasks(self, request).await
    }

    async fn evict_task(
        &self,
        request: Request<pb::EvictTaskRequest>,
    ) -> Answer<pb::EvictTaskResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let decision = parse::evict_task(request, scope, &self.rules.load().pools)?;
        let verdict = self.engine.submit(&decision, deadline).await.map_err(from_error)?.outcome;
        if !matches!(verdict, EvictVerdict::Evicted { .. }) {
            log_refusal(&decision.name, EvictTask::PROPERTIES.outcomes.label(&verdict));
        }
        Ok(Response::new(convert::eviction(verdict)))
    }

    async fn get_pool(&self, request: Request<pb::GetPoolRequest>) -> Answer<pb::GetPoolResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let get = self.get(parse::get_pool(request, scope)?);
        let view = self.engine.submit(&get, deadline).await.map_err(from_error)?.outcome;
        let pool = self.pool(&get.pool, &get.settings, &view);
        Ok(Response::new(pb::GetPoolResponse { pool: Some(pool) }))
    }

    async fn list_pools(
        &self,
        request: Request<pb::ListPoolsRequest>,
    ) -> Answer<pb::ListPoolsResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let (limit, after) = parse::list_pools(&request, scope.clone())?;
        let namespace = scope.namespace();
        let read = |pool| scope.permits(&pool).then(|| self.get(pool));
        let (entries, next) =
            self.engine.list(namespace, limit, after, deadline, read).await.map_err(from_error)?;
        let pools = entries.into_iter().filter_map(|(get, view)| match view {
            Some(view) if view.is_vacant() => None,
            Some(view) => Some(self.pool(&get.pool, &get.settings, &view)),
            // Listed by name only.
            None => Some(convert::unreadable_pool(&get.pool)),
        });
        let pools = pools.collect();
        let next_page_token = page_token::encode(namespace, next.as_ref());
        Ok(Response::new(pb::ListPoolsResponse { pools, next_page_token }))
    }

    async fn list_leases(
        &self,
        request: Request<pb::ListLeasesRequest>,
    ) -> Answer<pb::ListLeasesResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let decision = parse::list_leases(request, scope.clone())?;
        let page = self.engine.submit(&decision, deadline).await.map_err(from_error)?.outcome;
        Ok(Response::new(convert::lease_page(&decision.pool, scope.namespace(), page)))
    }

    async fn enqueue_tasks(
        &self,
        request: Request<pb::EnqueueTasksRequest>,
    ) -> Answer<pb::EnqueueTasksResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let decisions = parse::enqueue_tasks(request, scope, &self.rules.load().pools)?;
        let statuses = self.engine.submit_all(&decisions, deadline).await.map_err(from_error)?;
        if let Some(error) = status::none_known(&statuses) {
            return Err(from_error(error));
        }
        // A task that failed must not hide the results of the others.
        let results = statuses.iter().zip(&decisions);
        let results = results
            .map(|(status, decision)| convert::enqueued(decision.name.task.to_bytes(), status));
        Ok(Response::new(pb::EnqueueTasksResponse { results: results.collect() }))
    }

    async fn cancel_task(
        &self,
        request: Request<pb::CancelTaskRequest>,
    ) -> Answer<pb::CancelTaskResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let decision = parse::cancel_task(request, scope, &self.rules.load().pools)?;
        let cancellation =
            self.engine.submit(&decision, deadline).await.map_err(from_error)?.outcome;
        Ok(Response::new(convert::cancellation(cancellation)))
    }

    async fn requeue_task(
        &self,
        request: Request<pb::RequeueTaskRequest>,
    ) -> Answer<pb::RequeueTaskResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let decision = parse::requeue_task(request, scope, &self.rules.load().pools)?;
        let verdict = self.engine.submit(&decision, deadline).await.map_err(from_error)?.outcome;
        Ok(Response::new(convert::requeued(verdict)))
    }

    async fn list_tasks(
        &self,
        request: Request<pb::ListTasksRequest>,
    ) -> Answer<pb::ListTasksResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let (decision, wanted) = parse::list_tasks(request, scope.clone())?;
        let page = self.engine.submit(&decision, deadline).await.map_err(from_error)?.outcome;
        Ok(Response::new(convert::task_page(&page, scope.namespace(), wanted)))
    }

    type WatchPoolStream = events::Events<pb::WatchPoolResponse>;

    async fn watch_pool(
        &self,
        request: Request<pb::WatchPoolRequest>,
    ) -> Answer<Self::WatchPoolStream> {
        let right = request.extensions().get().cloned();
        let (deadline, scope, request) = deadline::of(request);
        let (pool, start) = watch::parse(request, scope)?;
        let watcher = self.engine.watch(pool, start, deadline).await.map_err(from_error)?;
        Ok(Response::new(events::stream(watcher, right)))
    }

    async fn configure_pool(
        &self,
        request: Request<pb::ConfigurePoolRequest>,
    ) -> Answer<pb::ConfigurePoolResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let decision = parse::configure_pool(request, scope, &self.rules.load().pools)?;
        let view = self.engine.submit(&decision, deadline).await.map_err(from_error)?.outcome;
        let pool = self.pool(&decision.pool, &decision.settings, &view);
        Ok(Response::new(pb::ConfigurePoolResponse { pool: Some(pool) }))
    }
}
