"""Sends calls: deadlines, retries within the budget, repeats of waiting calls."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from tollgate import _methods as methods
from tollgate._log import CheckLog
from tollgate._methods import Method
from tollgate._time import Clock
from tollgate.aio._claims import Claims
from tollgate.aio._credentials import Credentials
from tollgate.aio._transport import Endpoint, Transport, refuse_after_fork
from tollgate.errors import Error, from_rpc
from tollgate.options import Budget, Retry, is_retried

IN_FLIGHT = 200
"""Calls of a connection at a time. A server accepts 256 calls of a connection by default; gRPC
would queue further ones while their deadlines run.
"""

_NEARLY = 0.05
"""Part of a deadline: a call that is cancelled so close to its end had no answer in time."""

_EXEMPT = (
    methods.RENEW_TASK,
    methods.RENEW_TASKS,
    methods.RENEW_LOCK,
    methods.COMPLETE_TASK,
    methods.COMPLETE_TASKS,
    methods.RELEASE_LOCK,
)
"""Methods that keep or end a lease: they do not queue behind other calls."""

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


class Caller:
    """Sends the calls of a connection."""

    def __init__(
        self,
        open_transport: Callable[[], Transport],
        credentials: Credentials,
        deadline: float,
        retry: Retry,
        clock: Clock,
    ) -> None:
        self.deadline = deadline
        self.retry = retry
        self.clock = clock
        self.sent = 0
        self.checks = CheckLog()
        self._credentials = credentials
        self._budget = Budget(retry)
        self._open_transport = open_transport
        self._transport: Transport | None = None
        self._closed = False
        self._turns = asyncio.Semaphore(IN_FLIGHT)
        self.claims = Claims(self)

    @property
    def transport(self) -> Transport:
        """The channels. The first call opens them in the running event loop.

        Raises Error after `close`, and RuntimeError after a fork.
        """
        refuse_after_fork()
        if self._closed:
            raise _closed()
        if self._transport is None:
            self._transport = self._open_transport()
        return self._transport

    async def close(self) -> None:
        """Closes the channels if they are open; running calls fail."""
        self._closed = True
        await self.claims.close()
        if self._transport is not None:
            await self._transport.close()

    async def call(
        self,
        method: Method[Request, Response],
        request: Request,
        *,
        repeatable: bool = True,
        wait: float = 0.0,
    ) -> Response:
        """Sends a call and repeats it within the budget. Raises Error.

        `wait` is the time in seconds that the server may wait before its answer.
        """
        return (await self.timed(method, request, repeatable=repeatable, wait=wait))[1]

    async def timed(
        self,
        method: Method[Request, Response],
        request: Request,
        *,
        repeatable: bool = True,
        wait: float = 0.0,
    ) -> tuple[float, Response]:
        """As `call`. Also returns the clock before the answered request was sent."""
        self._budget.call()
        turn = self._turns if wait <= 0 and method not in _EXEMPT else contextlib.nullcontext()
        attempt, endpoint = 0, None
        while True:
            attempt += 1
            try:
                async with turn:
                    endpoint = self.transport.pick(endpoint)
                    before = self.clock.now()
                    return before, await self.once(method, request, endpoint, wait=wait)
            except Error as error:
                if not self._may_retry(error, attempt, repeatable):
                    raise
                pause = self.retry.pause(error, attempt)
            await asyncio.sleep(pause)

    def _may_retry(self, error: Error, attempt: int, repeatable: bool) -> bool:
        after = error.retry_after
        if attempt >= self.retry.attempts or not is_retried(error, repeatable):
            return False
        if after is not None and after.total_seconds() > self.retry.retry_after_max:
            return False
        return self._budget.take()

    async def until_known(
        self, method: Method[Request, Response], request: Request, until: float | None = None
    ) -> Response:
        """Repeats a safe call until it is decided, or until a moment of the clock.

        These repeats are outside of the budget; their pauses grow to `pause_max`. Raises
        Error if a repeat cannot help.
        """
        attempt, endpoint = 0, None
        while True:
            attempt += 1
            endpoint = self.transport.pick(endpoint)
            try:
                return await self.once(method, request, endpoint)
            except Error as error:
                pause = self.retry.pause(error, attempt)
                late = until is not None and self.clock.now() + pause >= until
                if late or not is_retried(error, True):
                    raise
            await asyncio.sleep(pause)

    async def once(
        self,
        method: Method[Request, Response],
        request: Request,
        endpoint: Endpoint,
        *,
        wait: float = 0.0,
        deadline: float | None = None,
    ) -> Response:
        """Sends a call once. Raises Error."""
        timeout = wait + (self.deadline if deadline is None else deadline)
        endpoint.check()
        if wait > 0:
            async with endpoint.wait_channel() as channel:
                return await self._send(endpoint, channel, method, request, timeout)
        return await self._send(endpoint, endpoint.channel, method, request, timeout)

    async def _send(
        self,
        endpoint: Endpoint,
        channel: grpc.aio.Channel,
        method: Method[Request, Response],
        request: Request,
        timeout: float,
    ) -> Response:
        end = self.clock.now() + timeout
        metadata = await self._credentials.metadata(timeout)
        timeout = end - self.clock.now()
        self.sent += 1
        send: Any = channel.unary_unary(
            method.path, request_serializer=method.serialize, response_deserializer=method.parse
        )
        try:
            response: Response | None = await send(request, timeout=timeout, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            raise endpoint.failed(from_rpc(error)) from None
        except grpc.aio.UsageError:
            raise _closed() from None
        except asyncio.CancelledError:
            if self._closed and not _is_cancelled():
                raise _closed() from None
            if self.clock.now() > end - timeout * _NEARLY:
                endpoint.late()  # a limiter that decides after one deadline cancels the call
            raise
        endpoint.answered()
        if response is None:  # grpc.aio returns None for bytes that it cannot parse
            code, reason = grpc.StatusCode.INTERNAL, "ANSWER_UNREADABLE"
            raise Error(code, f"the answer to {method.path} cannot be read", reason=reason)
        return response

    @contextlib.asynccontextmanager
    async def stream(
        self, method: Method[Request, Response], request: Request
    ) -> AsyncIterator[AsyncIterator[Response]]:
        """Opens a stream of answers on a connection for waiting calls. Raises Error."""
        endpoint = self.transport.pick()
        endpoint.check()
        async with endpoint.wait_channel() as channel:
            self.sent += 1
            send: Any = channel.unary_stream(
                method.path,
                request_serializer=method.serialize,
                response_deserializer=method.parse,
            )
            metadata = await self._credentials.metadata(self.deadline)
            answers = send(request, metadata=metadata)
            try:
                yield answers
            except grpc.aio.AioRpcError as error:
                raise endpoint.failed(from_rpc(error)) from None
            except asyncio.CancelledError:
                if self._closed and not _is_cancelled():
                    raise _closed() from None
                raise
            finally:
                answers.cancel()


def _closed() -> Error:
    code, reason = grpc.StatusCode.CANCELLED, "CONNECTION_CLOSED"
    return Error(code, "the connection is closed", reason=reason)


def is_closed(error: Error) -> bool:
    """Tells whether a call failed because the connection is closed."""
    return error.reason == "CONNECTION_CLOSED"


def _is_cancelled() -> bool:
    """Returns whether the current task is cancelled; True on Python 3.10, which cannot tell."""
    task = asyncio.current_task()
    return sys.version_info < (3, 11) or task is None or task.cancelling() > 0
