"""Middleware for ASGI applications, such as FastAPI and Starlette."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from tollgate.addresses import IPV6_PREFIX, address_key
from tollgate.aio.rate import RateLimiter
from tollgate.errors import Error
from tollgate.rates import RateAnswer

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

Key = Callable[[Scope], str | Awaitable[str | None] | None]
"""Returns the key of a request; None or an empty key: the request is not checked."""


def client_host(scope: Scope, *, ipv6_prefix: int = IPV6_PREFIX) -> str | None:
    """Returns the key of the client's address; behind a proxy it is that of the proxy.

    The addresses of an IPv6 network of `ipv6_prefix` bits have one key, see `address_key`. For
    another length give `key=functools.partial(client_host, ipv6_prefix=56)`.
    """
    client = scope.get("client")
    return address_key(client[0], ipv6_prefix=ipv6_prefix) if client else None


class RateLimitMiddleware:
    """Checks each HTTP request before the application.

    A refused request gets 429 with `Retry-After`. All answers have `RateLimit` and
    `RateLimit-Policy`. If the check fails, `on_failure` of the limiter decides: with "raise"
    the request gets 503.

        app.add_middleware(RateLimitMiddleware, limiter=connection.rate("api"))
    """

    def __init__(self, app: App, *, limiter: RateLimiter, key: Key = client_host) -> None:
        """Creates the middleware. `key` names the caller of a request."""
        self._app = app
        self._limiter = limiter
        self._key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles a connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        key = self._key(scope)
        if inspect.isawaitable(key):
            key = await key
        if not key:
            await self._app(scope, receive, send)
            return
        try:
            answer = await self._limiter.check(key)
        except Error as error:
            self._limiter.log("the request gets 503", error)
            await _respond(send, 503, [(b"retry-after", b"1")], b"Service Unavailable\n")
            return
        headers = _headers(answer)
        if not answer.allowed:
            await _respond(send, 429, headers, b"Too Many Requests\n")
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *headers]}
            await send(message)

        await self._app(scope, receive, with_headers)


def _headers(answer: RateAnswer) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in answer.headers().items()]


async def _respond(
    send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    plain = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": plain + headers})
    await send({"type": "http.response.body", "body": body})
