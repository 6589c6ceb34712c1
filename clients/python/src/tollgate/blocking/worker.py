"""Workers of the blocking API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tollgate import aio
from tollgate._time import Span
from tollgate.blocking._loop import loop, run
from tollgate.blocking.permit import Permit
from tollgate.blocking.pool import Pool

Handler = Callable[[Permit], bytes | None]
"""Runs a task in a thread and returns its result. An exception completes it as FAILED."""


class Worker:
    """Takes the queued tasks of a device one by one, runs them and completes them.

    A lost lease sets `permit.lost`; the worker waits for the handler before the next task.
    """

    def __init__(
        self,
        pool: Pool,
        device: str,
        handler: Handler,
        *,
        lease: Span | None = None,
        idle: Span = 1.0,
    ) -> None:
        """Creates the worker. As `tollgate.aio.Worker`, with a handler that blocks."""
        self._handler = handler
        self._inner = aio.Worker(pool._inner, device, self._handle, lease=lease, idle=idle)

    async def _handle(self, permit: aio.Permit) -> bytes | None:
        wrapped = Permit(permit)
        thread = asyncio.ensure_future(asyncio.to_thread(self._handler, wrapped))
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            await asyncio.wait([thread])
            raise

    def run(self) -> int:
        """Runs tasks until `stop`. As `tollgate.aio.Worker.run`."""
        return run(self._inner.run())

    def stop(self) -> None:
        """Lets `run` return after the running task. Any thread may call it."""
        loop().call_soon_threadsafe(self._inner.stop)
