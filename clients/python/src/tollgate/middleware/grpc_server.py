"""Interceptors for gRPC servers, for asyncio and for threads.

A refused call fails with RESOURCE_EXHAUSTED, RetryInfo and the RateLimit headers as trailing
metadata. If the check fails, `on_failure` of the limiter decides: with "raise" the call fails
with UNAVAILABLE.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import grpc
import grpc.aio

from tollgate import aio, blocking
from tollgate.errors import Error
from tollgate.middleware._refusal import MESSAGE, Key, metadata_key, replace, trailers

__all__ = ["AsyncRateLimitInterceptor", "RateLimitInterceptor", "metadata_key"]

_UNCHECKED = "the rate of the caller could not be checked"


class AsyncRateLimitInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc,unused-ignore]
    """Checks each call before its handler: `grpc.aio.server(interceptors=[...])`."""

    def __init__(self, limiter: aio.RateLimiter, key: Key) -> None:
        """Creates the interceptor. `key` names the caller, for example `metadata_key`."""
        self._limiter = limiter
        self._key = key

    async def intercept_service(
        self,
        continuation: Callable[[Any], Awaitable[Any]],
        handler_call_details: Any,
    ) -> Any:
        """Wraps the handler of a call."""
        handler = await continuation(handler_call_details)
        key = self._key(handler_call_details)
        if handler is None or not key:
            return handler

        def wrap(function: Any) -> Any:
            async def checked(request: Any, context: Any) -> Any:
                await self._check(key, context)
                answer = function(request, context)
                return await answer if inspect.isawaitable(answer) else answer

            return checked

        def stream(function: Any) -> Any:
            async def checked(request: Any, context: Any) -> AsyncIterator[Any]:
                await self._check(key, context)
                answers = function(request, context)
                if inspect.isawaitable(answers):  # a handler that writes to the context
                    await answers
                    return
                async for answer in answers:
                    yield answer

            return checked

        return replace(handler, wrap, stream)

    async def _check(self, key: str, context: Any) -> None:
        try:
            answer = await self._limiter.check(key)
        except Error as error:
            self._limiter.log("the call gets UNAVAILABLE", error)
            await context.abort(grpc.StatusCode.UNAVAILABLE, _UNCHECKED)
            return
        if not answer.allowed:
            code = grpc.StatusCode.RESOURCE_EXHAUSTED
            await context.abort(code, MESSAGE, trailers(answer))


class RateLimitInterceptor(grpc.ServerInterceptor):  # type: ignore[misc,unused-ignore]
    """Checks each call before its handler: `grpc.server(interceptors=[...])`."""

    def __init__(self, limiter: blocking.RateLimiter, key: Key) -> None:
        """Creates the interceptor. `key` names the caller, for example `metadata_key`."""
        self._limiter = limiter
        self._key = key

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        """Wraps the handler of a call."""
        handler = continuation(details)
        key = self._key(details)
        if handler is None or not key:
            return handler

        def wrap(function: Any) -> Any:
            def checked(request: Any, context: Any) -> Any:
                self._check(key, context)
                return function(request, context)

            return checked

        def stream(function: Any) -> Any:
            def checked(request: Any, context: Any) -> Iterator[Any]:
                self._check(key, context)
                yield from function(request, context)

            return checked

        return replace(handler, wrap, stream)

    def _check(self, key: str, context: Any) -> None:
        try:
            answer = self._limiter.check(key)
        except Error as error:
            self._limiter.log("the call gets UNAVAILABLE", error)
            context.abort(grpc.StatusCode.UNAVAILABLE, _UNCHECKED)
            return
        if not answer.allowed:
            context.set_trailing_metadata(trailers(answer))
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, MESSAGE)
