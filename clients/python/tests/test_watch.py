from __future__ import annotations

import asyncio
import contextlib

import pytest

from tests.server import Server
from tollgate import Error, PoolEventKind
from tollgate.aio import Connection, Permit


async def test_a_watch_starts_at_its_cursor(any_connection: Connection, name: str) -> None:
    pool = any_connection.pool(name)
    for task in ("a", "b"):
        permit = await pool.admit("d", task)
        assert isinstance(permit, Permit)
        await permit.complete()
    async with pool.watch(after="0") as events:
        seen = [await anext(events) for _ in range(2)]
    assert [(e.kind.name, e.task) for e in seen] == [("ADMITTED", "a"), ("COMPLETED", "a")]
    async with pool.watch(after=seen[-1].cursor) as events:
        event = await anext(events)
    assert (event.kind, event.task) == (PoolEventKind.ADMITTED, "b")
    assert event.time is not None


async def test_a_watch_resumes_after_a_restart(redis_server: Server, name: str) -> None:
    own = Server(redis_server.folder, engine=redis_server.engine)
    try:
        async with Connection(own.address) as connection:
            pool = connection.pool(name)
            await pool.configure(capacity=1)
            async with pool.watch(after="0") as events:
                assert (await anext(events)).kind is PoolEventKind.CONFIGURED
                await asyncio.to_thread(own.stop)
                async with Connection(redis_server.address) as other:
                    await other.pool(name).configure(capacity=2)
                await asyncio.to_thread(own.start)
                event = await asyncio.wait_for(anext(events), 30)
                assert (event.kind, event.capacity) == (PoolEventKind.CONFIGURED, 2)
    finally:
        own.stop()


async def test_an_unknown_start_is_reported_as_a_gap(server: Server, name: str) -> None:
    """A stream that broke before its first event may have missed events."""
    own = Server(server.folder)
    try:
        async with Connection(own.address) as connection:
            pool = connection.pool(name)
            async with pool.watch() as events:
                waiting = asyncio.ensure_future(anext(events))
                await asyncio.sleep(0.5)
                await asyncio.to_thread(own.stop)
                await asyncio.to_thread(own.start)
                capacity = 0
                while not waiting.done():
                    capacity += 1
                    with contextlib.suppress(Error):
                        await pool.configure(capacity=capacity)
                    await asyncio.sleep(0.1)
                assert (await waiting).kind is PoolEventKind.GAP
                assert (await anext(events)).kind is PoolEventKind.CONFIGURED
    finally:
        own.stop()


async def test_a_bad_cursor_is_an_error(connection: Connection, name: str) -> None:
    async with connection.pool(name).watch(after="no cursor") as events:
        with pytest.raises(Error, match="INVALID_ARGUMENT"):
            await anext(events)
