"""The calls for leases that a connection makes, and the leases that it gives up."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tollgate.errors import Error
from tollgate.options import is_retried

if TYPE_CHECKING:
    from tollgate.aio._caller import Caller

_TRIES = 20
"""Maximum number of attempts to give up a lease."""
_PAUSE_MAX = 30.0
"""Maximum pause between two attempts, in seconds."""

Key = tuple[str, ...]
"""The identity of a lease: all calls with one identity get the same lease."""


@dataclass(frozen=True)
class Grant:
    """A granted lease, as a cancelled call learns it."""

    token: int | None
    """The token; None for the unknown one of a call whose identity no other call has."""
    replayed: bool
    """Whether an earlier call was granted it."""
    task: str
    """The task of a slot."""
    left: float
    """Time left of the lease, in seconds."""


@dataclass
class _Ending:
    """A lease that is being given up."""

    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    """Makes the last attempt immediately."""
    done: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class _Entry:
    """The calls for one lease."""

    calls: int = 0
    """Calls whose caller waits for the answer."""
    cancelled: int = 0
    """Cancelled calls that have not ended."""
    granted: set[int | None] = field(default_factory=set)
    given: set[int | None] = field(default_factory=set)
    """Tokens that calls were granted, and tokens that callers have received."""
    ending: _Ending | None = None


class Claims:
    """The calls for leases of one connection.

    A lease is given up only if no other call with its identity has received it or may receive it.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._entries: dict[Key, _Entry] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def enter(self, *key: str) -> Claim:
        """Registers a call, after a last attempt to give up a lease that is being given up."""
        await self.settle(*key)
        entry = self._entries.setdefault(key, _Entry())
        entry.calls += 1
        return Claim(self, key, entry)

    async def settle(self, *key: str) -> None:
        """Makes a last attempt to give up a lease, if it is being given up."""
        while (entry := self._entries.get(key)) is not None and entry.ending is not None:
            entry.ending.hurry.set()
            await entry.ending.done.wait()

    async def leave(self, key: Key, until: float, call: Callable[[], Awaitable[object]]) -> None:
        """Gives a lease up while its scope is left.

        Returns once the call is answered, or after the deadline of one call. Further attempts
        then follow in the background until the lease ends, even if the scope is cancelled.
        """
        entry = self._entries.setdefault(key, _Entry())
        ending = entry.ending = _Ending()
        task = self.spawn(self.end(key, entry, ending, until, call))
        # Also if the task is cancelled before it starts.
        task.add_done_callback(lambda done: self._finish(key, entry, ending))
        await asyncio.wait([task], timeout=self._caller.deadline)

    async def close(self) -> None:
        """Ends all attempts."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs work in the background."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def end(
        self,
        key: Key,
        entry: _Entry,
        ending: _Ending,
        until: float,
        call: Callable[[], Awaitable[object]],
    ) -> None:
        """Makes the call that gives a lease up, until it is answered or the lease ends."""
        try:
            await self._attempts(until, call, ending.hurry)
        finally:
            self._finish(key, entry, ending)

    def _finish(self, key: Key, entry: _Entry, ending: _Ending) -> None:
        if entry.ending is ending:
            entry.ending = None
        ending.done.set()
        self.tidy(key, entry)

    def now(self) -> float:
        """Returns the time on the clock of the connection, in seconds."""
        return self._caller.clock.now()

    def tidy(self, key: Key, entry: _Entry) -> None:
        """Forgets the calls for a lease if none is left."""
        idle = entry.calls + entry.cancelled == 0 and entry.ending is None
        if idle and self._entries.get(key) is entry:
            del self._entries[key]

    async def _attempts(
        self, until: float, call: Callable[[], Awaitable[object]], hurry: asyncio.Event
    ) -> None:
        for attempt in range(_TRIES):
            try:
                await call()
                return
            except Error as error:
                pause = min(0.1 * 2.0**attempt, _PAUSE_MAX) * random.uniform(0.5, 1.0)
                if error.retry_after is not None:
                    pause += error.retry_after.total_seconds()
                late = self.now() + pause >= until
                if late or hurry.is_set() or not is_retried(error, True):
                    return
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(hurry.wait(), pause)


class Claim:
    """One call for a lease."""

    def __init__(self, claims: Claims, key: Key, entry: _Entry) -> None:
        self._claims = claims
        self._key = key
        self._entry = entry

    def answered(self, token: int | None = None) -> None:
        """Records that the caller gets the answer, with the token of its lease if it has one."""
        if token is not None:
            self._entry.given.add(token)
        self._entry.calls -= 1
        self._claims.tidy(self._key, self._entry)

    def withdraw(
        self,
        ended: Callable[[], Awaitable[Grant | None]],
        give_up: Callable[[Grant], Awaitable[object]],
    ) -> None:
        """Records that the caller gets no answer.

        Once the call has ended, its lease is given up in the background, unless another call
        has received it or may receive it.
        """
        self._entry.calls -= 1
        self._entry.cancelled += 1
        self._claims.spawn(self._withdraw(ended, give_up))

    async def _withdraw(
        self,
        ended: Callable[[], Awaitable[Grant | None]],
        give_up: Callable[[Grant], Awaitable[object]],
    ) -> None:
        entry = self._entry
        try:
            grant = await ended()
        finally:
            entry.cancelled -= 1
        if grant is not None and not grant.replayed:
            entry.granted.add(grant.token)
        is_own = grant is not None and grant.token in entry.granted
        if grant is not None and is_own and not entry.calls and grant.token not in entry.given:
            until = self._claims.now() + grant.left
            lease = grant
            entry.ending = _Ending()
            await self._claims.end(self._key, entry, entry.ending, until, lambda: give_up(lease))
        self._claims.tidy(self._key, entry)
