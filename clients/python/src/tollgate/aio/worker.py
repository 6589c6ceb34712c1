"""A worker: runs the queued tasks of a device."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable

import grpc

from tollgate._time import Span, to_seconds
from tollgate.aio._caller import is_closed
from tollgate.aio.permit import Permit
from tollgate.aio.pool import Pool
from tollgate.answers import Refusal
from tollgate.enums import CompleteVerdict, Outcome
from tollgate.errors import Error, LeaseLost

Handler = Callable[[Permit], Awaitable[bytes | None]]
"""Runs a task and returns its result. An exception completes the task as FAILED."""

_log = logging.getLogger("tollgate")

_FINAL = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.UNIMPLEMENTED,
)


class Worker:
    """Takes the queued tasks of a device one by one, runs them and completes them.

    The handler is cancelled if the lease is lost. After a refusal the worker waits for
    `retry_after`, with jitter. Without a queued task it asks again after `idle`.
    """

    def __init__(
        self,
        pool: Pool,
        device: str,
        handler: Handler,
        *,
        lease: Span | None = None,
        idle: Span = 1.0,
        on_done: Callable[[Permit, CompleteVerdict | None], None] | None = None,
    ) -> None:
        self.done = 0
        """Number of tasks whose result was reported."""
        self._pool = pool
        self._device = device
        self._handler = handler
        self._lease = lease
        self._idle = to_seconds(idle, "idle")
        self._on_done = on_done
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """Lets `run` return after the running task."""
        self._stopped.set()

    async def run(self) -> int:
        """Runs tasks until `stop`. Returns the number of tasks whose result was reported.

        Raises Error only if a repeat cannot help, for example PERMISSION_DENIED, or a closed
        connection. If it is
        cancelled, the running task is completed as FAILED.
        """
        failures = 0
        while not self._stopped.is_set():
            try:
                answer = await self._pool.poll(self._device, lease=self._lease)
            except Error as error:
                if error.code in _FINAL or is_closed(error):
                    raise
                failures += 1
                _log.warning("the report of device %s failed: %s", self._device, error)
                await self._pause(self._backoff(error, failures))
                continue
            failures = 0
            if isinstance(answer, Refusal):
                after = answer.retry_after
                pause = self._idle if after is None else after.total_seconds()
                await self._pause(pause * random.uniform(1.0, 1.2))
            else:
                await self._work(answer)
        return self.done

    async def _work(self, permit: Permit) -> None:
        try:
            async with permit:
                try:
                    result = await self._handler(permit)
                except Exception:
                    _log.exception("%s failed", permit.what)
                    await permit.complete(Outcome.FAILED)
                else:
                    await permit.complete(result=result or b"")
        except LeaseLost as lost:
            _log.warning("%s", lost)
        except Exception:
            _log.exception("the result of %s was not reported", permit.what)
        if permit.verdict is not None:
            self.done += 1
        if self._on_done is not None:
            self._on_done(permit, permit.verdict)

    def _backoff(self, error: Error, failures: int) -> float:
        pause = min(0.2 * 2.0 ** min(failures, 5), 5.0) * random.uniform(0.5, 1.0)
        after = error.retry_after
        return pause if after is None else after.total_seconds() + pause

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), seconds)
