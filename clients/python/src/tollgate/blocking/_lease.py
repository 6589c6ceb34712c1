"""What permits and locks of the blocking API share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Generic, TypeVar

from tollgate.aio._lease import LocalLease
from tollgate.errors import LeaseLost

Inner = TypeVar("Inner", bound=LocalLease)


class BlockingLease(Generic[Inner]):
    """A lease that any thread may use. Created in the event loop."""

    def __init__(self, inner: Inner) -> None:
        self._inner = inner
        self._callbacks: list[Callable[[], None]] = []
        self._guard = threading.Lock()
        self._lost = threading.Event()
        inner.on_lost(self._on_lost)

    def _on_lost(self) -> None:
        self._lost.set()
        with self._guard:
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    @property
    def token(self) -> int:
        """The fencing token. It grows with each lease; pass it to the external system."""
        return self._inner.token

    @property
    def valid(self) -> bool:
        """Whether the lease certainly runs, on the local clock at this moment."""
        return self._inner.running

    @property
    def valid_for(self) -> timedelta:
        """The time left on the local clock; 0 if the lease has ended."""
        return self._inner.left

    @property
    def lost(self) -> threading.Event:
        """An event that is set when the lease is lost."""
        return self._lost

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Calls a function in the thread of the library when the lease is lost.

        The function must not block. It is called immediately if the lease is already lost.
        """
        with self._guard:
            self._callbacks.append(callback)
        if self._lost.is_set():
            self._on_lost()

    def check(self) -> None:
        """Raises LeaseLost unless the lease certainly runs. Call it before each step."""
        if not self.valid:
            raise LeaseLost(self._inner.what, self._inner.cause)

    def __repr__(self) -> str:
        return repr(self._inner)
