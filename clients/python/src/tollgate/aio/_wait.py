"""Long waits, cut into calls that keep the ticket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

SLICE = 10.0
"""Longest wait of one call, in seconds."""
OVERLAP = 2.0
"""A call joins the queue this long before the one before it leaves. The ticket passes to it."""

Answer = TypeVar("Answer")


async def wait_in_slices(
    ask: Callable[[float], Awaitable[Answer]],
    is_final: Callable[[Answer], bool],
    wait: float,
    now: Callable[[], float],
) -> Answer:
    """Calls `ask(wait)` until an answer is final or the whole wait is over.

    Two calls overlap, so that the ticket stays in the queue. The answer of a call that has a
    successor counts only if it is final.
    """
    end = now() + wait
    running: list[asyncio.Task[Answer]] = []
    try:
        while True:
            left = max(end - now(), 0.0)
            last = left <= SLICE
            running.append(asyncio.ensure_future(_awaited(ask(min(left, SLICE)))))
            answer = await _first_final(running, is_final, None if last else SLICE - OVERLAP)
            if answer is not None:
                return answer.result()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _awaited(call: Awaitable[Answer]) -> Answer:
    return await call


async def _first_final(
    running: list[asyncio.Task[Answer]],
    is_final: Callable[[Answer], bool],
    timeout: float | None,
) -> asyncio.Task[Answer] | None:
    """Returns the task that decides; None if the newest one shall get a successor."""
    loop = asyncio.get_running_loop()
    end = None if timeout is None else loop.time() + timeout
    while True:
        left = None if end is None else max(end - loop.time(), 0.0)
        done, _ = await asyncio.wait(running, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            return None
        for task in done:
            newest = task is running[-1]
            running.remove(task)
            if newest or (task.exception() is None and is_final(task.result())):
                return task
