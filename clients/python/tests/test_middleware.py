from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import random
import runpy
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tests.server import Server
from tollgate import Retry, blocking
from tollgate.aio import Connection, RateLimiter
from tollgate.errors import from_rpc
from tollgate.middleware import RateLimitMiddleware
from tollgate.middleware.asgi import client_host
from tollgate.middleware.grpc_server import (
    AsyncRateLimitInterceptor,
    RateLimitInterceptor,
    metadata_key,
)


def caller(scope: Any) -> str | None:
    key = dict(scope["headers"]).get(b"x-caller")
    return key.decode() if key else None


def application(limiter: RateLimiter) -> uvicorn.Config:
    async def hello(request: Request) -> PlainTextResponse:
        return PlainTextResponse("hello", headers={"x-own": "kept"})

    app = Starlette(routes=[Route("/", hello)])
    app.add_middleware(RateLimitMiddleware, limiter=limiter, key=caller)
    return uvicorn.Config(app, port=0, log_level="warning", lifespan="off")


class Web:
    """A web server with the middleware."""

    def __init__(self, config: uvicorn.Config) -> None:
        self._server = uvicorn.Server(config)

    async def __aenter__(self) -> str:
        self._task = asyncio.create_task(self._server.serve())
        while not self._server.started:
            await asyncio.sleep(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/"

    async def __aexit__(self, *error: object) -> None:
        self._server.should_exit = True
        await self._task


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False) as client:
        yield client


@pytest.mark.parametrize("prefix", [None, 48])
async def test_the_default_key_is_the_network_of_the_client(
    connection: Connection, name: str, prefix: int | None
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> Any:
        return {"type": "http.request"}

    default: dict[str, Any] = {}
    if prefix is not None:
        default["key"] = functools.partial(client_host, ipv6_prefix=prefix)
    middleware = RateLimitMiddleware(app, limiter=connection.rate("two"), **default)
    statuses = []

    async def send(message: Any) -> None:
        if "status" in message:
            statuses.append(message["status"])

    group = random.randrange(1, 0xFFFF)
    for host in range(1, 5):
        network = "0" if prefix is None else f"{host:x}"
        client = (f"fd00:{group:x}:{prefix or 0:x}:{network}::{host:x}", 1)
        await middleware({"type": "http", "client": client}, receive, send)
    assert statuses == [200, 200, 429, 429]
    assert client_host({"client": ("::ffff:192.0.2.7", 1)}) == "ip:192.0.2.7"
    assert client_host({"client": None}) is None


async def test_a_refused_request_gets_429(
    connection: Connection, http: httpx.AsyncClient, name: str
) -> None:
    async with Web(application(connection.rate("two"))) as url:
        headers = {"x-caller": name}
        first = await http.get(url, headers=headers)
        assert (first.status_code, first.text, first.headers["x-own"]) == (200, "hello", "kept")
        assert first.headers["ratelimit"].startswith('"minute";r=1;t=')
        assert first.headers["ratelimit-policy"] == '"minute";q=2;w=60'
        assert "retry-after" not in first.headers
        await http.get(url, headers=headers)
        third = await http.get(url, headers=headers)
        assert third.status_code == 429
        assert int(third.headers["retry-after"]) >= 1
        assert third.headers["ratelimit"].startswith('"minute";r=0;t=')
        without = await http.get(url)
        assert without.status_code == 200
        assert "ratelimit" not in without.headers


@pytest.mark.parametrize(
    ("on_failure", "status"), [("open", 200), ("closed", 429), ("raise", 503)]
)
async def test_on_failure_decides(http: httpx.AsyncClient, on_failure: Any, status: int) -> None:
    async with (
        Connection("127.0.0.1:1", retry=Retry(attempts=1)) as broken,
        Web(application(broken.rate("two", on_failure=on_failure))) as url,
    ):
        answer = await http.get(url, headers={"x-caller": "c"})
        assert answer.status_code == status
        assert ("retry-after" in answer.headers) is (status != 200)


class Echo(grpc.GenericRpcHandler):  # type: ignore[misc,unused-ignore]
    """Four methods, one of each kind, as coroutines or as plain functions."""

    def __init__(self, coroutines: bool) -> None:
        self._coroutines = coroutines

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method
        if method == "/e/unary":
            return grpc.unary_unary_rpc_method_handler(self._unary())
        if method == "/e/stream":
            return grpc.unary_stream_rpc_method_handler(self._stream())
        return None

    def _unary(self) -> Any:
        async def unary(request: bytes, context: Any) -> bytes:
            return request

        def plain(request: bytes, context: Any) -> bytes:
            return request

        return unary if self._coroutines else plain

    def _stream(self) -> Any:
        async def stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
            yield request
            yield request

        def plain(request: bytes, context: Any) -> Any:
            yield request
            yield request

        return stream if self._coroutines else plain


async def check_calls(port: int, name: str) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        metadata = (("x-caller", name),)
        unary: Any = channel.unary_unary("/e/unary")
        stream: Any = channel.unary_stream("/e/stream")
        assert await unary(b"a", metadata=metadata) == b"a"
        assert [item async for item in stream(b"b", metadata=metadata)] == [b"b", b"b"]
        for call in (unary(b"c", metadata=metadata), stream(b"d", metadata=metadata)):
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                _ = [item async for item in call] if hasattr(call, "__aiter__") else await call
            error = from_rpc(raised.value)
            assert error.code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert error.retry_after is not None
            trailers = dict(raised.value.trailing_metadata() or ())
            assert trailers["ratelimit-policy"] == '"minute";q=2;w=60'
        assert await unary(b"e") == b"e"  # without a key
        unknown: Any = channel.unary_unary("/e/unknown")
        with pytest.raises(grpc.aio.AioRpcError, match="UNIMPLEMENTED"):
            await unknown(b"f", metadata=metadata)


async def test_the_interceptor_of_asyncio(connection: Connection, name: str) -> None:
    key = metadata_key("x-caller")
    interceptor = AsyncRateLimitInterceptor(connection.rate("two"), key)
    server = grpc.aio.server(interceptors=[interceptor])
    server.add_generic_rpc_handlers((Echo(coroutines=True),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        await check_calls(port, name)
    finally:
        await server.stop(None)


async def test_the_interceptor_of_threads(
    blocking_connection: blocking.Connection, name: str
) -> None:
    limiter = blocking_connection.rate("two")
    interceptor = RateLimitInterceptor(limiter, metadata_key("x-caller"))
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        server = grpc.server(threads, interceptors=[interceptor])
        server.add_generic_rpc_handlers((Echo(coroutines=False),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            await check_calls(port, name)
        finally:
            server.stop(None).wait()


async def test_the_web_service_of_the_examples(
    server: Server, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOLLGATE", server.address)
    path = Path(__file__).parents[1] / "examples" / "web_service.py"
    app = runpy.run_path(str(path))["app"]
    config = uvicorn.Config(app, port=0, log_level="warning")
    async with Web(config) as url:
        statuses = [(await http.get(url)).status_code for _ in range(11)]
    assert statuses == [200] * 10 + [429]
