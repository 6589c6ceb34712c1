from __future__ import annotations

import itertools
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.server import Redis, Server, binary
from tollgate import aio, blocking
from tollgate._time import Clock

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("servers")


@pytest.fixture(scope="session")
def server(folder: Path) -> Iterator[Server]:
    """A server on the embedded engine."""
    if not binary().exists():
        pytest.fail(f"there is no server program {binary()}; set TOLLGATE_BINARY")
    server = Server(folder)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def redis_server(folder: Path) -> Iterator[Server]:
    """A server on a Redis."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    redis = Redis(folder)
    try:
        server = Server(folder, engine=f"redis://127.0.0.1:{redis.port}")
        yield server
        server.stop()
    finally:
        redis.stop()


@pytest.fixture(params=["embedded", "redis"])
def any_server(request: pytest.FixtureRequest) -> Server:
    """A server on each engine in turn."""
    name = "server" if request.param == "embedded" else "redis_server"
    found: Server = request.getfixturevalue(name)
    return found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def connection(server: Server, clock: Clock) -> AsyncIterator[aio.Connection]:
    """A connection to the embedded engine."""
    async with aio.Connection(server.address, clock=clock) as connection:
        yield connection


@pytest.fixture
async def any_connection(any_server: Server) -> AsyncIterator[aio.Connection]:
    """A connection to each engine in turn."""
    async with aio.Connection(any_server.address) as connection:
        yield connection


@pytest.fixture
def blocking_connection(server: Server) -> Iterator[blocking.Connection]:
    with blocking.Connection(server.address) as connection:
        yield connection


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"name-{next(_numbers)}"
