//! The unary calls of the contract: message, service and method of each.

use tonic::{Request, Response, Status, transport::Channel};

use crate::pb::{
    self, admin_service_client::AdminServiceClient,
    admission_service_client::AdmissionServiceClient, lock_service_client::LockServiceClient,
    rate_service_client::RateServiceClient, sequence_service_client::SequenceServiceClient,
    stock_service_client::StockServiceClient,
};

/// A message of a unary call.
pub trait Call: Clone + Send + Sync + Sized + 'static {
    /// The answer.
    type Answer: Send;

    /// Whether it is safe to repeat the call although the first one was executed.
    fn is_repeatable(&self) -> bool;

    /// Sends the call.
    #[doc(hidden)]
    fn send(
        channel: Channel,
        request: Request<Self>,
    ) -> impl Future<Output = Result<Response<Self::Answer>, Status>> + Send;
}

/// Lists calls as `service client: method(Request) -> Answer, repeatable`.
macro_rules! calls {
    ($($client:ident: $method:ident($request:ident) -> $answer:ident, $repeatable:expr;)*) => {
        $(impl Call for pb::$request {
            type Answer = pb::$answer;

            fn is_repeatable(&self) -> bool {
                let repeatable: fn(&pb::$request) -> bool = $repeatable;
                repeatable(self)
            }

            async fn send(
                channel: Channel,
                request: Request<Self>,
            ) -> Result<Response<Self::Answer>, Status> {
                $client::new(channel).$method(request).await
            }
        })*
    };
}

calls! {
    AdminServiceClient: get_status(GetStatusRequest) -> GetStatusResponse, |_| true;
    AdminServiceClient: accept_store_loss(AcceptStoreLossRequest) -> AcceptStoreLossResponse, |_| true;
    AdminServiceClient: reload_config(ReloadConfigRequest) -> ReloadConfigResponse, |_| true;
    AdmissionServiceClient: admit_task(AdmitTaskRequest) -> AdmitTaskResponse, |_| true;
    AdmissionServiceClient: complete_task(CompleteTaskRequest) -> CompleteTaskResponse, |_| true;
    AdmissionServiceClient: renew_task(RenewTaskRequest) -> RenewTaskResponse, |_| true;
    AdmissionServiceClient: admit_tasks(AdmitTasksRequest) -> AdmitTasksResponse, |_| true;
    AdmissionServiceClient: complete_tasks(CompleteTasksRequest) -> CompleteTasksResponse, |_| true;
    AdmissionServiceClient: renew_tasks(RenewTasksRequest) -> RenewTasksResponse, |_| true;
    AdmissionServiceClient: get_pool(GetPoolRequest) -> GetPoolResponse, |_| true;
    AdmissionServiceClient: list_pools(ListPoolsRequest) -> ListPoolsResponse, |_| true;
    AdmissionServiceClient: list_leases(ListLeasesRequest) -> ListLeasesResponse, |_| true;
    AdmissionServiceClient: configure_pool(ConfigurePoolRequest) -> ConfigurePoolResponse, |_| true;
    AdmissionServiceClient: evict_task(EvictTaskRequest) -> EvictTaskResponse, |_| true;
    AdmissionServiceClient: enqueue_tasks(EnqueueTasksRequest) -> EnqueueTasksResponse, |_| true;
    AdmissionServiceClient: cancel_task(CancelTaskRequest) -> CancelTaskResponse, |_| true;
    AdmissionServiceClient: requeue_task(RequeueTaskRequest) -> RequeueTaskResponse, |_| true;
    AdmissionServiceClient: list_tasks(ListTasksRequest) -> ListTasksResponse, |_| true;
    LockServiceClient: acquire_lock(AcquireLockRequest) -> AcquireLockResponse, |_| true;
    LockServiceClient: renew_lock(RenewLockRequest) -> RenewLockResponse, |_| true;
    LockServiceClient: release_lock(ReleaseLockRequest) -> ReleaseLockResponse, |_| true;
    LockServiceClient: get_lock(GetLockRequest) -> GetLockResponse, |_| true;
    LockServiceClient: list_locks(ListLocksRequest) -> ListLocksResponse, |_| true;
    // Without an id a repeat would count twice.
    RateServiceClient: check_rate(CheckRateRequest) -> CheckRateResponse,
        |it| !it.request_id.is_empty() || it.cost == Some(0);
    RateServiceClient: reset_rate(ResetRateRequest) -> ResetRateResponse, |_| true;
    RateServiceClient: ban(BanRequest) -> BanResponse, |_| true;
    RateServiceClient: unban(UnbanRequest) -> UnbanResponse, |_| true;
    RateServiceClient: get_key(GetKeyRequest) -> GetKeyResponse, |_| true;
    RateServiceClient: list_bans(ListBansRequest) -> ListBansResponse, |_| true;
    RateServiceClient: list_policies(ListPoliciesRequest) -> ListPoliciesResponse, |_| true;
    // Without an id a repeat gets other values, and those of the first call are a gap.
    SequenceServiceClient: next_sequence(NextSequenceRequest) -> NextSequenceResponse,
        |it| !it.request_id.is_empty();
    SequenceServiceClient: get_sequence(GetSequenceRequest) -> GetSequenceResponse, |_| true;
    SequenceServiceClient: set_sequence_floor(SetSequenceFloorRequest)
        -> SetSequenceFloorResponse, |_| true;
    SequenceServiceClient: list_sequences(ListSequencesRequest) -> ListSequencesResponse, |_| true;
    // A repeat would undo what other callers have changed since the first call.
    StockServiceClient: set_stock(SetStockRequest) -> SetStockResponse, |_| false;
    StockServiceClient: add_stock(AddStockRequest) -> AddStockResponse,
        |it| !it.request_id.is_empty();
    StockServiceClient: reserve_stock(ReserveStockRequest) -> ReserveStockResponse, |_| true;
    StockServiceClient: confirm_reservation(ConfirmReservationRequest)
        -> ConfirmReservationResponse, |_| true;
    StockServiceClient: cancel_reservation(CancelReservationRequest) -> CancelReservationResponse,
        |_| true;
    StockServiceClient: get_stock(GetStockRequest) -> GetStockResponse, |_| true;
    StockServiceClient: list_stock(ListStockRequest) -> ListStockResponse, |_| true;
}
