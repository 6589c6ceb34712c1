"""Errors of calls, and the loss of a lease."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

import grpc
import grpc.aio
from google.rpc import error_details_pb2, status_pb2


@dataclass(frozen=True, slots=True)
class Violation:
    """A bad field of a request."""

    field: str
    """Path of the field, for example `pool`."""
    description: str
    """What was expected."""


class Error(Exception):
    """A call whose decision is not known. A refusal is an answer, not an error.

    After UNAVAILABLE and DEADLINE_EXCEEDED, the call may have been executed.
    """

    code: grpc.StatusCode
    """The gRPC status code."""
    reason: str
    """The reason of ErrorInfo, for example `OVERLOADED`; empty if there is none."""
    violations: tuple[Violation, ...]
    """The bad fields of the request, on INVALID_ARGUMENT."""
    retry_after: timedelta | None
    """The delay in RetryInfo, after which a retry may succeed; None if there is none."""
    message: str
    """What failed."""

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        *,
        reason: str = "",
        violations: Iterable[Violation] = (),
        retry_after: timedelta | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason
        self.violations = tuple(violations)
        self.retry_after = retry_after

    def __str__(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        return f"{self.code.name}{reason}: {self.message}"


class ArgumentError(Error, ValueError):
    """An argument that the library rejects without a call, with code INVALID_ARGUMENT."""

    def __init__(self, *fields: str, expected: str) -> None:
        super().__init__(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"{', '.join(fields)}: {expected}",
            violations=[Violation(field, expected) for field in fields],
        )


class QuantityDiffers(Error):  # noqa: N818
    """A reservation for an order that holds a different quantity, with code FAILED_PRECONDITION.

    Nothing has changed: confirm or cancel the order, or reserve under another order.
    """

    held_quantity: int
    """The quantity that the order holds."""

    def __init__(self, order: str, sku: str, held: int, asked: int) -> None:
        super().__init__(
            grpc.StatusCode.FAILED_PRECONDITION,
            f"order {order!r} holds {held} of {sku!r}, not {asked}; nothing changed",
            reason="QUANTITY_DIFFERS",
        )
        self.held_quantity = held


def unknown_answer(kind: str, value: int) -> Error:
    """Returns the error of an answer that this version of the library does not know."""
    message = (
        f"the server answered {kind} {value}, which this version of the library does not know: "
        "update the library"
    )
    return Error(grpc.StatusCode.INTERNAL, message, reason="ANSWER_UNKNOWN")


class LeaseLost(Exception):  # noqa: N818
    """The lease of a permit or lock is lost: another holder may have the slot or the lock."""

    def __init__(self, what: str, cause: str) -> None:
        super().__init__(f"the lease of {what} is lost: {cause}")
        self.what = what
        """The task or lock."""
        self.cause = cause
        """`expired`, `closed`, or the verdict of the renewal, for example `STALE_TOKEN`."""


def from_rpc(error: grpc.aio.AioRpcError) -> Error:
    """Returns the error of a failed call, with the details of `grpc-status-details-bin`."""
    code, message = error.code(), error.details() or ""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            try:
                status = status_pb2.Status.FromString(value)
            except ValueError:
                break
            return from_status(code, status.message or message, status)
    return Error(code, message)


def from_status(code: grpc.StatusCode, message: str, status: status_pb2.Status) -> Error:
    """Returns the error with the details of a status."""
    reason, retry_after = "", None
    violations: list[Violation] = []
    for detail in status.details:
        info = error_details_pb2.ErrorInfo()
        bad = error_details_pb2.BadRequest()
        retry = error_details_pb2.RetryInfo()
        if detail.Unpack(info):
            reason = info.reason
        elif detail.Unpack(bad):
            violations.extend(Violation(v.field, v.description) for v in bad.field_violations)
        elif detail.Unpack(retry):
            retry_after = retry.retry_delay.ToTimedelta()
    return Error(code, message, reason=reason, violations=violations, retry_after=retry_after)


_CODES = {code.value[0]: code for code in grpc.StatusCode}


def code_of(number: int) -> grpc.StatusCode:
    """Returns the status code for a number of `google.rpc.Code`."""
    return _CODES.get(number, grpc.StatusCode.UNKNOWN)
