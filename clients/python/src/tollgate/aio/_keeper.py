"""Renews leases and reports the end of leases: one task for all leases of a connection."""

from __future__ import annotations

import asyncio
import heapq
import logging
import random
from typing import TYPE_CHECKING

from tollgate.errors import Error

if TYPE_CHECKING:
    from tollgate._time import Clock
    from tollgate.aio._lease import LocalLease

_log = logging.getLogger("tollgate")

_TICK = 0.25
"""Longest sleep in seconds. Timers of the loop do not see that the machine slept."""
_RENEWALS = 200
"""Renewals at a time; the further ones follow as these are answered."""


class Keeper:
    """A heap of leases by the moment of their next step."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._heap: list[tuple[float, int, LocalLease]] = []
        self._number = 0
        self._stale = 0
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._renewals: set[asyncio.Task[None]] = set()

    def watch(self, lease: LocalLease) -> None:
        """Plans the next step of a lease, which replaces the planned one."""
        if lease.planned:
            self._stale += 1
        due = lease.expiry if lease.renew_at is None else min(lease.renew_at, lease.expiry)
        self._number += 1
        lease.planned = self._number
        heapq.heappush(self._heap, (due, self._number, lease))
        if self._heap[0][2] is lease:
            self._wake.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    def forget(self, lease: LocalLease) -> None:
        """Drops the planned step of a lease."""
        if not lease.planned:
            return
        lease.planned = 0
        self._stale += 1
        if self._stale > 64 and self._stale * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[1] == entry[2].planned]
            heapq.heapify(self._heap)
            self._stale = 0

    async def close(self) -> None:
        """Ends all renewals. The leases are lost here, and end at the server at their expiry."""
        tasks = [task for task in (self._task, *self._renewals) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        heap, self._heap = self._heap, []
        for _, number, lease in heap:
            if number == lease.planned:
                lease.lose("closed")

    async def _run(self) -> None:
        while self._heap:
            self._wake.clear()
            due, number, lease = self._heap[0]
            if number != lease.planned:
                heapq.heappop(self._heap)
                self._stale -= 1
                continue
            now = self.clock.now()
            if due > now:
                await self._sleep(min(due - now, _TICK))
                continue
            if now < lease.expiry and len(self._renewals) >= _RENEWALS:
                await self._sleep(0.01)
                continue
            heapq.heappop(self._heap)
            lease.planned = 0
            self._step(lease, now)

    async def _sleep(self, seconds: float) -> None:
        timer = asyncio.get_running_loop().call_later(seconds, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    def _step(self, lease: LocalLease, now: float) -> None:
        if now >= lease.expiry:
            lease.lose("expired")
            return
        lease.renew_at = None
        self.watch(lease)  # for its expiry, while the renewal runs
        renewal = asyncio.create_task(self._renew(lease))
        self._renewals.add(renewal)
        renewal.add_done_callback(self._renewals.discard)

    async def _renew(self, lease: LocalLease) -> None:
        before = self.clock.now()
        try:
            answer = await lease.renew_once(max(lease.expiry - before, 0.001))
        except Exception as error:  # also those of a token function
            if not isinstance(error, Error):
                _log.warning("a renewal of %s failed: %r", lease.what, error)
            if lease.held:
                self._retry(lease, error)
            return
        if not lease.held:
            return
        if isinstance(answer, str):
            lease.lose(answer)
            return
        lease.failures = 0
        lease.extend(before, answer)

    def _retry(self, lease: LocalLease, error: Exception) -> None:
        lease.failures += 1
        third = lease.length / 3
        pause = min(0.05 * 2.0 ** min(lease.failures, 6), third) * random.uniform(0.5, 1.0)
        if isinstance(error, Error) and error.retry_after is not None:
            pause = min(max(pause, error.retry_after.total_seconds()), third)
        lease.renew_at = self.clock.now() + pause
        self.watch(lease)
