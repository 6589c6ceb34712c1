"""Arguments that no call can carry are errors of the library, which name the field."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.fake import FakeServer
from tests.server import CONFIG, Server
from tests.test_connection import openssl
from tollgate import ArgumentError, Error, QueuedTask, Retry, Tls, aio, blocking
from tollgate import _methods as methods
from tollgate.v1 import admission_pb2 as pb

Call = Callable[[aio.Connection], Coroutine[Any, Any, object]]
NAN, INFINITE = float("nan"), float("inf")

CALLS: list[tuple[str, Call]] = [
    ("pool", lambda c: c.pool("\ud800").status()),
    ("device_id", lambda c: c.pool("p").admit("d\ud800", "t")),
    ("task_id", lambda c: c.pool("p").admit("d", "\ud800")),
    ("task_id", lambda c: c.pool("p").admit("d", "")),
    ("task_id", lambda c: c.pool("p").enqueue([QueuedTask("d", "\ud800")])),
    ("key", lambda c: c.rate("three").check("\udfff")),
    ("name", lambda c: c.lock("\ud800").acquire()),
    ("device_id", lambda c: c.admit_many([aio.AdmitItem("p", "\ud800", "t")])),
    ("capacity", lambda c: c.pool("p").configure(capacity=-1)),
    ("quantity", lambda c: c.stock("s").reserve("o", 2**63)),
    ("lease_duration", lambda c: c.pool("p").admit("d", "t", lease=NAN)),
    ("lease_duration", lambda c: c.pool("p").admit("d", "t", lease=1e300)),
    ("max_wait", lambda c: c.pool("p").admit("d", "t", wait=INFINITE)),
    ("max_wait", lambda c: c.lock("l").acquire(wait=NAN)),
    ("duration", lambda c: c.rate("three").ban("k", -INFINITE)),
]


@pytest.mark.parametrize(("field", "call"), CALLS)
async def test_the_bad_field_is_named(field: str, call: Call) -> None:
    async with aio.Connection("127.0.0.1:1") as connection:
        with pytest.raises(ArgumentError) as caught:
            await call(connection)
    assert caught.value.code is grpc.StatusCode.INVALID_ARGUMENT
    assert [violation.field for violation in caught.value.violations] == [field]
    assert connection.calls == 0


def test_blocking_calls_check_the_same() -> None:
    with blocking.Connection("127.0.0.1:1") as connection:
        with pytest.raises(ArgumentError, match="poll"):
            connection.pool("p").admit("d", "")
        with pytest.raises(ArgumentError, match="lease_duration"):
            connection.pool("p").admit("d", "t", lease=NAN)


def test_bad_options_are_named() -> None:
    for field, options in {
        "deadline": {"deadline": NAN},
        "token": {"token": "a\nb"},
        "namespace": {"namespace": "caf\u00e9"},
    }.items():
        with pytest.raises(ArgumentError, match=f"^INVALID_ARGUMENT: {field}"):
            aio.Connection("a:1", **options)  # type: ignore[arg-type]


async def test_missing_files_are_errors(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    async with aio.Connection("127.0.0.1:1", token_file=missing) as connection:
        with pytest.raises(Error, match="missing") as caught:
            await connection.pool("p").status()
        assert (caught.value.code.name, caught.value.reason) == (
            "UNAUTHENTICATED",
            "TOKEN_UNREADABLE",
        )
    async with aio.Connection("127.0.0.1:1", tls=Tls(ca=missing)) as connection:
        with pytest.raises(ArgumentError, match=r"^INVALID_ARGUMENT: tls\.ca: .*missing"):
            await connection.pool("p").status()


async def test_a_server_that_requires_tls_is_explained(folder: Path, tmp_path: Path) -> None:
    new = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=s"]
    openssl(tmp_path, *new, "-keyout", "key", "-out", "cert", "-addext", "subjectAltName=DNS:s")
    tls = f'[tls]\ncert = "{tmp_path / "cert"}"\nkey = "{tmp_path / "key"}"\n'
    own = await asyncio.to_thread(Server, folder, config=f"{tls}\n{CONFIG}")
    try:
        once = Retry(attempts=1)
        async with aio.Connection(own.address, retry=once) as connection:
            with pytest.raises(Error, match="requires TLS"):
                await connection.pool("p").status()
    finally:
        own.stop()


async def test_further_calls_wait_unless_they_keep_or_end_a_lease() -> None:
    release = asyncio.Event()

    async def hold() -> None:
        if isinstance(fake.requests[-1], pb.GetPoolRequest):
            await release.wait()

    async with FakeServer() as fake, aio.Connection(fake.address, deadline=60) as connection:
        fake.on_request = hold
        fake.play(methods.GET_POOL, pb.GetPoolResponse())
        fake.play(methods.RENEW_TASK, pb.RenewTaskResponse(verdict=pb.RENEW_VERDICT_UNKNOWN))
        fake.play(
            methods.COMPLETE_TASK, pb.CompleteTaskResponse(verdict=pb.COMPLETE_VERDICT_UNKNOWN)
        )
        pool = connection.pool("p")
        calls = [asyncio.create_task(pool.status()) for _ in range(450)]
        while len(fake.requests) < 200:
            await asyncio.sleep(0.01)
        await pool.renew("d", "t")
        await pool.complete("d", "t")
        assert len(fake.requests) == 202
        calls[-1].cancel()
        release.set()
        await asyncio.gather(*calls[:-1])
        assert len(fake.requests) == 451
