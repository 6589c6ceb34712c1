"""Another client of the server, without proxy and library: it prepares and compares state."""

import itertools
import time

import grpc
from google.protobuf import duration_pb2

from .stubs import messages, services

_pb = messages["admission"]
_markers = itertools.count(1)


def _duration(seconds):
    if seconds is None:
        return None
    value = duration_pb2.Duration()
    value.FromNanoseconds(round(seconds * 1e9))
    return value


def _given(**fields):
    return {name: value for name, value in fields.items() if value is not None}


class Observer:
    """Calls a server directly, and waits until the server is reachable."""

    def __init__(self, address: str, *, channel=None, metadata=()):
        self._channel = channel or grpc.insecure_channel(address, options=[
            ("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 200),
            ("grpc.use_local_subchannel_pool", 1)])
        self._metadata = metadata
        self._stubs = {
            name: getattr(services[name], f"{name.capitalize()}ServiceStub")(self._channel)
            for name in services}

    def _call(self, service: str, rpc: str, request):
        """Calls the server; repeats the call if the server has just been restarted."""
        method = getattr(self._stubs[service], rpc)
        for attempt in range(20):
            try:
                return method(request, timeout=20, wait_for_ready=True, metadata=self._metadata)
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE or attempt == 19:
                    raise
            time.sleep(0.1)

    def admit(self, pool, device, task="", *, lease=None, wait=None):
        """Returns the answer of AdmitTask; `decision` without its prefix is in `outcome`."""
        fields = _given(lease_duration=_duration(lease), max_wait=_duration(wait))
        request = _pb.AdmitTaskRequest(pool=pool, device_id=device, task_id=task, **fields)
        return self._call("admission", "AdmitTask", request)

    def decision(self, pool, device, task="", **options) -> str:
        answer = self.admit(pool, device, task, **options)
        return _pb.AdmitDecision.Name(answer.decision).removeprefix("ADMIT_DECISION_")

    def admit_after_wait(self, pool, device, task="other", lease=60):
        """Takes the next free slot of a pool; returns its token."""
        answer = self.admit(pool, device, task, lease=lease, wait=15)
        assert answer.decision == _pb.ADMIT_DECISION_ADMITTED, answer
        return answer.lease.fencing_token

    def complete(self, pool, device, task, token=None) -> str:
        request = _pb.CompleteTaskRequest(
            pool=pool, device_id=device, task_id=task, **_given(fencing_token=token))
        answer = self._call("admission", "CompleteTask", request)
        return _pb.CompleteVerdict.Name(answer.verdict).removeprefix("COMPLETE_VERDICT_")

    def evict(self, pool, device, task):
        request = _pb.EvictTaskRequest(pool=pool, device_id=device, task_id=task)
        return self._call("admission", "EvictTask", request)

    def enqueue(self, pool, *tasks):
        """Queues tasks, each a pair of device and task, or a triple with the payload."""
        queued = [_pb.QueuedTask(device_id=task[0], task_id=task[1],
                                 payload=task[2].encode() if len(task) > 2 else b"")
                  for task in tasks]
        return self._call("admission", "EnqueueTasks",
                          _pb.EnqueueTasksRequest(pool=pool, tasks=queued))

    def configure(self, pool, *, capacity=None, lease=None, grace=None, paused=None,
                  attempts=None):
        fields = _given(capacity=capacity, lease_duration=_duration(lease),
                        expiry_grace=_duration(grace), paused=paused, max_attempts=attempts)
        return self._call("admission", "ConfigurePool",
                          _pb.ConfigurePoolRequest(pool=pool, **fields)).pool

    def pool(self, pool):
        return self._call("admission", "GetPool", _pb.GetPoolRequest(pool=pool)).pool

    def in_use(self, pool) -> int:
        return self.pool(pool).usage.in_use

    def leases(self, pool) -> dict:
        """Returns the leases of a pool by task."""
        request = _pb.ListLeasesRequest(pool=pool, page_size=1000)
        answer = self._call("admission", "ListLeases", request)
        return {lease.task_id: lease for lease in answer.leases}

    def tasks(self, pool, state="QUEUED") -> list:
        request = _pb.ListTasksRequest(pool=pool, state=f"TASK_STATE_{state}", page_size=1000)
        return list(self._call("admission", "ListTasks", request).tasks)

    def events(self, pool, kind: str | None = None) -> list:
        """Returns the stored events of a pool, or those of one kind, as dictionaries."""
        marker = f"marker-{next(_markers)}"
        self.enqueue(pool, ("observer", marker))
        stream = self._stubs["admission"].WatchPool(
            _pb.WatchPoolRequest(pool=pool, after="0"), timeout=30, metadata=self._metadata)
        found = []
        for answer in stream:
            event = answer.event
            name = _pb.PoolEventKind.Name(event.kind).removeprefix("POOL_EVENT_KIND_")
            if event.task_id == marker:
                break
            if not event.task_id.startswith("marker-") and kind in (None, name):
                outcome = _pb.Outcome.Name(event.outcome).removeprefix("OUTCOME_")
                found.append({"kind": name, "device": event.device_id, "task": event.task_id,
                              "token": event.fencing_token, "outcome": outcome,
                              "cursor": event.cursor, "attempt": event.attempt})
        stream.cancel()
        return found

    def kinds(self, pool, task) -> list:
        """Returns the kinds of the events of a task, without renewals."""
        return [event["kind"] for event in self.events(pool)
                if event["task"] == task and event["kind"] != "RENEWED"]

    def spent(self, key, policy) -> int:
        """Returns what a key has spent of the first limit of a policy."""
        pb = messages["rate"]
        request = pb.CheckRateRequest(key=key, policy=policy, cost=0)
        return self._call("rate", "CheckRate", request).limits[0].count

    def check(self, key, policy):
        pb = messages["rate"]
        return self._call("rate", "CheckRate", pb.CheckRateRequest(key=key, policy=policy))

    def last(self, name) -> int:
        pb = messages["sequence"]
        return self._call("sequence", "GetSequence", pb.GetSequenceRequest(name=name)).last

    def lock(self, name):
        """Returns the answer of GetLock."""
        pb = messages["lock"]
        return self._call("lock", "GetLock", pb.GetLockRequest(name=name))

    def acquire(self, name, owner, *, lease=60, wait=15):
        """Waits for a lock and returns the answer of AcquireLock."""
        pb = messages["lock"]
        request = pb.AcquireLockRequest(name=name, owner=owner, lease_duration=_duration(lease),
                                        max_wait=_duration(wait))
        return self._call("lock", "AcquireLock", request)

    def set_stock(self, sku, on_hand):
        pb = messages["stock"]
        self._call("stock", "SetStock", pb.SetStockRequest(sku=sku, on_hand=on_hand))

    def reserve(self, sku, order, quantity=1):
        pb = messages["stock"]
        request = pb.ReserveStockRequest(sku=sku, order_id=order, quantity=quantity)
        return self._call("stock", "ReserveStock", request)

    def stock(self, sku) -> tuple:
        """Returns available, reserved and sold."""
        pb = messages["stock"]
        stock = self._call("stock", "GetStock", pb.GetStockRequest(sku=sku)).stock
        return stock.available, stock.reserved, stock.sold

    def close(self):
        self._channel.close()
