"""Answers and states of the protocol. A value that the library does not know is UNSPECIFIED."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

_Member = TypeVar("_Member", bound="_Enum")


class _Enum(IntEnum):
    def __str__(self) -> str:
        return self.name

    @classmethod
    def of(cls: type[_Member], number: int) -> _Member:
        """Returns the member of a number, UNSPECIFIED if there is none."""
        try:
            return cls(number)
        except ValueError:
            return cls(0)


class Outcome(_Enum):
    """How a task went."""

    UNSPECIFIED = 0
    """Counts as SUCCEEDED."""
    SUCCEEDED = 1
    """The task is done."""
    FAILED = 2
    """The task ran and failed. A queued task is dispatched again, while it has attempts left."""


class CompleteVerdict(_Enum):
    """The answers of CompleteTask."""

    UNSPECIFIED = 0
    """Never sent."""
    COMPLETED = 1
    """Recorded; the task's slot is free."""
    ALREADY_COMPLETED = 2
    """The task already had a result, which stays."""
    LATE = 3
    """The lease had ended or was evicted. The result is recorded; no other slot is freed."""
    STALE_TOKEN = 4
    """The token does not belong to the last lease: the task was admitted again. The result is not
    recorded.
    """
    UNKNOWN = 5
    """The task is unknown: never admitted, or forgotten after the retention. The result is not
    recorded.
    """

    @property
    def recorded(self) -> bool:
        """Whether the task has a result: COMPLETED, ALREADY_COMPLETED or LATE."""
        return self.name in ("COMPLETED", "ALREADY_COMPLETED", "LATE")


class RenewVerdict(_Enum):
    """The answers of RenewTask."""

    UNSPECIFIED = 0
    """Never sent."""
    RENEWED = 1
    """The lease was extended."""
    EXPIRED = 2
    """The lease and its grace have ended, or it was evicted; call AdmitTask again."""
    COMPLETED = 3
    """The task has a result."""
    STALE_TOKEN = 4
    """The token does not belong to the last lease."""
    UNKNOWN = 5
    """The task is unknown."""


class EvictVerdict(_Enum):
    """The answers of EvictTask."""

    UNSPECIFIED = 0
    """Never sent."""
    EVICTED = 1
    """The slot is free."""
    ENDED = 2
    """The task holds no slot: completed, or its lease had ended."""
    UNKNOWN = 3
    """The task is unknown."""


class CancelVerdict(_Enum):
    """The answers of CancelTask."""

    UNSPECIFIED = 0
    """Never sent."""
    CANCELLED = 1
    """It is not dispatched again."""
    RUNNING = 2
    """It is not dispatched again, but its lease runs. The slot is free when the lease ends, or
    immediately with EvictTask. A result is still recorded.
    """
    COMPLETED = 3
    """It has a result."""
    UNKNOWN = 4
    """The task was never queued, or it was forgotten after the retention."""


class RequeueVerdict(_Enum):
    """The answers of RequeueTask."""

    UNSPECIFIED = 0
    """Never sent."""
    REQUEUED = 1
    """It was dead, and is the last one in the queue of its device."""
    ALREADY_QUEUED = 2
    """It is in the queue, waiting or running."""
    NOT_DEAD = 3
    """It is not dead: it has a result, or was cancelled."""
    EXPIRED = 4
    """Its expire_time has passed."""
    FULL = 5
    """The pool has its maximum of queued tasks. The task stays dead."""
    UNKNOWN = 6
    """The task was never queued, or it was forgotten after the retention."""


class EnqueueStatus(_Enum):
    """The answers of EnqueueTasks, for one task."""

    UNSPECIFIED = 0
    """Never sent."""
    ENQUEUED = 1
    """The task is now the last one in the queue of its device."""
    DUPLICATE = 2
    """The task is already known: queued, running, or remembered (for the pool's retention).
    Nothing changed.
    """
    EXPIRED = 3
    """Its expire_time had passed; it is not queued."""
    FULL = 4
    """The pool has its maximum of queued tasks, or memory is full; the task is not queued."""
    UNREADABLE = 5
    """A stored value of the task cannot be read; it is not queued. EvictTask deletes its record;
    ConfigurePool with reset repairs the pool.
    """
    UNAVAILABLE = 6
    """The store refused this task of the batch, or the deadline ended before the task was sent
    to the store; it is not queued. Queue it again: it then follows the tasks that other calls
    have queued for its device.
    """


class TaskState(_Enum):
    """The state of a task that was queued."""

    UNSPECIFIED = 0
    """Never sent; in a request: queued tasks, including running ones."""
    QUEUED = 1
    """It waits for its device's report."""
    RUNNING = 2
    """It is queued, and its lease is running or in its grace."""
    DEAD = 3
    """Its last attempt ended without success."""
    CANCELLED = 4
    """CancelTask removed it from the queue."""
    EXPIRED = 5
    """Its expire_time passed before a result."""


class AttemptEnd(_Enum):
    """How an attempt of a queued task ended without success."""

    UNSPECIFIED = 0
    """It has not ended: the task has had no lease, or its lease is running or in its grace."""
    FAILED = 1
    """The device reported FAILED, in time or late."""
    EXPIRED = 2
    """Its lease and grace ended without a result."""
    EVICTED = 3
    """EvictTask freed its slot, or its admission was revoked because too few replicas
    acknowledged it (`wait_replicas` of the pool). A revoked attempt does not count.
    """


class PoolEventKind(_Enum):
    """The kinds of changes."""

    UNSPECIFIED = 0
    """Never sent."""
    ENQUEUED = 1
    """A task was queued."""
    ADMITTED = 2
    """A task was granted a lease."""
    RENEWED = 3
    """Its lease was extended."""
    COMPLETED = 4
    """Its result arrived in time."""
    LATE = 5
    """Its result arrived after its lease had ended or was evicted."""
    EXPIRED = 6
    """Its lease and grace ended without a result; or, in an event without a token, its expire_time
    passed, and it left its queue. The event is appended at most 2 s later.
    """
    EVICTED = 7
    """EvictTask freed its slot, or its admission was revoked because too few replicas
    acknowledged it (`wait_replicas` of the pool).
    """
    CANCELLED = 8
    """CancelTask removed it from its queue."""
    DEAD = 9
    """Its last attempt ended without success, and it left its queue."""
    CONFIGURED = 10
    """ConfigurePool changed the pool's settings, or reset them."""
    GAP = 11
    """Events between the given cursor and this one are no longer stored."""


class RateVerdict(_Enum):
    """The answers of CheckRate."""

    UNSPECIFIED = 0
    """In CheckRates only: not decided, see error."""
    ALLOW = 1
    """Within all limits."""
    WARN = 2
    """May pass; the count is above a WARN tier."""
    THROTTLE = 3
    """May not pass."""
    BAN = 4
    """May not pass: the key is banned. Nothing is counted."""


class RateEventKind(_Enum):
    """The kinds of events."""

    UNSPECIFIED = 0
    """Never sent."""
    WARNED = 1
    """A call was the first of its window above a WARN tier."""
    THROTTLED = 2
    """A call was the first of its window above a THROTTLE tier."""
    BANNED = 3
    """It was banned, by a tier or by Ban. A running ban is replaced."""
    UNBANNED = 4
    """Unban lifted its ban."""
    GAP = 5
    """Events between the given cursor and this one are no longer stored."""


class Algorithm(_Enum):
    """How a limit counts."""

    UNSPECIFIED = 0
    """SLIDING_WINDOW."""
    FIXED_WINDOW = 1
    """A window starts with its first call; later calls do not move it. Around the boundary of
    two windows up to twice max can pass in a short time.
    """
    CALENDAR_WINDOW = 2
    """Windows of the clock: the second, minute, hour or day of a UTC offset. The same burst is
    possible at the boundary, for all keys simultaneously.
    """
    SLIDING_WINDOW = 3
    """At most max calls in any interval of the window's length. A call is given back up to 1/60 of
    a window late; memory use does not grow with max.
    """
    TOKEN_BUCKET = 4
    """GCRA: max calls per window, evenly spaced, and burst calls at once. At most burst + max
    calls in any window.
    """


class TierAction(_Enum):
    """The action of a tier."""

    UNSPECIFIED = 0
    """Not valid."""
    WARN = 1
    """Lets the call pass and reports a warning."""
    THROTTLE = 2
    """Refuses the call. A refused call counts on the first limit only if a higher THROTTLE or
    BAN tier follows and a call of its cost can pass at all. The same applies to a call beyond
    max.
    """
    BAN = 3
    """Refuses the call, and all calls of the key for the length of the ban."""


class ReleaseLockOutcome(_Enum):
    """The answers of ReleaseLock."""

    UNSPECIFIED = 0
    """Never sent."""
    RELEASED = 1
    """This call, or an earlier one that it repeats, ended the lease."""
    NOT_HELD = 2
    """The owner held no such lease. Another holder keeps the lock."""


class ConfirmOutcome(_Enum):
    """The answers to ConfirmReservation."""

    UNSPECIFIED = 0
    """Never sent."""
    CONFIRMED = 1
    """The quantity is sold to the order."""
    ALREADY_CONFIRMED = 2
    """An earlier call sold it to the order."""
    EXPIRED = 3
    """The hold has lapsed, and the quantity is no longer available or the buyer has reached the
    limit; nothing changed.
    """
    CANCELLED = 4
    """The reservation was cancelled; nothing changed."""
    UNKNOWN = 5
    """The order has no known reservation; nothing changed."""


class CancelOutcome(_Enum):
    """The answers to CancelReservation."""

    UNSPECIFIED = 0
    """Never sent."""
    CANCELLED = 1
    """The quantity is available again."""
    ALREADY_CANCELLED = 2
    """An earlier call cancelled it."""
    ALREADY_CONFIRMED = 3
    """It is sold: nothing changed. AddStock takes goods back."""
    EXPIRED = 4
    """The hold had lapsed; nothing changed. A late ConfirmReservation may still take the
    quantity again.
    """
    UNKNOWN = 5
    """The order has no known reservation; nothing changed."""


class ReservationState(_Enum):
    """The state of a reservation."""

    UNSPECIFIED = 0
    """Never sent."""
    HELD = 1
    """Held for its order."""
    CONFIRMED = 2
    """Paid: sold."""
    CANCELLED = 3
    """Cancelled: available again."""
