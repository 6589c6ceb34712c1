"""Answers of pools and locks, as values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tollgate._time import to_datetime
from tollgate.enums import AttemptEnd, Outcome, PoolEventKind, TaskState
from tollgate.v1 import admission_pb2 as pb


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of a pool."""

    capacity: int
    """Slots of the pool."""
    in_use: int
    """Slots held by leases."""
    available: int
    """Slots free; never below 0."""
    over_by: int
    """Slots in use beyond a capacity that was lowered."""
    cached: bool
    """Whether the numbers are those of a cached refusal."""

    @staticmethod
    def of(usage: pb.Usage) -> Usage:
        """Reads the message."""
        return Usage(usage.capacity, usage.in_use, usage.available, usage.over_by, usage.cached)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A task may not run now. The subclass says why."""

    retry_after: timedelta | None = None
    """Time after which to ask again; None unless the refusal is Full or Paused."""
    usage: Usage | None = None
    """Usage of the pool."""
    degraded: bool = False
    """Whether the server answered without its store."""


class Full(Refusal):
    """All slots are in use or reserved for waiting calls."""

    __slots__ = ()


class Paused(Refusal):
    """The pool is paused, its capacity is 0, or it is on hold after a failover."""

    __slots__ = ()


class AlreadyCompleted(Refusal):
    """The task has a result, or it was cancelled, expired or dead. Do not run it again."""

    __slots__ = ()


class NoTask(Refusal):
    """Nothing is queued for the device."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class DispatchedTask:
    """A queued task that a device is to run."""

    task: str
    """The task."""
    payload: bytes
    """The payload given to `enqueue`."""
    attempt: int
    """Number of dispatches, this one included: 1 or more."""


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """Settings and usage of a pool."""

    pool: str
    """Its name."""
    usage: Usage
    """Its usage."""
    lease: timedelta
    """Default length of a lease."""
    grace: timedelta
    """How long a lease that ended without a result keeps its slot."""
    paused: bool
    """Whether no new task is admitted."""
    max_attempts: int
    """Attempts of a queued task until it is dead."""
    queued: int
    """Number of queued tasks, including running ones."""
    waiters: int
    """Number of calls that wait for a slot, on all servers."""
    overrides: tuple[str, ...]
    """Fields that were set at run time."""

    @staticmethod
    def of(pool: pb.Pool) -> PoolStatus:
        """Reads the message."""
        return PoolStatus(
            pool=pool.pool,
            usage=Usage.of(pool.usage),
            lease=pool.config.lease_duration.ToTimedelta(),
            grace=pool.config.expiry_grace.ToTimedelta(),
            paused=pool.config.paused,
            max_attempts=pool.config.max_attempts,
            queued=pool.queued,
            waiters=pool.waiters,
            overrides=tuple(pool.config.overrides),
        )


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease that holds a slot of a pool."""

    device: str
    """The device that holds it."""
    task: str
    """The task for which it was granted."""
    token: int
    """The fencing token."""
    grant_time: datetime
    """When it was granted, on the engine's clock."""
    expire_time: datetime
    """When it ends unless renewed, on the engine's clock."""

    @staticmethod
    def of(lease: pb.Lease) -> Lease:
        """Reads the message."""
        return Lease(
            lease.device_id,
            lease.task_id,
            lease.fencing_token,
            to_datetime(lease.grant_time),
            to_datetime(lease.expire_time),
        )


@dataclass(frozen=True, slots=True)
class QueuedTask:
    """A task to queue for a device."""

    device: str
    """The device that is to run it."""
    task: str
    """The task; unique within its device."""
    payload: bytes = b""
    """Payload for the device, 0 to 65,536 bytes."""
    expire_time: datetime | None = None
    """The task is not dispatched after this moment. Default: no end."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task that was queued, without its payload."""

    device: str
    """The device that is to run it."""
    task: str
    """The task."""
    state: TaskState
    """Its state."""
    attempt: int
    """Number of dispatches."""
    token: int
    """Its last lease's token; 0 before the first."""
    last_attempt_end: AttemptEnd
    """How the attempt of its last lease ended. RequeueTask keeps it."""

    @staticmethod
    def of(task: pb.Task) -> Task:
        """Reads the message."""
        return Task(
            task.device_id,
            task.task_id,
            TaskState.of(task.state),
            task.attempt,
            task.fencing_token,
            AttemptEnd.of(task.last_attempt_end),
        )


@dataclass(frozen=True, slots=True)
class PoolEvent:
    """A change of a pool's state, or a gap in the events."""

    cursor: str
    """The position after this event; empty for a gap that the library found."""
    kind: PoolEventKind
    """What changed. GAP: events before this one are not known."""
    device: str = ""
    """The device; empty on CONFIGURED and GAP."""
    task: str = ""
    """The task; empty on CONFIGURED and GAP."""
    token: int = 0
    """The token of the lease; 0 without a lease."""
    attempt: int = 0
    """The attempt of a queued task."""
    outcome: Outcome = Outcome.UNSPECIFIED
    """How the task went, on COMPLETED and LATE."""
    time: datetime | None = None
    """When it happened, on the engine's clock; None on GAP."""
    capacity: int | None = None
    """The pool's slots, on ADMITTED and CONFIGURED."""

    @staticmethod
    def of(event: pb.PoolEvent) -> PoolEvent:
        """Reads the message."""
        return PoolEvent(
            cursor=event.cursor,
            kind=PoolEventKind.of(event.kind),
            device=event.device_id,
            task=event.task_id,
            token=event.fencing_token,
            attempt=event.attempt,
            outcome=Outcome.of(event.outcome),
            time=to_datetime(event.event_time) if event.HasField("event_time") else None,
            capacity=event.capacity if event.HasField("capacity") else None,
        )


@dataclass(frozen=True, slots=True)
class Held:
    """Another owner holds the lock, or a waiter is next."""

    holder: str
    """The owner that holds it; empty if the lock is free for the next waiter."""
    retry_after: timedelta | None
    """Time until the lease of the holder ends. A release may come earlier."""
