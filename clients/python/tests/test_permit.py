from __future__ import annotations

import asyncio

import pytest

from tests.server import Server
from tollgate import (
    AlreadyCompleted,
    CompleteVerdict,
    EvictVerdict,
    Full,
    LeaseLost,
    Outcome,
    PoolEventKind,
)
from tollgate._time import Clock
from tollgate.aio import Connection, Permit, Pool


async def admitted(pool: Pool, task: str = "t", **options: object) -> Permit:
    answer = await pool.admit("d", task, **options)  # type: ignore[arg-type]
    assert isinstance(answer, Permit)
    return answer


async def test_admit_complete_and_repeat(any_connection: Connection, name: str) -> None:
    pool = any_connection.pool(name)
    await pool.configure(capacity=1)
    permit = await admitted(pool)
    assert permit.valid
    assert permit.token > 0
    assert not permit.replayed
    repeat = await admitted(pool)
    assert (repeat.token, repeat.replayed) == (permit.token, True)
    full = await pool.admit("d2", "t")
    assert isinstance(full, Full)
    assert full.retry_after is not None
    assert await permit.complete(result=b"done") is CompleteVerdict.COMPLETED
    assert await permit.complete() is CompleteVerdict.COMPLETED
    assert not permit.valid
    assert not permit.is_lost
    assert isinstance(await pool.admit("d", "t"), AlreadyCompleted)


async def test_the_local_end_is_before_the_servers(connection: Connection, name: str) -> None:
    permit = await admitted(connection.pool(name), lease=10, keep=False)
    assert 9 < permit.valid_for.total_seconds() <= 9.8


async def test_the_keeper_renews(connection: Connection, name: str) -> None:
    pool = connection.pool(name)
    permit = await admitted(pool, lease=0.5)
    await asyncio.wait_for(renewals(pool, 3), 30)
    assert permit.valid
    assert await permit.complete() is CompleteVerdict.COMPLETED


async def renewals(pool: Pool, count: int) -> None:
    async with pool.watch(after="0") as events:
        async for event in events:
            count -= event.kind is PoolEventKind.RENEWED
            if count == 0:
                return


async def test_an_unkept_permit_is_lost_at_its_end(connection: Connection, name: str) -> None:
    permit = await admitted(connection.pool(name), lease=0.2, keep=False)
    await asyncio.wait_for(permit.lost.wait(), 30)
    assert permit.is_lost
    assert permit.valid_for.total_seconds() == 0
    with pytest.raises(LeaseLost, match="expired"):
        permit.check()


async def test_a_jump_of_the_clock_loses_the_permit(
    connection: Connection, name: str, clock: Clock
) -> None:
    permit = await admitted(connection.pool(name), lease=60)
    calls: list[int] = []
    permit.on_lost(lambda: calls.append(1))
    assert permit.valid
    clock.advance(61)
    assert not permit.valid  # before any timer
    assert permit.lost.is_set()
    assert calls == [1]
    assert await permit.complete() is CompleteVerdict.COMPLETED  # the server's clock decides


async def test_a_jump_is_seen_without_a_look(
    connection: Connection, name: str, clock: Clock
) -> None:
    permit = await admitted(connection.pool(name), lease=60)
    lost = permit.lost
    clock.advance(61)
    await asyncio.wait_for(lost.wait(), 30)


async def test_the_scope_is_cancelled_on_loss(connection: Connection, name: str) -> None:
    pool = connection.pool(name)
    permit = await admitted(pool, lease=0.5)
    verdict, replayed = await pool.evict("d", "t")
    assert (verdict, replayed) == (EvictVerdict.EVICTED, False)
    with pytest.raises(LeaseLost, match="EXPIRED") as raised:
        async with permit:
            await asyncio.sleep(60)
    assert permit.is_lost
    assert isinstance(raised.value.__cause__, asyncio.CancelledError)
    task = asyncio.current_task()
    assert task is not None
    await asyncio.sleep(0)  # no cancellation is left


async def test_a_lost_permit_cannot_be_entered(connection: Connection, name: str) -> None:
    permit = await admitted(connection.pool(name), lease=0.1, keep=False)
    await permit.lost.wait()
    with pytest.raises(LeaseLost):
        await permit.__aenter__()


async def test_a_cancellation_from_outside_stays_one(connection: Connection, name: str) -> None:
    pool = connection.pool(name)
    entered = asyncio.Event()

    async def work() -> None:
        async with await admitted(pool):
            entered.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await pool.status()).usage.in_use == 0  # completed as FAILED


async def test_an_error_completes_as_failed(connection: Connection, name: str) -> None:
    pool = connection.pool(name)
    permit = await admitted(pool)
    with pytest.raises(ZeroDivisionError):
        async with permit:
            _ = 1 // 0
    async with pool.watch(after="0") as events:
        async for event in events:
            if event.kind is PoolEventKind.COMPLETED:
                assert event.outcome is Outcome.FAILED
                break


async def test_a_scope_without_result_lets_the_lease_end(
    connection: Connection, name: str
) -> None:
    pool = connection.pool(name)
    async with await admitted(pool, lease=0.5) as permit:
        assert permit.valid
    assert not permit.valid
    async with pool.watch(after="0") as events:
        async for event in events:
            assert event.kind is not PoolEventKind.RENEWED
            if event.kind is PoolEventKind.EXPIRED:
                break
    assert await permit.complete() is CompleteVerdict.LATE


async def test_the_keeper_survives_a_restart(
    server: Server, connection: Connection, folder: object, name: str
) -> None:
    own = Server(server.folder)
    try:
        async with Connection(own.address) as other:
            permit = await admitted(other.pool(name), lease=2)
            await asyncio.to_thread(own.stop)
            await asyncio.to_thread(own.start)
            # The embedded engine forgot the lease: the keeper gets an answer and reports it.
            await asyncio.wait_for(permit.lost.wait(), 30)
            assert await permit.complete() is CompleteVerdict.UNKNOWN
    finally:
        own.stop()


async def test_completed_permits_leave_the_keeper(connection: Connection, name: str) -> None:
    pool = connection.pool(name)
    for number in range(500):
        async with await admitted(pool, f"t-{number}") as permit:
            await permit.complete()
    assert len(connection._keeper._heap) < 200
