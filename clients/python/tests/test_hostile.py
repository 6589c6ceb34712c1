"""Odd arguments, odd answers, and the end of a connection under running calls."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from tests.fake import FakeServer
from tests.server import Server
from tollgate import Error, LeaseLost, QueuedTask, Tls, aio, blocking
from tollgate import _methods as methods
from tollgate.v1 import admission_pb2 as pb

CANCELLING = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="Python 3.10 cannot tell who cancels a task"
)


def admitted(seconds: int) -> pb.AdmitTaskResponse:
    left = Duration(seconds=seconds)
    lease = pb.Lease(pool="p", device_id="d", task_id="t", fencing_token=5, expires_in=left)
    return pb.AdmitTaskResponse(decision=pb.ADMIT_DECISION_ADMITTED, lease=lease)


@CANCELLING
async def test_close_fails_waiting_calls_with_an_error(server: Server, name: str) -> None:
    connection = aio.Connection(server.address)
    pool = connection.pool(name)
    await pool.configure(capacity=1)
    await pool.admit("d", "holder")
    waits = [asyncio.create_task(pool.admit("d", f"t{n}", wait=30)) for n in range(20)]
    while (await pool.status()).waiters < 20:
        await asyncio.sleep(0.01)
    await connection.close()
    for error in await asyncio.gather(*waits, return_exceptions=True):
        assert isinstance(error, Error)
        assert error.reason == "CONNECTION_CLOSED"


@CANCELLING
async def test_a_cancelled_call_stays_cancelled(server: Server, name: str) -> None:
    async with aio.Connection(server.address) as connection:
        pool = connection.pool(name)
        await pool.configure(capacity=1)
        await pool.admit("d", "holder")
        wait = asyncio.create_task(pool.admit("d", "t", wait=30))
        while (await pool.status()).waiters < 1:
            await asyncio.sleep(0.01)
        wait.cancel()
        with pytest.raises(asyncio.CancelledError):
            await wait


async def test_a_connection_that_was_closed_before_its_first_call_fails(server: Server) -> None:
    connection = aio.Connection(server.address)
    await connection.close()
    for call in (connection.pool("p").admit("d", "t"), connection.pool("p").watch().__anext__()):
        with pytest.raises(Error) as caught:
            await call
        assert caught.value.reason == "CONNECTION_CLOSED"


async def test_close_ends_watches_and_workers(server: Server, name: str) -> None:
    connection = aio.Connection(server.address)
    pool = connection.pool(name)
    reported = asyncio.Event()

    async def run(_: aio.Permit) -> None:
        reported.set()

    await pool.enqueue([QueuedTask("d", "t")])
    watch = asyncio.ensure_future(pool.watch().__anext__())
    worker = asyncio.create_task(aio.Worker(pool, "d", run, idle=0.01).run())
    await reported.wait()
    await connection.close()
    watch_end, worker_end = await asyncio.gather(watch, worker, return_exceptions=True)
    assert isinstance(worker_end, Error)
    assert worker_end.reason == "CONNECTION_CLOSED"
    assert not isinstance(watch_end, asyncio.CancelledError)


async def test_close_loses_the_held_leases(server: Server, name: str) -> None:
    connection = aio.Connection(server.address)
    permit = await connection.pool(name).admit("d", "t")
    assert isinstance(permit, aio.Permit)
    lost, entered = permit.lost, asyncio.Event()

    async def work() -> None:
        async with permit:
            entered.set()
            await asyncio.Event().wait()

    running = asyncio.create_task(work())
    await entered.wait()
    await connection.close()
    assert lost.is_set()
    assert not permit.valid
    with pytest.raises(LeaseLost, match="closed"):
        await running


async def test_an_unreadable_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(_: bytes) -> Any:
        raise ValueError("not a message")

    monkeypatch.setattr(methods.Method, "parse", property(lambda _: unreadable))
    async with FakeServer() as fake, aio.Connection(fake.address) as connection:
        fake.play(methods.ADMIT_TASK, admitted(9))
        fake.play(methods.COMPLETE_TASK, pb.CompleteTaskResponse())
        pool = connection.pool("p")
        for call in (pool.admit("d", "t"), pool.admit("d", "t", wait=1), pool.complete("d", "t")):
            with pytest.raises(Error) as caught:
                await call
            assert caught.value.code is grpc.StatusCode.INTERNAL
            assert caught.value.reason == "ANSWER_UNREADABLE"


async def test_bulk_answers_that_do_not_fit_are_errors() -> None:
    async with FakeServer() as fake, aio.Connection(fake.address) as connection:
        items = [aio.AdmitItem("p", "d", "t"), aio.AdmitItem("p", "d", "u")]
        known = pb.AdmitTaskResult(response=admitted(9))
        fake.play(methods.ADMIT_TASKS, pb.AdmitTasksResponse(results=[known]))
        with pytest.raises(Error, match="1 answers for 2 items"):
            await connection.admit_many(items)
        unknown = pb.AdmitTaskResult(response=pb.AdmitTaskResponse(decision=99))  # type: ignore[arg-type,unused-ignore]
        fake.play(methods.ADMIT_TASKS, pb.AdmitTasksResponse(results=[unknown, known]))
        first, second = await connection.admit_many(items)
        assert isinstance(first, Error)
        assert (first.code, first.reason) == (grpc.StatusCode.INTERNAL, "ANSWER_UNKNOWN")
        assert isinstance(second, aio.Permit)


async def test_a_token_function_that_fails_once_does_not_end_the_renewals() -> None:
    failing: list[BaseException] = []

    def token() -> str:
        if failing:
            raise failing.pop()
        return "token"

    async with FakeServer() as fake, aio.Connection(fake.address, token=token) as connection:
        fake.play(methods.ADMIT_TASK, admitted(2))
        renewed = pb.RenewTaskResponse(verdict=pb.RENEW_VERDICT_RENEWED, lease=admitted(60).lease)
        fake.play(methods.RENEW_TASK, renewed)
        permit = await connection.pool("p").admit("d", "t")
        assert isinstance(permit, aio.Permit)
        failing.append(RuntimeError("no token"))
        while permit.valid and permit.valid_for.total_seconds() < 10:
            await asyncio.sleep(0.01)
        assert not failing
        assert permit.valid


async def test_a_failing_callback_does_not_end_the_keeper() -> None:
    def failing() -> None:
        raise RuntimeError("chosen")

    async with FakeServer() as fake, aio.Connection(fake.address) as connection:
        fake.play(methods.ADMIT_TASK, admitted(1))
        permits = [await connection.pool("p").admit("d", "t", keep=False) for _ in range(3)]
        for permit in permits:
            assert isinstance(permit, aio.Permit)
            permit.on_lost(failing)
        last = permits[-1]
        assert isinstance(last, aio.Permit)
        await last.lost.wait()
        assert last.is_lost


async def test_concurrent_results_have_one_verdict(server: Server, name: str) -> None:
    async with aio.Connection(server.address) as connection:
        permit = await connection.pool(name).admit("d", "t")
        assert isinstance(permit, aio.Permit)
        verdicts = await asyncio.gather(*(permit.complete() for _ in range(5)))
        assert set(verdicts) == {permit.verdict}


@pytest.mark.parametrize("token", ["", "a\nb", "caf\u00e9", "\0"])
async def test_a_malformed_token_is_an_error(server: Server, token: str) -> None:
    async with aio.Connection(server.address, token=lambda: token) as connection:
        with pytest.raises(Error) as caught:
            await connection.pool("p").admit("d", "t")
        assert caught.value.reason == "TOKEN_MALFORMED"


async def test_a_binary_token_file_is_an_error(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(b"\xff\xfe\0")
    async with aio.Connection(server.address, token_file=file) as connection:
        with pytest.raises(Error) as caught:
            await connection.pool("p").admit("d", "t")
        assert caught.value.reason == "TOKEN_MALFORMED"


def test_options_that_no_call_can_use_are_refused() -> None:
    with pytest.raises(ValueError, match="namespace"):
        aio.Connection("localhost:1", namespace="a\nb")
    with pytest.raises(ValueError, match="cert and key"):
        Tls(cert="client.crt")
    with pytest.raises(ValueError, match="cert and key"):
        Tls(key="client.key")


def test_a_call_in_the_thread_of_the_library_is_refused(server: Server, name: str) -> None:
    refused: list[BaseException] = []
    done = threading.Event()
    with blocking.Connection(server.address) as connection:
        pool = connection.pool(name)
        permit = pool.admit("d", "t", lease=0.2, keep=False)
        assert isinstance(permit, blocking.Permit)

        def call() -> None:
            try:
                pool.status()
            except RuntimeError as error:
                refused.append(error)
            finally:
                done.set()

        permit.on_lost(call)
        assert done.wait(30)
    assert "must not make calls" in str(refused[0])


def test_calls_after_a_fork_are_refused(server: Server, name: str) -> None:
    program = f"""
import os
from tollgate import blocking

def attempt(connection):
    try:
        connection.pool("{name}").admit("d", "t")
    except RuntimeError as error:
        return "forked" in str(error)
    return False

with blocking.Connection("{server.address}") as inherited:
    inherited.pool("{name}").admit("d", "t")
    child = os.fork()
    if child == 0:
        own = blocking.Connection("{server.address}")
        os._exit(0 if attempt(inherited) and attempt(own) else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "0\n", done.stderr
