from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2

from tests.fake import FakeServer, retry_info, with_details
from tollgate import CompleteVerdict, Error, LeaseLost, Retry, Violation
from tollgate import _methods as methods
from tollgate._time import Clock
from tollgate.aio import Connection, Permit
from tollgate.aio._caller import IN_FLIGHT
from tollgate.aio.rate import OnFailure
from tollgate.options import Budget
from tollgate.v1 import admission_pb2, lock_pb2, rate_pb2, sequence_pb2, stock_pb2

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
FAST = Retry(base=0.001, pause_max=0.002)
WATCH = admission_pb2.WatchPoolRequest(pool="p")
POOL = admission_pb2.GetPoolResponse(pool=admission_pb2.Pool(pool="p"))


@pytest.fixture
async def fake() -> AsyncIterator[FakeServer]:
    async with FakeServer() as server:
        yield server


def admission(seconds: float, replayed: bool = False) -> admission_pb2.AdmitTaskResponse:
    left = Duration()
    left.FromNanoseconds(int(seconds * 1e9))
    lease = admission_pb2.Lease(
        pool="p", device_id="d", task_id="t", fencing_token=7, expires_in=left
    )
    decision = admission_pb2.ADMIT_DECISION_ADMITTED
    return admission_pb2.AdmitTaskResponse(decision=decision, lease=lease, replayed=replayed)


async def test_unavailable_is_retried(fake: FakeServer) -> None:
    fake.play(methods.GET_POOL, UNAVAILABLE, UNAVAILABLE, POOL)
    async with Connection(fake.address, retry=FAST) as connection:
        await connection.pool("p").status()
    assert len(fake.requests) == 3


async def test_attempts_are_bounded(fake: FakeServer) -> None:
    fake.play(methods.GET_POOL, UNAVAILABLE)
    async with Connection(fake.address, retry=FAST) as connection:
        with pytest.raises(Error, match="UNAVAILABLE"):
            await connection.pool("p").status()
    assert len(fake.requests) == 5


async def test_the_budget_bounds_retries_of_many_calls(fake: FakeServer) -> None:
    fake.play(methods.GET_POOL, UNAVAILABLE)
    async with Connection(fake.address, retry=FAST) as connection:
        for _ in range(100):
            with pytest.raises(Error):
                await connection.pool("p").status()
    assert 100 < len(fake.requests) <= 100 + 10 + 20


def test_the_budget() -> None:
    budget = Budget(Retry(share=0.5, reserve=2))
    assert [budget.take() for _ in range(3)] == [True, True, False]
    budget.call()
    assert not budget.take()
    budget.call()
    assert [budget.take(), budget.take()] == [True, False]
    for _ in range(100):
        budget.call()
    assert [budget.take() for _ in range(3)] == [True, True, False]


async def test_retry_info_is_a_lower_bound(fake: FakeServer) -> None:
    fake.play(methods.GET_POOL, retry_info(EXHAUSTED, 0.3, "OVERLOADED"), POOL)
    before = time.monotonic()
    async with Connection(fake.address, retry=FAST) as connection:
        await connection.pool("p").status()
    assert time.monotonic() - before >= 0.3
    assert len(fake.requests) == 2


@pytest.mark.parametrize(
    "status", [EXHAUSTED, grpc.StatusCode.NOT_FOUND, retry_info(EXHAUSTED, 60)]
)
async def test_other_errors_are_not_retried(fake: FakeServer, status: grpc.StatusCode) -> None:
    fake.play(methods.GET_POOL, status)
    async with Connection(fake.address, retry=FAST) as connection:
        with pytest.raises(Error):
            await connection.pool("p").status()
    assert len(fake.requests) == 1


async def test_a_token_that_is_never_returned_ends_with_the_deadline() -> None:
    async def never() -> str:
        await asyncio.Event().wait()
        return ""

    async with Connection("127.0.0.1:1", token=never, deadline=0.05, retry=FAST) as connection:
        with pytest.raises(Error, match="TOKEN_LATE") as raised:
            await connection.pool("p").status()
        assert raised.value.code is grpc.StatusCode.DEADLINE_EXCEEDED
        with pytest.raises(Error, match="TOKEN_LATE"):
            async with connection._caller.stream(methods.WATCH_POOL, WATCH):
                pass


@pytest.mark.parametrize(("on_failure", "allowed"), [("open", True), ("closed", False)])
async def test_a_limiter_decides_after_one_deadline_without_a_turn(
    fake: FakeServer, on_failure: OnFailure, allowed: bool
) -> None:
    fake.play(methods.CHECK_RATE, rate_pb2.CheckRateResponse())
    async with Connection(fake.address, deadline=0.05) as connection:
        for _ in range(IN_FLIGHT):
            await connection._caller._turns.acquire()
        answer = await connection.rate("api", on_failure=on_failure).check("k")
    assert (answer.allowed, answer.degraded) == (allowed, True)
    assert not fake.requests


async def test_set_stock_is_never_repeated(fake: FakeServer) -> None:
    fake.play(methods.SET_STOCK, UNAVAILABLE)
    fake.play(methods.ADD_STOCK, UNAVAILABLE)
    async with Connection(fake.address, retry=FAST) as connection:
        with pytest.raises(Error):
            await connection.stock("s").set(1)
        with pytest.raises(Error):
            await connection.stock("s").add(1, request_id="")
    assert len(fake.requests) == 2


async def test_request_ids_are_kept_over_retries(fake: FakeServer) -> None:
    late = grpc.StatusCode.DEADLINE_EXCEEDED
    fake.play(methods.ADD_STOCK, late, stock_pb2.AddStockResponse())
    fake.play(methods.NEXT_SEQUENCE, UNAVAILABLE, sequence_pb2.NextSequenceResponse())
    fake.play(methods.CHECK_RATE, late, rate_pb2.CheckRateResponse(allowed=True))
    async with Connection(fake.address, retry=FAST) as connection:
        await connection.stock("s").add(1)
        await connection.sequence("n").next()
        await connection.rate("p").check("k")
    ids = [request.request_id for request in fake.requests]
    assert len(ids) == 6
    assert all(ids)
    assert ids[0::2] == ids[1::2]
    assert len(set(ids)) == 3


async def test_the_details_of_an_error(fake: FakeServer) -> None:
    bad = error_details_pb2.BadRequest()
    bad.field_violations.add(field="pool", description="is required")
    info = error_details_pb2.ErrorInfo(reason="WHY", domain="tollgate")
    retry = error_details_pb2.RetryInfo(retry_delay=Duration(seconds=2))
    status = with_details(grpc.StatusCode.INVALID_ARGUMENT, bad, info, retry)
    fake.play(methods.GET_POOL, status)
    async with Connection(fake.address) as connection:
        with pytest.raises(Error) as raised:
            await connection.pool("p").status()
    error = raised.value
    assert error.code is grpc.StatusCode.INVALID_ARGUMENT
    assert (error.reason, error.message) == ("WHY", "chosen")
    assert error.violations == (Violation("pool", "is required"),)
    assert error.retry_after == timedelta(seconds=2)


async def test_complete_is_repeated_until_its_verdict_is_known(fake: FakeServer) -> None:
    done = admission_pb2.CompleteTaskResponse(verdict=admission_pb2.COMPLETE_VERDICT_LATE)
    errors = [UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNKNOWN] * 8
    fake.play(methods.ADMIT_TASK, admission(0.1))
    fake.play(methods.COMPLETE_TASK, *errors, done)
    async with Connection(fake.address, retry=FAST) as connection:
        permit = await connection.pool("p").admit("d", "t", keep=False)
        assert isinstance(permit, Permit)
        assert await permit.complete() is CompleteVerdict.LATE
    assert len(fake.requests) == 26


async def test_a_failed_complete_keeps_the_lease(fake: FakeServer) -> None:
    fake.play(methods.ADMIT_TASK, admission(60))
    fake.play(methods.COMPLETE_TASK, grpc.StatusCode.INVALID_ARGUMENT)
    async with Connection(fake.address) as connection:
        permit = await connection.pool("p").admit("d", "t")
        assert isinstance(permit, Permit)
        with pytest.raises(Error):
            await permit.complete()
        assert permit.valid


async def test_renewals_fail_until_the_lease_is_lost(fake: FakeServer) -> None:
    fake.play(methods.ADMIT_TASK, admission(0.6))
    fake.play(methods.RENEW_TASK, UNAVAILABLE)
    async with Connection(fake.address) as connection:
        permit = await connection.pool("p").admit("d", "t")
        assert isinstance(permit, Permit)
        with pytest.raises(LeaseLost, match="expired"):
            async with permit:
                await asyncio.sleep(60)
    assert len(fake.requests) > 2


@pytest.mark.parametrize("verdict", ["EXPIRED", "COMPLETED", "STALE_TOKEN", "UNKNOWN"])
async def test_the_keeper_stops_at_the_first_other_answer(fake: FakeServer, verdict: str) -> None:
    answer = admission_pb2.RenewTaskResponse(verdict=f"RENEW_VERDICT_{verdict}")
    fake.play(methods.ADMIT_TASK, admission(0.6))
    fake.play(methods.RENEW_TASK, answer)
    async with Connection(fake.address) as connection:
        permit = await connection.pool("p").admit("d", "t")
        assert isinstance(permit, Permit)
        await asyncio.wait_for(permit.lost.wait(), 30)
        with pytest.raises(LeaseLost, match=verdict):
            permit.check()
    assert len(fake.requests) == 2


async def test_a_waiting_call_asks_what_is_left(fake: FakeServer) -> None:
    """The first answer arrives late, so only the replay tells how much of the lease is left."""
    clock = Clock()

    async def wait() -> None:
        if len(fake.requests) == 1:
            clock.advance(5)

    fake.on_request = wait
    fake.play(methods.ADMIT_TASK, admission(10), admission(9.5, replayed=True))
    async with Connection(fake.address, clock=clock) as connection:
        permit = await connection.pool("p").admit("d", "t", wait=8, keep=False)
        assert isinstance(permit, Permit)
        assert not permit.replayed
        assert 9 < permit.valid_for.total_seconds() < 9.5
    assert 7 <= fake.requests[0].max_wait.seconds <= 8
    assert not fake.requests[1].HasField("max_wait")


async def test_a_waiting_lock_asks_what_is_left(fake: FakeServer) -> None:
    clock = Clock()

    async def wait() -> None:
        if len(fake.requests) == 1:
            clock.advance(5)

    lease = lock_pb2.LockLease(name="l", owner="o", fencing_token=3)
    lease.expires_in.FromSeconds(10)
    outcome = lock_pb2.ACQUIRE_LOCK_OUTCOME_ACQUIRED
    fake.on_request = wait
    fake.play(methods.ACQUIRE_LOCK, lock_pb2.AcquireLockResponse(outcome=outcome, lease=lease))
    async with Connection(fake.address, clock=clock) as connection:
        await connection.lock("l").acquire(owner="o", wait=8, keep=False)
    assert len(fake.requests) == 2


async def test_a_dead_server_is_unavailable() -> None:
    async with Connection("127.0.0.1:1", retry=FAST) as connection:
        with pytest.raises(Error) as raised:
            await connection.pool("p").status()
    assert raised.value.code is UNAVAILABLE


async def test_token_and_namespace_are_sent(fake: FakeServer, tmp_path: object) -> None:
    tokens = iter(["one", "two"])
    fake.play(methods.GET_POOL, POOL)
    async with Connection(
        fake.address, token=lambda: next(tokens), namespace="acme"
    ) as connection:
        await connection.pool("p").status()
        await connection.pool("p").status()
    sent = [m["authorization"] for m in fake.metadata]
    assert sent == ["Bearer one", "Bearer two"]
    assert fake.metadata[0]["x-tollgate-namespace"] == "acme"
