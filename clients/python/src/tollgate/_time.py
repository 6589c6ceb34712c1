"""The local clock, and conversions of durations."""

from __future__ import annotations

import sys
import time
from datetime import datetime, timedelta, timezone

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

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


def to_seconds(span: Span) -> float:
    """Returns the length in seconds."""
    return span.total_seconds() if isinstance(span, timedelta) else float(span)


def to_duration(span: Span | None) -> Duration | None:
    """Returns the message of a length, exact to the microsecond."""
    if span is None:
        return None
    delta = span if isinstance(span, timedelta) else timedelta(seconds=span)
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
