"""Channels to the servers: balancing, health, and separate connections for waiting calls."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import itertools
import os
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from tollgate.errors import ArgumentError, Error, from_rpc
from tollgate.options import Tls

WAITS = 200
"""Waiting calls and watches of one connection; a server allows 256 calls by default."""

_HEALTH = "/grpc.health.v1.Health/"
_HEALTH_PAUSE = 0.5
"""Seconds between a broken watch of the health, or a failed check, and the next one."""
_HEALTH_TIMEOUT = 2.0
"""Deadline of a health check in seconds."""
_ANSWERING = (
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
)
"""Codes of a health check of a server that answers calls, but reports no health to this caller."""
_LATE_MAX = 2
"""Consecutive deadlines after which one of several servers gets no calls until it is healthy."""

_REFUSED_FIRST, _REFUSED_LAST = 1.0, 10.0
"""Seconds without a connection to a server with the other protocol; doubled up to the last."""
_CLOSE_GRACE = 5.0
"""Seconds for the calls of a channel to fail by themselves when it is closed."""
_SERVING = b"\x08\x01"  # HealthCheckResponse with status SERVING

_OPTIONS: tuple[tuple[str, Any], ...] = (
    # Each channel has its own connection.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.lb_policy_name", "round_robin"),
)
_PLAIN_OPTIONS = (("grpc.enable_retries", 0),)
"""gRPC would connect and send again hundreds of times a second to a server that requires TLS: such
a server accepts each connection, and then ends it. The library has its own retries.
"""

_MISMATCHES = {
    # The text of the GOAWAY frame of a server that requires TLS.
    "this port of Tollgate requires TLS": "the server requires TLS: give tls=Tls(...)",
    # What BoringSSL says if the first bytes are no TLS record.
    "WRONG_VERSION_NUMBER": "the server does not use TLS: leave out tls",
}
TLS_MISMATCH = "TLS_MISMATCH"
"""Reason of an error: the server uses TLS and the client does not, or vice versa."""


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

    def __init__(self, address: str, connect: Connect, alone: bool) -> None:
        self._address = address
        self._connect = connect
        self._alone = alone
        self.channel = connect(address)
        self.waiting: list[WaitChannel] = []
        self.serving = True
        self.answering = True
        """False from too many consecutive deadlines until a health check succeeds."""
        self._late = 0
        self._mismatch = ""
        self._refused_until = 0.0
        self._pause = _REFUSED_FIRST
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def refusing(self) -> bool:
        """Whether the server has the other protocol, and the pause after that is not over."""
        return bool(self._mismatch) and time.monotonic() < self._refused_until

    @property
    def failing(self) -> bool:
        """Whether the last attempt to connect failed."""
        if self.refusing:
            return True
        state = self.channel.get_state(try_to_connect=True)
        return state is grpc.ChannelConnectivity.TRANSIENT_FAILURE

    def check(self) -> None:
        """Raises Error during the pause after a connection to a server with the other protocol."""
        if self.refusing:
            left = self._refused_until - time.monotonic()
            message = f"{self._address} is tried again in {left:.1f} s; {self._mismatch}"
            raise Error(grpc.StatusCode.UNAVAILABLE, message, reason=TLS_MISMATCH)

    def answered(self) -> None:
        """Records that the server has answered a call."""
        self._late = 0
        self._mismatch, self._pause = "", _REFUSED_FIRST

    def late(self) -> None:
        """Records that a call had no answer within its deadline."""
        self._late += 1
        if self._late >= _LATE_MAX and self.answering and not self._alone:
            self.answering = False
            self._start(self._recover())

    def failed(self, error: Error) -> Error:
        """Records a failed call. Returns its error, with a hint if TLS is the reason."""
        if error.code is grpc.StatusCode.DEADLINE_EXCEEDED:
            self.late()
            return error
        if error.code is not grpc.StatusCode.UNAVAILABLE:
            self.answered()
            return error
        hint = next((hint for text, hint in _MISMATCHES.items() if text in error.message), "")
        if not hint:
            return error
        if not self.refusing:
            self._refuse(hint)
        message = f"{error.message}; {hint}"
        return Error(error.code, message, reason=TLS_MISMATCH, retry_after=error.retry_after)

    def _refuse(self, hint: str) -> None:
        self._mismatch = hint
        self._refused_until = time.monotonic() + self._pause
        self._pause = min(self._pause * 2, _REFUSED_LAST)
        # These channels would connect again and again.
        for channel in [self.channel, *(waiting.channel for waiting in self.waiting)]:
            self._start(channel.close(_CLOSE_GRACE))
        self.channel = self._connect(self._address)
        self.waiting = []

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _recover(self) -> None:
        """Checks the health of a server that does not answer, until a check succeeds."""
        while not self.answering:
            check: Any = self.channel.unary_unary(f"{_HEALTH}Check")
            try:
                healthy = await check(b"", timeout=_HEALTH_TIMEOUT) == _SERVING
            except grpc.aio.AioRpcError as error:
                healthy = error.code() in _ANSWERING
            if healthy:
                self._late, self.answering = 0, True
                return
            await asyncio.sleep(_HEALTH_PAUSE)

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
            if self.refusing:
                await asyncio.sleep(_HEALTH_PAUSE)
                continue
            watch: Any = self.channel.unary_stream(f"{_HEALTH}Watch")
            try:
                async for answer in watch(b""):
                    self.serving = answer == _SERVING
                self.serving = False  # the server ended the watch
            except grpc.aio.AioRpcError as error:
                self.failed(from_rpc(error))
                self.serving = error.code() is grpc.StatusCode.UNIMPLEMENTED
                if self.serving:
                    return
            await asyncio.sleep(_HEALTH_PAUSE)

    async def close(self) -> None:
        """Closes all connections; running calls fail."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.channel.close()
        for waiting in self.waiting:
            await waiting.channel.close()


class Connect:
    """Opens channels."""

    def __init__(self, tls: Tls | None) -> None:
        self._credentials = None if tls is None else _credentials(tls)
        self._options = list(_OPTIONS)
        if tls is None:
            self._options.extend(_PLAIN_OPTIONS)
        if tls is not None and tls.server_name is not None:
            self._options.append(("grpc.ssl_target_name_override", tls.server_name))
            self._options.append(("grpc.default_authority", tls.server_name))

    def __call__(self, address: str) -> grpc.aio.Channel:
        """Returns a channel to a server."""
        if self._credentials is None:
            # Round robin, which an address of several servers needs, connects without a call.
            balancing = [("grpc.lb_policy_name", "pick_first")] if _is_ip(address) else []
            return grpc.aio.insecure_channel(address, self._options + balancing)
        return grpc.aio.secure_channel(address, self._credentials, self._options)


def _is_ip(address: str) -> bool:
    try:
        ipaddress.ip_address(address.rpartition(":")[0].strip("[]"))
    except ValueError:
        return False
    return True


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
        alone = len(addresses) == 1
        self._endpoints = [Endpoint(address, connect, alone) for address in addresses]
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
        answering = [e for e in self._endpoints if e.answering] or self._endpoints
        reachable = [e for e in answering if not e.failing] or answering
        healthy = [e for e in reachable if e.serving] or reachable
        others = [e for e in healthy if e is not avoid] or healthy
        return others[next(self._turn) % len(others)]

    async def close(self) -> None:
        """Closes all connections."""
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        await asyncio.gather(*(endpoint.close() for endpoint in self._endpoints))
