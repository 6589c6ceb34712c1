"""A lease that this process holds, with its end on the local clock."""

from __future__ import annotations

import asyncio
import logging
import random
import sys
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType

from tollgate.aio._caller import Caller
from tollgate.aio._keeper import Keeper
from tollgate.errors import LeaseLost

_log = logging.getLogger("tollgate")


def margin(length: float) -> float:
    """Returns the time in seconds by which the local end is before the server's."""
    return min(max(length * 0.02, 0.01), 1.0)


class LocalLease:
    """The lease of a permit or a lock.

    It ends on the local clock before it ends at the server: the end counts from before the
    request was sent, less a margin of 2 % of the lease (10 ms to 1 s).
    """

    __slots__ = (
        "_callbacks",
        "_caller",
        "_cancelling",
        "_cause",
        "_interrupted",
        "_keep",
        "_keeper",
        "_lost",
        "_task",
        "expiry",
        "failures",
        "held",
        "length",
        "planned",
        "renew_at",
        "token",
    )

    token: int
    """The fencing token. It grows with each lease; pass it to the external system."""

    def __init__(
        self, caller: Caller, keeper: Keeper, token: int, before: float, left: float, keep: bool
    ) -> None:
        self.token = token
        self.held = True
        self.failures = 0
        self.planned = 0
        self._caller = caller
        self._keeper = keeper
        self._keep = keep
        self._cause = ""
        self._lost: asyncio.Event | None = None
        self._callbacks: list[Callable[[], None]] | None = None
        self._task: asyncio.Task[object] | None = None
        self._interrupted = False
        self._cancelling = 0
        self.extend(before, left)

    def extend(self, before: float, left: float) -> None:
        """Sets the end: `left` seconds after `before`, and plans the next renewal."""
        self.length = left
        self.expiry = before + left - margin(left)
        self.renew_at: float | None = None
        if self._keep:
            self.renew_at = before + left / 3 * random.uniform(0.8, 1.0)
        self._keeper.watch(self)

    async def renew_once(self, deadline: float) -> float | str:
        """Sends a renewal. Returns the time left in seconds, or why the lease is lost."""
        raise NotImplementedError

    @property
    def what(self) -> str:
        """The name of the task or lock."""
        raise NotImplementedError

    @property
    def running(self) -> bool:
        """As `valid`, for any thread: changes nothing."""
        return self.held and self._keeper.clock.now() < self.expiry

    @property
    def left(self) -> timedelta:
        """As `valid_for`, for any thread: changes nothing."""
        left = self.expiry - self._keeper.clock.now() if self.held else 0.0
        return timedelta(seconds=max(left, 0.0))

    @property
    def cause(self) -> str:
        """Why it does not run: `expired`, `closed`, the verdict of a renewal, or `ended`."""
        return self._cause or ("expired" if self.held else "ended")

    @property
    def valid(self) -> bool:
        """Whether the lease certainly runs, on the local clock at this moment."""
        if self.held and not self.running:
            self.lose("expired")
        return self.held

    @property
    def valid_for(self) -> timedelta:
        """The time left on the local clock; 0 if the lease has ended."""
        return self.left if self.valid else timedelta()

    @property
    def is_lost(self) -> bool:
        """Whether the lease ended although nobody completed or released it."""
        return not self.valid and bool(self._cause)

    @property
    def lost(self) -> asyncio.Event:
        """An event that is set when the lease is lost."""
        if self._lost is None:
            self._lost = asyncio.Event()
            if self.is_lost:
                self._lost.set()
        return self._lost

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Calls a function when the lease is lost; immediately if it is lost already."""
        if self.is_lost:
            callback()
            return
        if self._callbacks is None:
            self._callbacks = []
        self._callbacks.append(callback)

    def check(self) -> None:
        """Raises LeaseLost unless the lease certainly runs."""
        if not self.valid:
            raise LeaseLost(self.what, self.cause)

    def lose(self, cause: str) -> None:
        """Marks the lease as lost, sets the event and cancels the task of the scope."""
        if not self.held:
            return
        self._cause = cause
        self.stop()
        if self._lost is not None:
            self._lost.set()
        if self._task is not None and not self._interrupted:
            self._interrupted = True
            self._task.cancel()
        callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            try:
                callback()
            except Exception:
                _log.exception("a callback for the loss of %s failed", self.what)

    def stop(self) -> None:
        """Stops the keeper. The lease then ends at its expiry."""
        self.held = False
        self._keeper.forget(self)

    def resume(self) -> None:
        """Starts the keeper again."""
        self.held = True
        self.renew_at = self._keeper.clock.now() if self._keep else None
        self._keeper.watch(self)

    def _enter(self) -> None:
        self.check()
        self._task = asyncio.current_task()
        if sys.version_info >= (3, 11) and self._task is not None:
            self._cancelling = self._task.cancelling()

    def _leave(self, error: BaseException | None) -> None:
        """Ends the scope. Raises LeaseLost if the loss interrupted it."""
        task, self._task = self._task, None
        if not self._interrupted or task is None:
            return
        others = False
        if sys.version_info >= (3, 11):
            others = task.uncancel() > self._cancelling
        if isinstance(error, asyncio.CancelledError) and not others:
            raise LeaseLost(self.what, self._cause) from error


Raised = type[BaseException] | None
Trace = TracebackType | None
