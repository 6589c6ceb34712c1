"""The event loop of the blocking API: one background thread for each process."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, TypeVar

Result = TypeVar("Result")

_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}


def loop() -> asyncio.AbstractEventLoop:
    """Returns the loop of this process; the first call starts its thread."""
    with _lock:
        found = _loops.get(os.getpid())
        if found is None:
            found = asyncio.new_event_loop()
            name = "tollgate"
            threading.Thread(target=found.run_forever, name=name, daemon=True).start()
            _loops.clear()  # those of a parent process have no thread here
            _loops[os.getpid()] = found
        return found


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Runs work in the loop and waits for its result. An interrupt cancels the work.

    Raises RuntimeError in the thread of the loop, which would wait for itself.
    """
    if asyncio._get_running_loop() is loop():
        work.close()
        raise RuntimeError("a callback in the thread of the library must not make calls")
    future = asyncio.run_coroutine_threadsafe(work, loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def iterate(items: AsyncIterator[Result]) -> Iterator[Result]:
    """Iterates over asynchronous items."""

    async def following() -> tuple[Result] | None:
        async for item in items:
            return (item,)
        return None

    while True:
        found = run(following())
        if found is None:
            return
        yield found[0]
