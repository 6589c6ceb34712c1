"""Long waits, cut into calls that keep the ticket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

SLICE = 10.0
"""Longest wait of one call, in seconds."""
OVERLAP = 2.0
"""A call joins the queue this long before the one before it leaves. The ticket passes to it."""

GRACE = 0.5
"""How long a cancelled wait still takes an answer that is on its way, in seconds."""

Answer = TypeVar("Answer")


async def wait_in_slices(
    ask: Callable[[float], Awaitable[Answer]],
    is_final: Callable[[Answer], bool],
    wait: float,
    now: Callable[[], float],
    on_failure: Callable[[Callable[[], Awaitable[Answer | None]]], None],
) -> Answer:
    """Calls `ask(wait)` until an answer is final or the whole wait is over.

    Two calls overlap, so that the ticket stays in the queue. The answer of a call that has a
    successor counts only if it is final.

    A wait that fails or is cancelled passes a function to `on_failure`. The function cancels
    the calls, but only a moment later: an answer that is on its way says which lease the
    server has granted. It returns that answer once all calls have ended.
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
                result = answer.result()
                _cancel(running)
                return result
    except BaseException:
        on_failure(lambda: _ended(running, is_final))
        raise


def _cancel(running: list[asyncio.Task[Answer]]) -> None:
    for task in running:
        # Without this, an error of a call that nobody waits for is logged.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        task.cancel()


async def _ended(
    running: list[asyncio.Task[Answer]], is_final: Callable[[Answer], bool]
) -> Answer | None:
    """Ends calls; returns a final answer that arrives within a moment."""
    answer = None
    pending = set(running)
    timer = asyncio.get_running_loop().call_later(GRACE, _cancel, running)
    try:
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                ok = not task.cancelled() and task.exception() is None
                if ok and is_final(task.result()):
                    answer = task.result()
                    _cancel(running)
    finally:
        timer.cancel()
        _cancel(running)
    return answer


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
