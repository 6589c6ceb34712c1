from __future__ import annotations

import asyncio

import pytest

from tollgate import CompleteVerdict, Error, QueuedTask, TaskState
from tollgate.aio import Connection, Permit, Worker


async def run_until(worker: Worker, stop: asyncio.Event) -> int:
    running = asyncio.create_task(worker.run())
    await asyncio.wait_for(stop.wait(), 30)
    worker.stop()
    return await running


async def test_a_worker_runs_the_queue_in_order(any_connection: Connection, name: str) -> None:
    pool = any_connection.pool(name)
    await pool.enqueue([QueuedTask("d", f"t-{n}", str(n).encode()) for n in range(5)])
    seen: list[bytes] = []
    stop = asyncio.Event()

    async def handle(permit: Permit) -> bytes:
        assert permit.dispatched is not None
        seen.append(permit.dispatched.payload)
        if len(seen) == 5:
            stop.set()
        return b"result"

    worker = Worker(pool, "d", handle, idle=0.05)
    assert await run_until(worker, stop) == 5  # the running task was drained
    assert seen == [b"0", b"1", b"2", b"3", b"4"]
    assert (await pool.status()).usage.in_use == 0


async def test_a_failing_task_is_dispatched_again(connection: Connection, name: str) -> None:
    pool = connection.pool(name)
    await pool.configure(max_attempts=2)
    await pool.enqueue([QueuedTask("d", "t")])
    attempts: list[int] = []
    stop = asyncio.Event()

    async def handle(permit: Permit) -> None:
        assert permit.dispatched is not None
        attempts.append(permit.dispatched.attempt)
        if len(attempts) == 2:
            stop.set()
        raise ValueError("it failed")

    assert await run_until(Worker(pool, "d", handle, idle=0.05), stop) == 2
    assert attempts == [1, 2]
    assert [task.task async for task in pool.tasks(TaskState.DEAD)] == ["t"]


async def test_a_lost_lease_cancels_the_handler(connection: Connection, name: str) -> None:
    pool = connection.pool(name)
    await pool.enqueue([QueuedTask("d", "t")])
    started = asyncio.Event()
    verdicts: list[CompleteVerdict | None] = []

    async def handle(permit: Permit) -> None:
        started.set()
        await asyncio.sleep(60)

    def done(permit: Permit, verdict: CompleteVerdict | None) -> None:
        verdicts.append(verdict)
        worker.stop()

    worker = Worker(pool, "d", handle, lease=0.5, on_done=done)
    running = asyncio.create_task(worker.run())
    await asyncio.wait_for(started.wait(), 30)
    await pool.evict("d", "t")
    await asyncio.wait_for(running, 30)
    assert verdicts == [None]


async def test_a_worker_waits_while_the_pool_is_full(connection: Connection, name: str) -> None:
    pool = connection.pool(name)
    await pool.configure(capacity=1)
    other = await pool.admit("other", "t", lease=0.3, keep=False)
    assert isinstance(other, Permit)
    await pool.enqueue([QueuedTask("d", "t")])
    stop = asyncio.Event()

    async def handle(permit: Permit) -> None:
        stop.set()

    assert await run_until(Worker(pool, "d", handle), stop) == 1
    other.stop()


async def test_a_bad_device_ends_the_worker(connection: Connection, name: str) -> None:
    async def handle(permit: Permit) -> None:
        raise AssertionError

    with pytest.raises(Error, match="INVALID_ARGUMENT"):
        await Worker(connection.pool(name), "", handle).run()
