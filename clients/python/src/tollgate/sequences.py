"""Answers of sequences, as values."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from datetime import datetime

from tollgate._time import to_datetime
from tollgate.v1 import sequence_pb2 as pb


@dataclass(frozen=True, slots=True)
class Block:
    """Values that no other caller gets: first, first + step, … last."""

    first: int
    """The first value."""
    last: int
    """The last value; equals first for a single value."""
    step: int
    """Distance between values."""
    serials: tuple[str, ...]
    """The values in the layout of the name; empty without a layout."""
    floor_applied: bool
    """Whether the floor was above the next value."""
    replayed: bool
    """Whether an earlier call with this request id got these values."""

    @staticmethod
    def of(answer: pb.NextSequenceResponse) -> Block:
        """Reads the message."""
        return Block(
            answer.first,
            answer.last,
            answer.step,
            tuple(answer.serials),
            answer.floor_applied,
            answer.replayed,
        )

    def values(self) -> list[Value] | None:
        """Returns each value with its serial.

        The values of a calendar skip times that do not exist. They are then read from the
        serials. Returns None if the layout has other digits too, so that only `first` and
        `last` are known.
        """
        if not self.serials:
            return [Value(n, None) for n in range(self.first, self.last + 1, self.step)]
        steps = len(self.serials) - 1
        if self.first + steps * self.step == self.last:
            numbers = [self.first + n * self.step for n in range(steps + 1)]
        else:
            digits = len(str(self.last))
            numbers = [int(re.sub(r"\D", "", s)[-digits:] or "0") for s in self.serials]
            rising = all(a < b for a, b in itertools.pairwise(numbers))
            if numbers[0] != self.first or numbers[-1] != self.last or not rising:
                return None
        return [Value(n, s) for n, s in zip(numbers, self.serials, strict=True)]


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a sequence."""

    number: int
    """The value."""
    serial: str | None
    """The value in the layout of the name; None without a layout."""


@dataclass(frozen=True, slots=True)
class LastValue:
    """The last value of a sequence that was handed out."""

    last: int
    """The value; 0 if none was handed out."""
    serial: str
    """The value in the layout of the name; empty without a layout."""
    update_time: datetime | None
    """When it was handed out; None before the first value."""

    @staticmethod
    def of(answer: pb.GetSequenceResponse) -> LastValue:
        """Reads the message."""
        time = to_datetime(answer.update_time) if answer.HasField("update_time") else None
        return LastValue(answer.last, answer.serial, time)
