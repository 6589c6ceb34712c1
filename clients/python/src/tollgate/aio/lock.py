"""Locks: one owner at a time, for the duration of a lease."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tollgate import _methods as methods
from tollgate._build import build
from tollgate._time import Span, to_duration, to_seconds
from tollgate.aio._caller import Caller
from tollgate.aio._claims import Grant
from tollgate.aio._keeper import Keeper
from tollgate.aio._lease import LocalLease, Raised, Trace
from tollgate.aio._wait import wait_in_slices
from tollgate.answers import Held
from tollgate.enums import ReleaseLockOutcome
from tollgate.errors import unknown_answer
from tollgate.v1 import lock_pb2 as pb

if TYPE_CHECKING:
    from typing_extensions import Self

_Answered = tuple[float, pb.AcquireLockResponse]
"""The clock before a request was sent, and its answer."""

_LEASE = 30.0
"""Length of a lease by default, in seconds."""

_STALE = 0.05
"""Share of a lease after which a waiting call asks again how much is left."""


class LockLease(LocalLease):
    """A lock that this process holds.

    A keeper renews the lease at a third of its length. If the lease is lost, the event
    `lost` is set and the task that runs the scope is cancelled; the scope raises LeaseLost.
    Leaving the scope releases the lock. Pass `token` to the storage that the lock guards.
    """

    __slots__ = ("_duration", "_outcome", "name", "owner", "replayed")

    def __init__(
        self,
        caller: Caller,
        keeper: Keeper,
        answer: pb.AcquireLockResponse,
        before: float,
        *,
        duration: float | None,
        keep: bool,
    ) -> None:
        lease = answer.lease
        self.name = lease.name
        """The lock."""
        self.owner = lease.owner
        """Its owner."""
        self.replayed = answer.replayed
        """Whether an earlier call was granted this lease."""
        self._duration = duration
        self._outcome: ReleaseLockOutcome | None = None
        left = lease.expires_in.ToTimedelta().total_seconds()
        super().__init__(caller, keeper, lease.fencing_token, before, left, keep)

    @property
    def what(self) -> str:
        """The lock, for messages."""
        return f"lock {self.name}"

    async def renew_once(self, deadline: float) -> float | str:
        """Sends a renewal. Returns the time left in seconds, or why the lease is lost."""
        request = build(
            pb.RenewLockRequest,
            name=self.name,
            owner=self.owner,
            fencing_token=self.token,
            lease_duration=to_duration(self._duration, "lease_duration"),
        )
        caller = self._caller
        answer = await caller.once(
            methods.RENEW_LOCK,
            request,
            caller.transport.pick(),
            deadline=min(caller.deadline, deadline),
        )
        if answer.outcome != pb.RENEW_LOCK_OUTCOME_RENEWED:
            return "NOT_HELD"
        return answer.lease.expires_in.ToTimedelta().total_seconds()

    async def release(self) -> ReleaseLockOutcome:
        """Frees the lock, and repeats the call until its outcome is known.

        Returns NOT_HELD if the lease had ended. A repeat returns the first outcome.
        """
        if self._outcome is not None:
            return self._outcome
        self.stop()
        answer = await self._caller.until_known(methods.RELEASE_LOCK, self._request())
        self._outcome = ReleaseLockOutcome.of(answer.outcome)
        return self._outcome

    def _request(self) -> pb.ReleaseLockRequest:
        return build(
            pb.ReleaseLockRequest, name=self.name, owner=self.owner, fencing_token=self.token
        )

    async def __aenter__(self) -> Self:
        """Starts the scope. Raises LeaseLost if the lease has ended."""
        self._enter()
        return self

    async def __aexit__(self, kind: Raised, error: BaseException | None, trace: Trace) -> None:
        """Releases the lock. Takes at most the deadline of one call, as `leave`."""
        self._leave(error)
        await self.leave()

    async def leave(self) -> None:
        """Stops the keeper, and releases the lock if it is still held.

        It takes at most the deadline of one call. Without an answer, the release continues in
        the background until the lease ends.
        """
        held = self.valid
        self.stop()
        if not held or self._outcome is not None:
            return
        request, caller = self._request(), self._caller

        async def release() -> None:
            await caller.once(methods.RELEASE_LOCK, request, caller.transport.pick())

        await caller.claims.leave(("lock", self.name, self.owner), self.expiry, release)

    def __repr__(self) -> str:
        return f"<LockLease {self.what} of {self.owner}, token {self.token}>"


class Lock:
    """A lock. It needs no creation. Create the object with `Connection.lock`."""

    def __init__(self, name: str, caller: Caller, keeper: Keeper) -> None:
        self.name = name
        """The name of the lock."""
        self._caller = caller
        self._keeper = keeper

    async def acquire(
        self,
        *,
        owner: str | None = None,
        wait: Span = 0,
        lease: Span | None = None,
        keep: bool = True,
    ) -> LockLease | Held:
        """Acquires the lock, waiting for it up to `wait`.

        `owner` is unique among the competitors, by default a random one for each call.
        Calls with the same owner share its lease. `lease` is 1 ms to 30 days, default
        30 s. With `keep=False` no keeper renews the lease. Returns the lease, or Held.

        If the call is cancelled or fails, a lock that it may have acquired is released in the
        background. With `owner` this applies to a wait whose answer still arrives.
        """
        own = not owner
        owner = owner or f"{socket.gethostname()[:60]}:{os.getpid()}:{uuid.uuid4().hex}"
        claim = await self._caller.claims.enter("lock", self.name, owner)
        ended: Callable[[], Awaitable[_Answered | None]] = _nothing

        def on_failure(end: Callable[[], Awaitable[_Answered | None]]) -> None:
            nonlocal ended
            ended = end

        async def granted() -> Grant | None:
            return _grant(await ended(), own)

        async def give_up(grant: Grant) -> None:
            request = build(
                pb.ReleaseLockRequest, name=self.name, owner=owner, fencing_token=grant.token
            )
            caller = self._caller
            await caller.once(methods.RELEASE_LOCK, request, caller.transport.pick())

        try:
            before, answer = await self._ask(owner, wait, lease, on_failure)
            acquired = self._acquired(before, answer, lease, keep)
        except BaseException:
            claim.withdraw(granted, give_up)
            raise
        claim.answered(acquired.token if isinstance(acquired, LockLease) else None)
        return acquired

    async def _ask(
        self,
        owner: str,
        wait: Span,
        lease: Span | None,
        on_failure: Callable[[Callable[[], Awaitable[_Answered | None]]], None],
    ) -> _Answered:
        """Makes the calls. `on_failure` gets the end of a wait that fails, and of its grant."""
        now = self._keeper.clock.now

        async def ask(wait: float) -> _Answered:
            request = build(
                pb.AcquireLockRequest,
                name=self.name,
                owner=owner,
                lease_duration=to_duration(lease, "lease_duration"),
                max_wait=to_duration(wait, "max_wait") if wait > 0 else None,
            )
            return await self._caller.timed(methods.ACQUIRE_LOCK, request, wait=wait)

        seconds = to_seconds(wait, "max_wait")
        if seconds <= 0:
            return await ask(0)
        first = await wait_in_slices(ask, _is_acquired, seconds, now, on_failure)

        async def known() -> _Answered:
            return first

        on_failure(known)
        answer, before = await self._refresh(first[1], first[0], lease)
        return before, answer

    def _acquired(
        self, before: float, answer: pb.AcquireLockResponse, lease: Span | None, keep: bool
    ) -> LockLease | Held:
        if answer.outcome == pb.ACQUIRE_LOCK_OUTCOME_ACQUIRED:
            duration = None if lease is None else to_seconds(lease, "lease_duration")
            return LockLease(
                self._caller, self._keeper, answer, before, duration=duration, keep=keep
            )
        if answer.outcome != pb.ACQUIRE_LOCK_OUTCOME_HELD:
            raise unknown_answer("AcquireLockOutcome", answer.outcome)
        after = answer.retry_after.ToTimedelta() if answer.HasField("retry_after") else None
        return Held(answer.holder, after)

    async def _refresh(
        self, answer: pb.AcquireLockResponse, before: float, lease: Span | None
    ) -> tuple[pb.AcquireLockResponse, float]:
        """Repeats a call that waited long: only the replay says how much of the lease is left."""
        left = answer.lease.expires_in.ToTimedelta().total_seconds()
        now = self._keeper.clock.now()
        acquired = answer.outcome == pb.ACQUIRE_LOCK_OUTCOME_ACQUIRED
        if not acquired or now - before <= left * _STALE:
            return answer, before
        request = build(
            pb.AcquireLockRequest,
            name=self.name,
            owner=answer.lease.owner,
            lease_duration=to_duration(lease, "lease_duration"),
        )
        repeat = await self._caller.until_known(methods.ACQUIRE_LOCK, request, now + left)
        if repeat.lease.fencing_token == answer.lease.fencing_token:
            repeat.replayed = answer.replayed
        return repeat, now

    async def holder(self) -> str | None:
        """Returns the owner that holds the lock; None if it is free."""
        answer = await self._caller.call(
            methods.GET_LOCK, build(pb.GetLockRequest, name=self.name)
        )
        return answer.lease.owner if answer.held else None


def _is_acquired(answer: _Answered) -> bool:
    return answer[1].outcome == pb.ACQUIRE_LOCK_OUTCOME_ACQUIRED


async def _nothing() -> _Answered | None:
    return None


def _grant(answer: _Answered | None, own: bool) -> Grant | None:
    """Returns the lease in the last answer of a failed call.

    A call with its own owner may hold the lock even without an answer.
    """
    if answer is not None and _is_acquired(answer):
        lease = answer[1].lease
        left = lease.expires_in.ToTimedelta().total_seconds()
        return Grant(lease.fencing_token, answer[1].replayed and not own, "", left)
    return Grant(None, False, "", _LEASE) if own else None
