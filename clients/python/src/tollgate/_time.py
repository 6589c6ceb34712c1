"""The local clock, and conversions of durations."""

from __future__ import annotations

import math
import sys
import time
from datetime import datetime, timedelta, timezone

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from tollgate.errors import ArgumentError

Span = timedelta | float
"""A length of time: a timedelta, or a number of seconds."""


def _source() -> int | None:
    """Returns a monotonic clock that also advances while the machine sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.CLOCK_BOOTTIME
    return time.CLOCK_MONOTONIC if sys.platform == "darwin" else None


class Clock:
    """A monotonic clock in seconds. Tests move it forward."""

    __slots__ = ("_offset", "_source")

    def __init__(self) -> None:
        self._source = _source()
        self._offset = 0.0

    def now(self) -> float:
        """Returns the time in seconds since an arbitrary moment."""
        if self._source is None:
            return time.monotonic() + self._offset
        return time.clock_gettime(self._source) + self._offset

    def advance(self, seconds: float) -> None:
        """Moves the clock forward, as if the machine had slept."""
        self._offset += seconds


def to_seconds(span: Span, field: str) -> float:
    """Returns the length in seconds. Raises ArgumentError with the field for nan and inf."""
    seconds = span.total_seconds() if isinstance(span, timedelta) else float(span)
    if not math.isfinite(seconds):
        raise ArgumentError(field, expected="expected a finite number of seconds")
    return seconds


def to_duration(span: Span | None, field: str) -> Duration | None:
    """Returns the message of a length, exact to the microsecond.

    Raises ArgumentError with the field for a length that a message cannot hold.
    """
    if span is None:
        return None
    try:
        delta = span if isinstance(span, timedelta) else timedelta(seconds=span)
    except (OverflowError, ValueError):
        expected = "expected a number of seconds within 999,999,999 days"
        raise ArgumentError(field, expected=expected) from None
    message = Duration()
    message.FromTimedelta(delta)
    return message


def to_timestamp(moment: datetime | None) -> Timestamp | None:
    """Returns the message of a moment. A naive datetime is local time."""
    if moment is None:
        return None
    message = Timestamp()
    message.FromDatetime(moment.astimezone(timezone.utc))
    return message


def to_datetime(message: Timestamp) -> datetime:
    """Returns a moment in UTC."""
    return message.ToDatetime(timezone.utc)
