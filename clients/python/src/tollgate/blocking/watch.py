"""Watches of the blocking API."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections.abc import Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tollgate.aio import watch as aio_watch
from tollgate.blocking._loop import loop

if TYPE_CHECKING:
    from typing_extensions import Self

Event = TypeVar("Event")


class Watch(Generic[Event]):
    """An iterator over events that resumes at its cursor and reports gaps.

    `close` ends it from any thread: a thread that waits for an event leaves its loop.
    """

    def __init__(self, inner: aio_watch.Watch[Event]) -> None:
        self._inner = inner
        self._closed = False
        self._next: concurrent.futures.Future[Event] | None = None

    @property
    def cursor(self) -> str | None:
        """The cursor of the last event; None before the first."""
        return self._inner.cursor

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        """Waits for the next event. Raises Error if the watch cannot resume."""
        if self._closed:
            raise StopIteration
        self._next = asyncio.run_coroutine_threadsafe(self._following(), loop())
        try:
            return self._next.result()
        except (concurrent.futures.CancelledError, StopAsyncIteration):
            raise StopIteration from None
        except BaseException:
            self._next.cancel()
            raise

    async def _following(self) -> Event:
        return await self._inner.__anext__()

    def close(self) -> None:
        """Ends the watch."""
        self._closed = True
        if self._next is not None:
            self._next.cancel()
        close: Coroutine[Any, Any, None] = self._close()
        asyncio.run_coroutine_threadsafe(close, loop()).result()

    async def _close(self) -> None:
        # The cancelled step ends first; until then the stream cannot be closed.
        for _ in range(100):
            with contextlib.suppress(RuntimeError):
                await self._inner.close()
                return
            await asyncio.sleep(0.01)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
