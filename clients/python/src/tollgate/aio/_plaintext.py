"""Finds out whether a server refuses calls because it requires TLS; gRPC does not report it."""

from __future__ import annotations

import asyncio

from tollgate.errors import Error

_OPENING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"
"""The preface of HTTP/2, and empty SETTINGS."""
_REFUSAL = b"this port of Tollgate requires TLS"
"""The text of the GOAWAY frame of a server that requires TLS."""
_TIMEOUT = 1.0
"""Seconds to wait for it."""


async def explain(address: str, error: Error) -> Error:
    """Returns the error of a call without TLS, with a hint if the server requires TLS."""
    try:
        required = await asyncio.wait_for(_requires_tls(address), _TIMEOUT)
    except (OSError, ValueError, asyncio.TimeoutError):
        return error
    if not required:
        return error
    return Error(
        error.code,
        f"{error.message}; the server requires TLS: give tls=Tls(...)",
        reason=error.reason,
        violations=error.violations,
        retry_after=error.retry_after,
    )


async def _requires_tls(address: str) -> bool:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    try:
        writer.write(_OPENING)
        answer = b""
        while _REFUSAL not in answer and len(answer) < 256:
            more = await reader.read(256)
            if not more:
                break
            answer += more
        return _REFUSAL in answer
    finally:
        writer.close()
