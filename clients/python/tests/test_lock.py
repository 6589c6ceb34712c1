from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tollgate import Held, LeaseLost, ReleaseLockOutcome
from tollgate._time import Clock
from tollgate.aio import Connection, Lock, LockLease


async def acquired(lock: Lock, **options: object) -> LockLease:
    answer = await lock.acquire(**options)  # type: ignore[arg-type]
    assert isinstance(answer, LockLease)
    return answer


async def test_one_owner_at_a_time(any_connection: Connection, name: str) -> None:
    lock = any_connection.lock(name)
    async with await acquired(lock, owner="a", lease=30) as first:
        repeat = await acquired(lock, owner="a", lease=30)
        assert (repeat.token, repeat.replayed) == (first.token, True)
        repeat.stop()
        held = await lock.acquire()
        assert isinstance(held, Held)
        assert held.holder == "a"
        assert held.retry_after is not None
        assert timedelta(0) < held.retry_after <= timedelta(seconds=31)
        assert await lock.holder() == "a"
    assert await lock.holder() is None
    second = await acquired(lock)
    assert second.token > first.token
    assert second.owner != "a"
    assert await second.release() is ReleaseLockOutcome.RELEASED
    assert await second.release() is ReleaseLockOutcome.RELEASED


async def test_a_waiter_gets_the_lock(any_connection: Connection, name: str) -> None:
    lock = any_connection.lock(name)
    first = await acquired(lock)
    waiting = asyncio.create_task(acquired(lock, wait=30))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    await first.release()
    async with await waiting as second:
        assert second.token > first.token


async def test_the_keeper_renews(any_connection: Connection, name: str) -> None:
    lock = any_connection.lock(name)
    lease = await acquired(lock, lease=0.4)
    await asyncio.sleep(1.2)  # three leases
    assert lease.valid
    assert await lock.holder() == lease.owner
    await lease.release()


async def test_an_error_releases_the_lock(connection: Connection, name: str) -> None:
    lock = connection.lock(name)
    with pytest.raises(ZeroDivisionError):
        async with await acquired(lock):
            _ = 1 // 0
    assert await lock.holder() is None


async def test_a_lost_lock_interrupts_the_scope(
    connection: Connection, name: str, clock: Clock
) -> None:
    lease = await acquired(connection.lock(name), lease=30)
    asyncio.get_running_loop().call_later(0.1, clock.advance, 31)
    with pytest.raises(LeaseLost):
        async with lease:
            await asyncio.sleep(60)
    assert lease.is_lost


async def test_a_release_after_the_end_is_not_held(connection: Connection, name: str) -> None:
    lease = await acquired(connection.lock(name), lease=0.1, keep=False)
    await lease.lost.wait()
    await asyncio.sleep(0.1)  # the margin
    assert await lease.release() is ReleaseLockOutcome.NOT_HELD
