from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone

import pytest

from tests.fake import FakeServer
from tests.server import Server
from tollgate import (
    AlreadyCompleted,
    AttemptEnd,
    CancelVerdict,
    CompleteVerdict,
    EnqueueStatus,
    Error,
    Full,
    NoTask,
    Outcome,
    Paused,
    QueuedTask,
    RenewVerdict,
    RequeueVerdict,
    TaskState,
)
from tollgate import _methods as methods
from tollgate.aio import AdmitItem, CompleteItem, Connection, Permit, RenewItem, _wait
from tollgate.v1 import admission_pb2


async def test_settings_and_refusals(any_connection: Connection, name: str) -> None:
    pool = any_connection.pool(name)
    status = await pool.configure(capacity=3, lease=timedelta(seconds=7), grace=1.5)
    assert (status.usage.capacity, status.lease) == (3, timedelta(seconds=7))
    assert status.grace == timedelta(seconds=1.5)
    await pool.configure(paused=True)
    paused = await pool.admit("d", "t")
    assert isinstance(paused, Paused)
    assert paused.retry_after is not None
    assert (await pool.status()).paused
    status = await pool.configure(reset=True)
    assert (status.usage.capacity, status.overrides) == (60, ())
    assert isinstance(await pool.poll("d"), NoTask)


async def test_a_bad_field_is_an_error(any_connection: Connection) -> None:
    with pytest.raises(Error) as raised:
        await any_connection.pool("").admit("", "t", lease=0.001)
    fields = {violation.field for violation in raised.value.violations}
    assert fields == {"pool", "device_id", "lease_duration"}


async def test_queued_tasks(any_connection: Connection, name: str) -> None:
    pool = any_connection.pool(name)
    past = datetime.now(timezone.utc) - timedelta(minutes=1)
    tasks = [
        QueuedTask("d", "one", b"payload"),
        QueuedTask("d", "two"),
        QueuedTask("d", "one"),
        QueuedTask("d", "old", expire_time=past),
    ]
    statuses = await pool.enqueue(tasks)
    assert [status.name for status in statuses] == ["ENQUEUED", "ENQUEUED", "DUPLICATE", "EXPIRED"]
    permit = await pool.poll("d", lease=10)
    assert isinstance(permit, Permit)
    assert permit.dispatched is not None
    assert (permit.dispatched.task, permit.dispatched.payload) == ("one", b"payload")
    assert permit.dispatched.attempt == 1
    states = [(task.task, task.state) async for task in pool.tasks()]
    assert states == [("one", TaskState.RUNNING), ("two", TaskState.QUEUED)]
    assert [lease.task async for lease in pool.leases()] == ["one"]
    assert name in [found.pool async for found in any_connection.pools()]
    assert await permit.complete(Outcome.FAILED) is CompleteVerdict.COMPLETED
    assert await pool.cancel("d", "two") == (CancelVerdict.CANCELLED, False)
    assert await pool.requeue("d", "two") is RequeueVerdict.NOT_DEAD
    assert await pool.requeue("d", "one") is RequeueVerdict.ALREADY_QUEUED
    again = await pool.poll("d")
    assert isinstance(again, Permit)
    assert again.dispatched is not None
    assert again.dispatched.attempt == 2
    await again.complete()
    assert isinstance(await pool.poll("d"), NoTask)


async def test_a_dead_task_is_queued_again(any_connection: Connection, name: str) -> None:
    pool = any_connection.pool(name)
    await pool.configure(max_attempts=1)
    await pool.enqueue([QueuedTask("d", "t", b"payload")])
    permit = await pool.poll("d")
    assert isinstance(permit, Permit)
    await permit.complete(Outcome.FAILED)
    dead = [(task.task, task.last_attempt_end) async for task in pool.tasks(TaskState.DEAD)]
    assert dead == [("t", AttemptEnd.FAILED)]
    assert await pool.requeue("d", "t") is RequeueVerdict.REQUEUED
    again = await pool.poll("d")
    assert isinstance(again, Permit)
    assert again.dispatched is not None
    assert (again.dispatched.payload, again.dispatched.attempt) == (b"payload", 1)
    await again.complete()


async def test_more_than_a_thousand_tasks_are_queued(connection: Connection, name: str) -> None:
    tasks = [QueuedTask("d", f"t-{n}", bytes(5000)) for n in range(1500)]
    statuses = await connection.pool(name).enqueue(tasks)
    assert statuses == [EnqueueStatus.ENQUEUED] * 1500
    assert (await connection.pool(name).status()).queued == 1500


async def test_calls_without_a_permit(any_connection: Connection, name: str) -> None:
    pool = any_connection.pool(name)
    permit = await pool.admit("d", "t", keep=False)
    assert isinstance(permit, Permit)
    verdict, left = await pool.renew("d", "t", token=permit.token, lease=20)
    assert verdict is RenewVerdict.RENEWED
    assert timedelta(seconds=19) < left <= timedelta(seconds=20)
    verdict, left = await pool.renew("d", "t", token=permit.token + 1)
    assert (verdict, left) == (RenewVerdict.STALE_TOKEN, timedelta())
    stale = await pool.complete("d", "t", token=permit.token + 1)
    assert stale is CompleteVerdict.STALE_TOKEN
    done = await pool.complete("d", "t", token=permit.token)
    assert done is CompleteVerdict.COMPLETED
    permit.stop()


async def test_a_waiting_call_gets_the_freed_slot(any_connection: Connection, name: str) -> None:
    pool = any_connection.pool(name)
    await pool.configure(capacity=1)
    first = await pool.admit("d1", "t")
    assert isinstance(first, Permit)
    waiting = asyncio.create_task(pool.admit("d2", "t", wait=30))
    while (await pool.status()).waiters == 0:
        await asyncio.sleep(0.01)
    await first.complete()
    second = await waiting
    assert isinstance(second, Permit)
    await second.complete()


async def test_a_wait_that_is_too_short_is_full(connection: Connection, name: str) -> None:
    pool = connection.pool(name)
    await pool.configure(capacity=1)
    assert isinstance(await pool.admit("d1", "t"), Permit)
    assert isinstance(await pool.admit("d2", "t", wait=0.2), Full)


async def test_a_long_wait_keeps_its_ticket(
    any_connection: Connection, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_wait, "SLICE", 0.4)
    monkeypatch.setattr(_wait, "OVERLAP", 0.2)
    pool = any_connection.pool(name)
    await pool.configure(capacity=1)
    holder = await pool.admit("d0", "t")
    assert isinstance(holder, Permit)
    early = asyncio.create_task(pool.admit("early", "t", wait=30))
    while (await pool.status()).waiters < 1:
        await asyncio.sleep(0.01)
    late = asyncio.create_task(pool.admit("late", "t", wait=30))
    await asyncio.sleep(1.5)  # several slices
    await holder.complete()
    first = await early
    assert isinstance(first, Permit)
    assert not late.done()
    await first.complete()
    second = await late
    assert isinstance(second, Permit)
    await second.complete()


async def test_waits_do_not_hinder_renewals(server: Server, name: str) -> None:
    async with Connection(server.address) as connection:
        pool = connection.pool(name)
        await pool.configure(capacity=1)
        permit = await pool.admit("d", "t", lease=0.5)
        assert isinstance(permit, Permit)
        waits = [
            asyncio.create_task(pool.admit(f"w-{n}", "t", wait=60, keep=False)) for n in range(450)
        ]
        while (await pool.status()).waiters < 450:
            await asyncio.sleep(0.05)
        assert len(connection._caller.transport._endpoints[0].waiting) == 3
        await asyncio.sleep(1)  # two leases
        assert permit.valid
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        await permit.complete()


async def test_bulk_calls(any_connection: Connection, name: str) -> None:
    items = [AdmitItem(name, f"d-{n}", "t", lease=30) for n in range(3)]
    items.append(AdmitItem("", "d", "t"))
    answers = await any_connection.admit_many(items)
    permits = [answer for answer in answers if isinstance(answer, Permit)]
    assert len(permits) == 3
    assert isinstance(answers[3], Error)
    assert answers[3].violations
    renewals = await any_connection.renew_many(
        [RenewItem(name, p.device, p.task, p.token, 20) for p in permits]
    )
    assert [not isinstance(r, Error) and r.verdict.name for r in renewals] == ["RENEWED"] * 3
    verdicts = await any_connection.complete_many(
        [CompleteItem(name, p.device, p.task, p.token) for p in permits]
    )
    assert verdicts == [CompleteVerdict.COMPLETED] * 3
    again = await any_connection.admit_many(items[:1])
    assert isinstance(again[0], AlreadyCompleted)
    for permit in permits:
        permit.stop()


async def test_bulk_calls_are_split() -> None:
    done = admission_pb2.COMPLETE_VERDICT_COMPLETED
    result = admission_pb2.CompleteTaskResult(
        response=admission_pb2.CompleteTaskResponse(verdict=done)
    )
    parts = [
        admission_pb2.CompleteTasksResponse(results=[result] * count) for count in (1000, 500)
    ]
    async with FakeServer() as fake:
        fake.play(methods.COMPLETE_TASKS, *parts)
        async with Connection(fake.address) as connection:
            items = [CompleteItem("p", "d", f"t-{n}") for n in range(1500)]
            verdicts = await connection.complete_many(items)
    assert verdicts == [CompleteVerdict.COMPLETED] * 1500
    assert [len(request.requests) for request in fake.requests] == [1000, 500]
