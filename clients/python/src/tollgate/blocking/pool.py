"""Pools of the blocking API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

from tollgate import aio
from tollgate._time import Span
from tollgate.answers import Lease, PoolEvent, PoolStatus, QueuedTask, Refusal, Task
from tollgate.blocking._loop import iterate, run
from tollgate.blocking.permit import Permit
from tollgate.blocking.watch import Watch
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


class Pool:
    """One external system. Create it with `Connection.pool`. Any thread may use it."""

    def __init__(self, inner: aio.Pool) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        """The name of the pool."""
        return self._inner.name

    def admit(
        self,
        device: str,
        task: str,
        *,
        wait: Span = 0,
        lease: Span | None = None,
        keep: bool = True,
    ) -> Permit | Refusal:
        """Asks for a slot for a task of a device. As `tollgate.aio.Pool.admit`."""

        async def admit() -> Permit | Refusal:
            return wrap(await self._inner.admit(device, task, wait=wait, lease=lease, keep=keep))

        return run(admit())

    def poll(
        self, device: str, *, wait: Span = 0, lease: Span | None = None, keep: bool = True
    ) -> Permit | Refusal:
        """Asks for a slot for the oldest queued task. As `tollgate.aio.Pool.poll`."""

        async def poll() -> Permit | Refusal:
            return wrap(await self._inner.poll(device, wait=wait, lease=lease, keep=keep))

        return run(poll())

    def complete(
        self,
        device: str,
        task: str,
        *,
        token: int | None = None,
        outcome: Outcome = Outcome.SUCCEEDED,
        result: bytes = b"",
    ) -> CompleteVerdict:
        """Reports the result of a task without its permit."""
        return run(self._inner.complete(device, task, token=token, outcome=outcome, result=result))

    def renew(
        self, device: str, task: str, *, token: int | None = None, lease: Span | None = None
    ) -> tuple[RenewVerdict, timedelta]:
        """Extends a lease without its permit. Returns the verdict and the time left."""
        return run(self._inner.renew(device, task, token=token, lease=lease))

    def enqueue(self, tasks: Iterable[QueuedTask]) -> list[EnqueueStatus]:
        """Queues tasks for devices in their order. Returns a status for each."""
        return run(self._inner.enqueue(tasks))

    def evict(self, device: str, task: str, *, reason: str = "") -> tuple[EvictVerdict, bool]:
        """Frees the slot of a task. Returns the verdict, and whether it was a repeat."""
        return run(self._inner.evict(device, task, reason=reason))

    def cancel(self, device: str, task: str) -> tuple[CancelVerdict, bool]:
        """Removes a task from its queue. Returns the verdict, and whether it was a repeat."""
        return run(self._inner.cancel(device, task))

    def requeue(self, device: str, task: str) -> RequeueVerdict:
        """Queues a dead task again. As `tollgate.aio.Pool.requeue`."""
        return run(self._inner.requeue(device, task))

    def status(self) -> PoolStatus:
        """Returns settings and usage."""
        return run(self._inner.status())

    def configure(
        self,
        *,
        capacity: int | None = None,
        lease: Span | None = None,
        grace: Span | None = None,
        paused: bool | None = None,
        max_attempts: int | None = None,
        reset: bool | None = None,
    ) -> PoolStatus:
        """Changes the given settings. As `tollgate.aio.Pool.configure`."""
        return run(
            self._inner.configure(
                capacity=capacity,
                lease=lease,
                grace=grace,
                paused=paused,
                max_attempts=max_attempts,
                reset=reset,
            )
        )

    def leases(self) -> Iterator[Lease]:
        """Lists the leases, the earliest end first."""
        return iterate(self._inner.leases())

    def tasks(self, state: TaskState = TaskState.UNSPECIFIED) -> Iterator[Task]:
        """Lists the queued tasks, or those of a final state."""
        return iterate(self._inner.tasks(state))

    def watch(self, *, after: str | None = None) -> Watch[PoolEvent]:
        """Iterates over the events of the pool. As `tollgate.aio.Pool.watch`."""
        return Watch(self._inner.watch(after=after))


def wrap(answer: aio.Permit | Refusal) -> Permit | Refusal:
    """Wraps a permit. Runs in the event loop."""
    return answer if isinstance(answer, Refusal) else Permit(answer)
