"""Channels to the servers: balancing, health, and separate connections for waiting calls."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from tollgate.aio._plaintext import explain
from tollgate.errors import ArgumentError, Error
from tollgate.options import Tls

WAITS = 200
"""Waiting calls and watches of one connection; a server allows 256 calls by default."""

_UNANSWERED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)

_HEALTH = "/grpc.health.v1.Health/Watch"
_HEALTH_PAUSE = 0.5
"""Seconds between a broken watch of the health and the next one."""
_SERVING = b"\x08\x01"  # HealthCheckResponse with status SERVING

_OPTIONS: tuple[tuple[str, Any], ...] = (
    # Each channel has a connection of its own.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.lb_policy_name", "round_robin"),
)


class _Fork:
    """Whether this process was forked from one that had opened a connection."""

    opened = False
    forked = False


def _after_fork() -> None:
    _Fork.forked = _Fork.forked or _Fork.opened


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def refuse_after_fork() -> None:
    """Raises RuntimeError where calls would hang: threads of gRPC do not survive a fork."""
    if _Fork.forked:
        raise RuntimeError(
            "this process was forked after a connection had been opened; "
            'open the first connection after the fork, or start processes with "spawn"'
        )


class WaitChannel:
    """A connection for waiting calls."""

    __slots__ = ("channel", "waits")

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        self.waits = 0


class Endpoint:
    """A server: a channel for short calls, and channels for waiting calls."""

    def __init__(self, address: str, connect: Connect) -> None:
        self._address = address
        self._connect = connect
        self.channel = connect(address)
        self.waiting: list[WaitChannel] = []
        self.serving = True
        self._explained = connect.encrypts

    async def explained(self, error: Error) -> Error:
        """Returns the error, once with the reason why a server refuses calls without TLS."""
        if self._explained or error.code not in _UNANSWERED:
            return error
        self._explained = True
        return await explain(self._address, error)

    @property
    def failing(self) -> bool:
        """Whether the last attempt to connect failed."""
        state = self.channel.get_state(try_to_connect=True)
        return state is grpc.ChannelConnectivity.TRANSIENT_FAILURE

    @contextlib.asynccontextmanager
    async def wait_channel(self) -> AsyncIterator[grpc.aio.Channel]:
        """Lends a connection that carries fewer than WAITS waiting calls."""
        free = next((w for w in self.waiting if w.waits < WAITS), None)
        if free is None:
            free = WaitChannel(self._connect(self._address))
            self.waiting.append(free)
        free.waits += 1
        try:
            yield free.channel
        finally:
            free.waits -= 1
            if free.waits == 0 and len(self.waiting) > 1 and free in self.waiting:
                self.waiting.remove(free)
                await free.channel.close()

    async def watch_health(self) -> None:
        """Follows the health of the server until it is cancelled.

        A server without the health service counts as healthy.
        """
        while True:
            watch: Any = self.channel.unary_stream(_HEALTH)
            try:
                async for answer in watch(b""):
                    self.serving = answer == _SERVING
                self.serving = False  # the server ended the watch
            except grpc.aio.AioRpcError as error:
                self.serving = error.code() is grpc.StatusCode.UNIMPLEMENTED
                if self.serving:
                    return
            await asyncio.sleep(_HEALTH_PAUSE)

    async def close(self) -> None:
        """Closes all connections; running calls fail."""
        await self.channel.close()
        for waiting in self.waiting:
            await waiting.channel.close()


class Connect:
    """Opens channels."""

    def __init__(self, tls: Tls | None) -> None:
        self.encrypts = tls is not None
        self._credentials = None if tls is None else _credentials(tls)
        self._options = list(_OPTIONS)
        if tls is not None and tls.server_name is not None:
            self._options.append(("grpc.ssl_target_name_override", tls.server_name))
            self._options.append(("grpc.default_authority", tls.server_name))

    def __call__(self, address: str) -> grpc.aio.Channel:
        """Returns a channel to a server."""
        if self._credentials is None:
            return grpc.aio.insecure_channel(address, self._options)
        return grpc.aio.secure_channel(address, self._credentials, self._options)


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    def read(field: str, path: str | os.PathLike[str] | None) -> bytes | None:
        try:
            return None if path is None else Path(path).read_bytes()
        except OSError as error:
            raise ArgumentError(field, expected=str(error)) from error

    return grpc.ssl_channel_credentials(
        read("tls.ca", tls.ca), read("tls.key", tls.key), read("tls.cert", tls.cert)
    )


class Transport:
    """The servers of a connection, in turn. Unhealthy and unreachable ones are skipped."""

    def __init__(self, addresses: Sequence[str], tls: Tls | None) -> None:
        _Fork.opened = True
        connect = Connect(tls)
        self._endpoints = [Endpoint(address, connect) for address in addresses]
        self._turn = itertools.count()
        self._watches: list[asyncio.Task[None]] = []
        if len(self._endpoints) > 1:
            self._watches = [asyncio.create_task(e.watch_health()) for e in self._endpoints]

    def pick(self, avoid: Endpoint | None = None) -> Endpoint:
        """Returns the next server, if possible a healthy one other than `avoid`.

        If no server is healthy, the next one still decides: it may have a fallback answer.
        """
        if len(self._endpoints) == 1:
            return self._endpoints[0]
        reachable = [e for e in self._endpoints if not e.failing] or self._endpoints
        healthy = [e for e in reachable if e.serving] or reachable
        others = [e for e in healthy if e is not avoid] or healthy
        return others[next(self._turn) % len(others)]

    async def close(self) -> None:
        """Closes all connections."""
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        await asyncio.gather(*(endpoint.close() for endpoint in self._endpoints))
