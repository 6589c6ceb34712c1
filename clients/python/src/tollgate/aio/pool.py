"""A pool: admission of tasks, queued tasks, and settings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import timedelta

from tollgate import _methods as methods
from tollgate._build import build
from tollgate._time import Span, to_duration, to_seconds, to_timestamp
from tollgate.aio._caller import Caller
from tollgate.aio._claims import Grant
from tollgate.aio._keeper import Keeper
from tollgate.aio._wait import wait_in_slices
from tollgate.aio.permit import Permit
from tollgate.aio.watch import PoolWatch
from tollgate.answers import (
    AlreadyCompleted,
    Full,
    Lease,
    NoTask,
    Paused,
    PoolStatus,
    QueuedTask,
    Refusal,
    Task,
    Usage,
)
from tollgate.enums import (
    CancelVerdict,
    CompleteVerdict,
    EnqueueStatus,
    EvictVerdict,
    Outcome,
    RenewVerdict,
    RequeueVerdict,
    TaskState,
)
from tollgate.errors import ArgumentError, unknown_answer
from tollgate.v1 import admission_pb2 as pb

_REFUSALS: dict[int, type[Refusal]] = {
    pb.ADMIT_DECISION_FULL: Full,
    pb.ADMIT_DECISION_NO_TASK: NoTask,
    pb.ADMIT_DECISION_PAUSED: Paused,
    pb.ADMIT_DECISION_ALREADY_COMPLETED: AlreadyCompleted,
}

_Answered = tuple[float, pb.AdmitTaskResponse]
"""The clock before a request was sent, and its answer."""

_SHORTEST = 0.1
"""The minimum lease that a server grants, in seconds."""

_STALE = 0.05
"""Share of a lease after which a waiting call asks again how much is left."""


async def _nothing() -> _Answered | None:
    return None


def _grant(answer: _Answered | None) -> Grant | None:
    """Returns the lease in the last answer of a failed call."""
    if answer is None or answer[1].decision != pb.ADMIT_DECISION_ADMITTED:
        return None
    lease = answer[1].lease
    left = lease.expires_in.ToTimedelta().total_seconds()
    return Grant(lease.fencing_token, answer[1].replayed, lease.task_id, left)


def refusal(answer: pb.AdmitTaskResponse) -> Refusal:
    """Reads an answer other than ADMITTED. Raises Error for an unknown one."""
    kind = _REFUSALS.get(answer.decision)
    if kind is None:
        raise unknown_answer("AdmitDecision", answer.decision)
    after = answer.retry_after.ToTimedelta() if answer.HasField("retry_after") else None
    return kind(after, Usage.of(answer.usage), answer.degraded)


class Pool:
    """One external system. A pool needs no creation. Create it with `Connection.pool`."""

    def __init__(self, name: str, caller: Caller, keeper: Keeper) -> None:
        self.name = name
        """The name of the pool."""
        self._caller = caller
        self._keeper = keeper

    async def admit(
        self,
        device: str,
        task: str,
        *,
        wait: Span = 0,
        lease: Span | None = None,
        keep: bool = True,
    ) -> Permit | Refusal:
        """Asks for a slot for a task of a device.

        `wait` is the time to wait for a slot, default 0. A wait above 10 s uses several calls,
        which keep its ticket. `lease` is the length of the lease, 100 ms to 24 h; default: the
        pool's. With `keep=False` no keeper renews the lease. Returns a permit, or Full,
        Paused or AlreadyCompleted. Raises Error if no decision is known, and for an empty task:
        `poll` takes a queued one.
        """
        if not task:
            expected = "expected 1 to 256 bytes; poll takes a queued task"
            raise ArgumentError("task_id", expected=expected)
        return await self._admit(device, task, wait, lease, keep)

    async def poll(
        self, device: str, *, wait: Span = 0, lease: Span | None = None, keep: bool = True
    ) -> Permit | Refusal:
        """Asks for a slot for the oldest queued task of a device.

        `Permit.dispatched` is that task. Returns NoTask if none is queued. Otherwise as `admit`.
        """
        return await self._admit(device, "", wait, lease, keep)

    async def _admit(
        self, device: str, task: str, wait: Span, lease: Span | None, keep: bool
    ) -> Permit | Refusal:
        claim = await self._caller.claims.enter("task", self.name, device, task)
        ended: Callable[[], Awaitable[_Answered | None]] = _nothing

        def on_failure(end: Callable[[], Awaitable[_Answered | None]]) -> None:
            nonlocal ended
            ended = end

        async def granted() -> Grant | None:
            return _grant(await ended())

        async def give_up(grant: Grant) -> None:
            await self._shorten(device, grant)

        try:
            before, answer = await self._ask(device, task, wait, lease, on_failure)
            admission: Permit | Refusal
            if answer.decision == pb.ADMIT_DECISION_ADMITTED:
                duration = None if lease is None else to_seconds(lease, "lease_duration")
                admission = Permit(
                    self._caller,
                    self._keeper,
                    answer,
                    before,
                    duration=duration,
                    keep=keep,
                    asked=task,
                )
            else:
                admission = refusal(answer)
        except BaseException:
            claim.withdraw(granted, give_up)
            raise
        claim.answered(admission.token if isinstance(admission, Permit) else None)
        return admission

    async def _shorten(self, device: str, grant: Grant) -> None:
        """Ends a lease that no caller has received.

        It is renewed for the minimum time, and its end is awaited, so that the task has no
        result, and a later call gets a new lease.
        """
        request = build(
            pb.RenewTaskRequest,
            pool=self.name,
            device_id=device,
            task_id=grant.task,
            fencing_token=grant.token,
            lease_duration=to_duration(_SHORTEST, "lease_duration"),
        )
        caller = self._caller
        await caller.once(methods.RENEW_TASK, request, caller.transport.pick())
        await asyncio.sleep(_SHORTEST)

    async def _ask(
        self,
        device: str,
        task: str,
        wait: Span,
        lease: Span | None,
        on_failure: Callable[[Callable[[], Awaitable[_Answered | None]]], None],
    ) -> _Answered:
        """Makes the calls. `on_failure` gets the end of a wait that fails, and of its grant."""
        seconds = to_seconds(wait, "max_wait")
        now = self._keeper.clock.now

        async def ask(wait: float) -> _Answered:
            request = build(
                pb.AdmitTaskRequest,
                pool=self.name,
                device_id=device,
                task_id=task,
                lease_duration=to_duration(lease, "lease_duration"),
                max_wait=to_duration(wait, "max_wait") if wait > 0 else None,
            )
            return await self._caller.timed(methods.ADMIT_TASK, request, wait=wait)

        def is_final(answer: _Answered) -> bool:
            return answer[1].decision != pb.ADMIT_DECISION_FULL

        if seconds <= 0:
            return await ask(0)
        first = await wait_in_slices(ask, is_final, seconds, now, on_failure)

        async def known() -> _Answered:
            return first

        on_failure(known)
        answer, before = await self._refresh(first[1], first[0], lease)
        return before, answer

    async def _refresh(
        self, answer: pb.AdmitTaskResponse, before: float, lease: Span | None
    ) -> tuple[pb.AdmitTaskResponse, float]:
        """Repeats a call that waited long: only the replay says how much of the lease is left."""
        left = answer.lease.expires_in.ToTimedelta().total_seconds()
        now = self._keeper.clock.now()
        admitted = answer.decision == pb.ADMIT_DECISION_ADMITTED
        if not admitted or now - before <= left * _STALE:
            return answer, before
        request = build(
            pb.AdmitTaskRequest,
            pool=self.name,
            device_id=answer.lease.device_id,
            task_id=answer.lease.task_id,
            lease_duration=to_duration(lease, "lease_duration"),
        )
        repeat = await self._caller.until_known(methods.ADMIT_TASK, request, now + left)
        if repeat.decision == pb.ADMIT_DECISION_ADMITTED:
            if repeat.lease.fencing_token == answer.lease.fencing_token:
                repeat.replayed = answer.replayed
            if answer.HasField("task") and not repeat.HasField("task"):
                repeat.task.CopyFrom(answer.task)
        return repeat, now

    async def complete(
        self,
        device: str,
        task: str,
        *,
        token: int | None = None,
        outcome: Outcome = Outcome.SUCCEEDED,
        result: bytes = b"",
    ) -> CompleteVerdict:
        """Reports the result of a task without its permit, for example in another process.

        Without a token the result counts for any lease of the task.
        """
        request = build(
            pb.CompleteTaskRequest,
            pool=self.name,
            device_id=device,
            task_id=task,
            fencing_token=token,
            outcome=f"OUTCOME_{outcome.name}",
            result=result,
        )
        answer = await self._caller.call(methods.COMPLETE_TASK, request)
        return CompleteVerdict.of(answer.verdict)

    async def renew(
        self, device: str, task: str, *, token: int | None = None, lease: Span | None = None
    ) -> tuple[RenewVerdict, timedelta]:
        """Extends a lease without its permit. Returns the verdict and the time left.

        The time left counts from before the call, and is 0 unless the verdict is RENEWED.
        """
        request = build(
            pb.RenewTaskRequest,
            pool=self.name,
            device_id=device,
            task_id=task,
            fencing_token=token,
            lease_duration=to_duration(lease, "lease_duration"),
        )
        before, answer = await self._caller.timed(methods.RENEW_TASK, request)
        passed = timedelta(seconds=self._keeper.clock.now() - before)
        left = max(answer.lease.expires_in.ToTimedelta() - passed, timedelta())
        return RenewVerdict.of(answer.verdict), left

    async def enqueue(self, tasks: Iterable[QueuedTask]) -> list[EnqueueStatus]:
        """Queues tasks for devices in their order. Returns a status for each.

        Sends at most 1,000 tasks in a call.
        """
        queued = [
            build(
                pb.QueuedTask,
                device_id=task.device,
                task_id=task.task,
                payload=task.payload,
                expire_time=to_timestamp(task.expire_time),
            )
            for task in tasks
        ]
        statuses: list[EnqueueStatus] = []
        while queued:
            part = take(queued)
            request = build(pb.EnqueueTasksRequest, pool=self.name, tasks=part)
            answer = await self._caller.call(methods.ENQUEUE_TASKS, request)
            statuses.extend(EnqueueStatus.of(result.status) for result in answer.results)
            del queued[: len(part)]
        return statuses

    async def evict(
        self, device: str, task: str, *, reason: str = ""
    ) -> tuple[EvictVerdict, bool]:
        """Frees the slot of a task whose device does not return.

        Returns the verdict, and whether an earlier call had evicted it.
        """
        request = build(
            pb.EvictTaskRequest, pool=self.name, device_id=device, task_id=task, reason=reason
        )
        answer = await self._caller.call(methods.EVICT_TASK, request)
        return EvictVerdict.of(answer.verdict), answer.replayed

    async def cancel(self, device: str, task: str) -> tuple[CancelVerdict, bool]:
        """Removes a task from the queue of its device.

        Returns the verdict, and whether an earlier call had cancelled it.
        """
        request = build(pb.CancelTaskRequest, pool=self.name, device_id=device, task_id=task)
        answer = await self._caller.call(methods.CANCEL_TASK, request)
        return CancelVerdict.of(answer.verdict), answer.replayed

    async def requeue(self, device: str, task: str) -> RequeueVerdict:
        """Queues a dead task again, at the end of the queue of its device.

        Its attempts start again.
        """
        request = build(pb.RequeueTaskRequest, pool=self.name, device_id=device, task_id=task)
        answer = await self._caller.call(methods.REQUEUE_TASK, request)
        return RequeueVerdict.of(answer.verdict)

    async def status(self) -> PoolStatus:
        """Returns settings and usage."""
        answer = await self._caller.call(
            methods.GET_POOL, build(pb.GetPoolRequest, pool=self.name)
        )
        return PoolStatus.of(answer.pool)

    async def configure(
        self,
        *,
        capacity: int | None = None,
        lease: Span | None = None,
        grace: Span | None = None,
        paused: bool | None = None,
        max_attempts: int | None = None,
        reset: bool | None = None,
    ) -> PoolStatus:
        """Changes the given settings at run time and keeps the others.

        `capacity` is 0 to 1,000,000 slots, `lease` 100 ms to 24 h, `grace` 0 to 30 days and
        `max_attempts` 1 to 1,000. `reset` first removes all run-time settings.
        """
        request = build(
            pb.ConfigurePoolRequest,
            pool=self.name,
            capacity=capacity,
            lease_duration=to_duration(lease, "lease_duration"),
            expiry_grace=to_duration(grace, "expiry_grace"),
            max_attempts=max_attempts,
        )
        if paused is not None:
            request.paused = paused
        if reset is not None:
            request.reset = reset
        answer = await self._caller.call(methods.CONFIGURE_POOL, request)
        return PoolStatus.of(answer.pool)

    async def leases(self) -> AsyncIterator[Lease]:
        """Lists the leases, the earliest end first."""
        page = ""
        while True:
            request = build(pb.ListLeasesRequest, pool=self.name, page_size=1000, page_token=page)
            answer = await self._caller.call(methods.LIST_LEASES, request)
            for lease in answer.leases:
                yield Lease.of(lease)
            page = answer.next_page_token
            if not page:
                return

    async def tasks(self, state: TaskState = TaskState.UNSPECIFIED) -> AsyncIterator[Task]:
        """Lists the queued tasks, or those of a final state."""
        page = ""
        while True:
            request = build(
                pb.ListTasksRequest,
                pool=self.name,
                state=f"TASK_STATE_{state.name}",
                page_size=1000,
                page_token=page,
            )
            answer = await self._caller.call(methods.LIST_TASKS, request)
            for task in answer.tasks:
                yield Task.of(task)
            page = answer.next_page_token
            if not page:
                return

    def watch(self, *, after: str | None = None) -> PoolWatch:
        """Iterates over the events of the pool.

        `after` is the cursor of an event; "0" starts with the oldest stored event. Default:
        new events only.
        """
        return PoolWatch(self.name, after, self._caller)


def take(tasks: list[pb.QueuedTask]) -> list[pb.QueuedTask]:
    """Returns the tasks of the next call: at most 1,000, and below 4 MiB."""
    size = 0
    for number, task in enumerate(tasks[:1000]):
        size += task.ByteSize() + 8
        if size > 3_500_000 and number:
            return tasks[:number]
    return tasks[:1000]
