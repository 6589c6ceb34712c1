"""Watches: iterators over events that resume at their cursor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import TYPE_CHECKING, Generic, TypeVar

import grpc

from tollgate import _methods as methods
from tollgate.aio._caller import Caller, is_closed
from tollgate.answers import PoolEvent
from tollgate.enums import PoolEventKind, RateEventKind
from tollgate.errors import Error
from tollgate.rates import RateEvent
from tollgate.v1 import admission_pb2, rate_pb2

if TYPE_CHECKING:
    from typing_extensions import Self

Event = TypeVar("Event")

_FINAL = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.FAILED_PRECONDITION,
)


class Watch(Generic[Event]):
    """An asynchronous iterator over events.

    A broken stream resumes after the last event, with growing pauses. Events arrive at least
    once. An event of kind GAP reports missing events: they are no longer stored, or the
    stream broke before its first event.
    """

    def __init__(self, after: str | None, caller: Caller) -> None:
        self.cursor = after
        """The cursor of the last event; None before the first."""
        self._caller = caller
        self._events: AsyncGenerator[Event, None] | None = None

    def _open(self) -> AsyncGenerator[tuple[str, Event], None]:
        raise NotImplementedError

    def _gap(self) -> Event:
        raise NotImplementedError

    async def _resume(self) -> AsyncGenerator[Event, None]:
        failures, unseen = 0, False
        while True:
            stream = self._open()
            try:
                async for cursor, event in stream:
                    if unseen and self.cursor is None:
                        yield self._gap()
                    unseen = False
                    failures = 0
                    self.cursor = cursor
                    yield event
            except Error as error:
                if error.code in _FINAL or is_closed(error):
                    raise
                unseen = True
                failures += 1
                pause = self._caller.retry.pause(error, failures)
            else:
                unseen, pause = True, self._caller.retry.backoff(1)
            finally:
                await stream.aclose()
            await asyncio.sleep(pause)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """Returns the next event. Raises Error if the watch cannot resume."""
        if self._events is None:
            self._events = self._resume()
        return await self._events.__anext__()

    async def close(self) -> None:
        """Ends the stream. No task may be waiting for an event."""
        if self._events is not None:
            await self._events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class PoolWatch(Watch[PoolEvent]):
    """Events of a pool. Create it with `Pool.watch`."""

    def __init__(self, pool: str, after: str | None, caller: Caller) -> None:
        super().__init__(after, caller)
        self._pool = pool

    async def _open(self) -> AsyncGenerator[tuple[str, PoolEvent], None]:
        request = admission_pb2.WatchPoolRequest(pool=self._pool, after=self.cursor)
        async with self._caller.stream(methods.WATCH_POOL, request) as answers:
            async for answer in answers:
                yield answer.event.cursor, PoolEvent.of(answer.event)

    def _gap(self) -> PoolEvent:
        return PoolEvent(cursor="", kind=PoolEventKind.GAP)


class RateWatch(Watch[RateEvent]):
    """Events of a rate policy. Create it with `RateLimiter.watch`."""

    def __init__(self, policy: str, after: str | None, caller: Caller) -> None:
        super().__init__(after, caller)
        self._policy = policy

    async def _open(self) -> AsyncGenerator[tuple[str, RateEvent], None]:
        request = rate_pb2.WatchRatesRequest(policy=self._policy, after=self.cursor)
        async with self._caller.stream(methods.WATCH_RATES, request) as answers:
            async for answer in answers:
                yield answer.event.cursor, RateEvent.of(answer.event)

    def _gap(self) -> RateEvent:
        return RateEvent(cursor="", kind=RateEventKind.GAP)
