"""The metadata of calls: token and namespace."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable
from pathlib import Path

import grpc

from tollgate.errors import ArgumentError, Error
from tollgate.options import Token

_PRINTABLE = "expected printable ASCII characters"


class TokenFile:
    """A token in a file, which is read again after a change."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._seen: tuple[int, int, int] | None = None
        self._token = ""

    def __call__(self) -> str:
        """Returns the token. Without a readable file, the last one.

        Raises OSError if the file was never readable.
        """
        try:
            status = self._path.stat()
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
            if seen != self._seen:
                self._token = self._path.read_text("utf-8", "replace").strip()
                self._seen = seen
        except OSError:
            if self._seen is None:
                raise
        return self._token


class Credentials:
    """Creates the metadata of each call."""

    def __init__(self, token: Token | TokenFile | None, namespace: str | None) -> None:
        self._token = token
        self._fixed: tuple[tuple[str, str], ...] = ()
        if isinstance(token, str) and not _is_header(token):
            raise ArgumentError("token", expected=_PRINTABLE)
        if namespace is not None:
            if not _is_header(namespace):
                raise ArgumentError("namespace", expected=_PRINTABLE)
            self._fixed = (("x-tollgate-namespace", namespace),)

    async def metadata(self, deadline: float) -> tuple[tuple[str, str], ...]:
        """Returns the metadata with the current token.

        Raises Error DEADLINE_EXCEEDED if the token takes longer than `deadline` seconds.
        """
        if self._token is None:
            return self._fixed
        try:
            token = self._token if isinstance(self._token, str) else self._token()
        except OSError as error:
            code, reason = grpc.StatusCode.UNAUTHENTICATED, "TOKEN_UNREADABLE"
            raise Error(code, f"the token cannot be read: {error}", reason=reason) from error
        if inspect.isawaitable(token):
            token = await _within(token, deadline)
        if not token or not _is_header(token):
            code, reason = grpc.StatusCode.UNAUTHENTICATED, "TOKEN_MALFORMED"
            message = "the token is empty or has other characters than printable ASCII"
            raise Error(code, message, reason=reason)
        return (*self._fixed, ("authorization", f"Bearer {token}"))


async def _within(token: Awaitable[str], deadline: float) -> str:
    try:
        return await asyncio.wait_for(token, deadline)
    except asyncio.TimeoutError as error:
        code, reason = grpc.StatusCode.DEADLINE_EXCEEDED, "TOKEN_LATE"
        raise Error(code, "the token was not returned in time", reason=reason) from error


def _is_header(text: str) -> bool:
    return text.isascii() and text.isprintable()
