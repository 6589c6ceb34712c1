"""The methods of the protocol that the library calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from tollgate.v1 import admission_pb2 as admission
from tollgate.v1 import lock_pb2 as lock
from tollgate.v1 import rate_pb2 as rate
from tollgate.v1 import sequence_pb2 as sequence
from tollgate.v1 import stock_pb2 as stock

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


@dataclass(frozen=True, slots=True, eq=False)
class Method(Generic[Request, Response]):
    """A method with the types of its messages."""

    path: str
    request: type[Request]
    response: type[Response]

    @property
    def serialize(self) -> Callable[[Any], bytes]:
        """The encoder of requests."""
        return self.request.SerializeToString

    @property
    def parse(self) -> Callable[[bytes], Any]:
        """The decoder of answers."""
        return self.response.FromString


_ADMISSION = "/tollgate.v1.AdmissionService/"
_LOCK = "/tollgate.v1.LockService/"
_RATE = "/tollgate.v1.RateService/"
_SEQUENCE = "/tollgate.v1.SequenceService/"
_STOCK = "/tollgate.v1.StockService/"

ADMIT_TASK = Method(
    _ADMISSION + "AdmitTask", admission.AdmitTaskRequest, admission.AdmitTaskResponse
)
COMPLETE_TASK = Method(
    _ADMISSION + "CompleteTask", admission.CompleteTaskRequest, admission.CompleteTaskResponse
)
RENEW_TASK = Method(
    _ADMISSION + "RenewTask", admission.RenewTaskRequest, admission.RenewTaskResponse
)
ADMIT_TASKS = Method(
    _ADMISSION + "AdmitTasks", admission.AdmitTasksRequest, admission.AdmitTasksResponse
)
COMPLETE_TASKS = Method(
    _ADMISSION + "CompleteTasks", admission.CompleteTasksRequest, admission.CompleteTasksResponse
)
RENEW_TASKS = Method(
    _ADMISSION + "RenewTasks", admission.RenewTasksRequest, admission.RenewTasksResponse
)
GET_POOL = Method(_ADMISSION + "GetPool", admission.GetPoolRequest, admission.GetPoolResponse)
LIST_POOLS = Method(
    _ADMISSION + "ListPools", admission.ListPoolsRequest, admission.ListPoolsResponse
)
LIST_LEASES = Method(
    _ADMISSION + "ListLeases", admission.ListLeasesRequest, admission.ListLeasesResponse
)
CONFIGURE_POOL = Method(
    _ADMISSION + "ConfigurePool", admission.ConfigurePoolRequest, admission.ConfigurePoolResponse
)
EVICT_TASK = Method(
    _ADMISSION + "EvictTask", admission.EvictTaskRequest, admission.EvictTaskResponse
)
ENQUEUE_TASKS = Method(
    _ADMISSION + "EnqueueTasks", admission.EnqueueTasksRequest, admission.EnqueueTasksResponse
)
CANCEL_TASK = Method(
    _ADMISSION + "CancelTask", admission.CancelTaskRequest, admission.CancelTaskResponse
)
REQUEUE_TASK = Method(
    _ADMISSION + "RequeueTask", admission.RequeueTaskRequest, admission.RequeueTaskResponse
)
LIST_TASKS = Method(
    _ADMISSION + "ListTasks", admission.ListTasksRequest, admission.ListTasksResponse
)
WATCH_POOL = Method(
    _ADMISSION + "WatchPool", admission.WatchPoolRequest, admission.WatchPoolResponse
)
ACQUIRE_LOCK = Method(_LOCK + "AcquireLock", lock.AcquireLockRequest, lock.AcquireLockResponse)
RENEW_LOCK = Method(_LOCK + "RenewLock", lock.RenewLockRequest, lock.RenewLockResponse)
RELEASE_LOCK = Method(_LOCK + "ReleaseLock", lock.ReleaseLockRequest, lock.ReleaseLockResponse)
GET_LOCK = Method(_LOCK + "GetLock", lock.GetLockRequest, lock.GetLockResponse)
CHECK_RATE = Method(_RATE + "CheckRate", rate.CheckRateRequest, rate.CheckRateResponse)
CHECK_RATES = Method(_RATE + "CheckRates", rate.CheckRatesRequest, rate.CheckRatesResponse)
RESET_RATE = Method(_RATE + "ResetRate", rate.ResetRateRequest, rate.ResetRateResponse)
BAN = Method(_RATE + "Ban", rate.BanRequest, rate.BanResponse)
UNBAN = Method(_RATE + "Unban", rate.UnbanRequest, rate.UnbanResponse)
GET_KEY = Method(_RATE + "GetKey", rate.GetKeyRequest, rate.GetKeyResponse)
LIST_BANS = Method(_RATE + "ListBans", rate.ListBansRequest, rate.ListBansResponse)
LIST_POLICIES = Method(_RATE + "ListPolicies", rate.ListPoliciesRequest, rate.ListPoliciesResponse)
WATCH_RATES = Method(_RATE + "WatchRates", rate.WatchRatesRequest, rate.WatchRatesResponse)
NEXT_SEQUENCE = Method(
    _SEQUENCE + "NextSequence", sequence.NextSequenceRequest, sequence.NextSequenceResponse
)
GET_SEQUENCE = Method(
    _SEQUENCE + "GetSequence", sequence.GetSequenceRequest, sequence.GetSequenceResponse
)
SET_SEQUENCE_FLOOR = Method(
    _SEQUENCE + "SetSequenceFloor",
    sequence.SetSequenceFloorRequest,
    sequence.SetSequenceFloorResponse,
)
SET_STOCK = Method(_STOCK + "SetStock", stock.SetStockRequest, stock.SetStockResponse)
ADD_STOCK = Method(_STOCK + "AddStock", stock.AddStockRequest, stock.AddStockResponse)
RESERVE_STOCK = Method(
    _STOCK + "ReserveStock", stock.ReserveStockRequest, stock.ReserveStockResponse
)
CONFIRM_RESERVATION = Method(
    _STOCK + "ConfirmReservation",
    stock.ConfirmReservationRequest,
    stock.ConfirmReservationResponse,
)
CANCEL_RESERVATION = Method(
    _STOCK + "CancelReservation", stock.CancelReservationRequest, stock.CancelReservationResponse
)
GET_STOCK = Method(_STOCK + "GetStock", stock.GetStockRequest, stock.GetStockResponse)
