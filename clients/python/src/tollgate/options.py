"""Options of a connection."""

from __future__ import annotations

import os
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import grpc

from tollgate.errors import ArgumentError, Error

Token = str | Callable[[], str | Awaitable[str]]
"""A token, or a function that each attempt of a call asks for it, within its deadline."""


@dataclass(frozen=True, slots=True)
class Tls:
    """Files of a TLS connection, in PEM. They are read when the connection opens."""

    ca: str | os.PathLike[str] | None = None
    """Certificates of the authorities that signed the server's. Default: those of gRPC."""
    cert: str | os.PathLike[str] | None = None
    """The certificate chain of the client; needs `key`."""
    key: str | os.PathLike[str] | None = None
    """The private key of the client."""
    server_name: str | None = None
    """The name in the server's certificate. Default: the host of the address."""

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise ArgumentError("tls", expected="give cert and key, or neither")


@dataclass(frozen=True, slots=True)
class Retry:
    """When and how often a call is retried."""

    attempts: int = 5
    """Maximum attempts of a call, including the first one. 1 disables retries."""
    base: float = 0.1
    """Pause before the first retry in seconds; each further one doubles. Full jitter."""
    pause_max: float = 2.0
    """Longest pause without RetryInfo, in seconds."""
    retry_after_max: float = 5.0
    """Longest time of RetryInfo in seconds; a call with a longer one fails immediately."""
    share: float = 0.2
    """Retries that each call adds to the budget."""
    reserve: float = 10.0
    """Maximum retries in the budget; the budget starts full."""

    def backoff(self, attempt: int) -> float:
        """Returns a random pause in seconds before the retry after `attempt` attempts."""
        return random.uniform(0, min(self.base * 2.0 ** min(attempt - 1, 30), self.pause_max))

    def pause(self, error: Error, attempt: int) -> float:
        """Returns the pause in seconds before a retry; RetryInfo is a lower bound."""
        pause = self.backoff(attempt)
        return pause if error.retry_after is None else error.retry_after.total_seconds() + pause


class Budget:
    """A token bucket that bounds the retries of a connection."""

    __slots__ = ("_left", "_retry")

    def __init__(self, retry: Retry) -> None:
        self._retry = retry
        self._left = retry.reserve

    def call(self) -> None:
        """Counts a call, which adds a fraction of a retry."""
        self._left = min(self._left + self._retry.share, self._retry.reserve)

    def take(self) -> bool:
        """Takes a retry. Returns False if none is left."""
        if self._left < 1:
            return False
        self._left -= 1
        return True


_LOST = (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.CANCELLED)


def is_broken(error: Error) -> bool:
    """Returns whether a broken connection caused the error; the server gives a reason."""
    return error.code in _LOST and not error.reason


def is_retried(error: Error, repeatable: bool) -> bool:
    """Tells whether a call that failed with this error may be sent again."""
    if not repeatable:
        return False
    if error.code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return error.retry_after is not None
    return error.code in (
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
    ) or is_broken(error)
