"""Sequences of the blocking API."""

from __future__ import annotations

from tollgate import aio
from tollgate.blocking._loop import run
from tollgate.sequences import Block, LastValue, Value


class Sequence:
    """A sequence of values. Create it with `Connection.sequence`."""

    def __init__(self, inner: aio.Sequence) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        """The name of the sequence."""
        return self._inner.name

    def next(
        self,
        count: int = 1,
        *,
        step: int | None = None,
        floor: int | None = None,
        request_id: str | None = None,
    ) -> Block:
        """Returns the next values, to this caller only. As `tollgate.aio.Sequence.next`."""
        return run(self._inner.next(count, step=step, floor=floor, request_id=request_id))

    def last(self) -> LastValue:
        """Returns the last value that was handed out."""
        return run(self._inner.last())

    def set_floor(self, floor: int) -> bool:
        """Moves the sequence forward. As `tollgate.aio.Sequence.set_floor`."""
        return run(self._inner.set_floor(floor))

    def allocator(self, block: int = 100) -> Allocator:
        """Returns an allocator that fetches `block` values (1 to 10,000) with one call."""
        return Allocator(self._inner.allocator(block))


class Allocator:
    """Hands out the values of blocks, and fetches the next block in advance.

    Threads may share an allocator; no value is handed out twice.
    """

    def __init__(self, inner: aio.Allocator) -> None:
        self._inner = inner

    def next(self) -> Value:
        """Returns the next value. Raises Error if no block could be fetched."""
        return run(self._inner.next())

    def close(self) -> None:
        """Ends a running fetch. The values that were not handed out become a gap."""
        run(self._inner.close())
