"""Sequences: numbers that never repeat, and blocks of them fetched in advance."""

from __future__ import annotations

import asyncio
import uuid
from collections import deque

from tollgate import _methods as methods
from tollgate._build import build
from tollgate.aio._caller import Caller
from tollgate.sequences import Block, LastValue, Value
from tollgate.v1 import sequence_pb2 as pb


class Sequence:
    """A sequence of values. Create it with `Connection.sequence`."""

    def __init__(self, name: str, caller: Caller) -> None:
        self.name = name
        """The name of the sequence."""
        self._caller = caller

    async def next(
        self,
        count: int = 1,
        *,
        step: int | None = None,
        floor: int | None = None,
        request_id: str | None = None,
    ) -> Block:
        """Returns the next `count` values (1 to 10,000). No other call gets them.

        `step` is the distance between values, default 1. `floor` is a lower bound of the
        values. `request_id` identifies the request: a repeat within 5 minutes returns the
        same values. Default: a generated one, which the retries of this call keep.
        """
        request = build(
            pb.NextSequenceRequest,
            name=self.name,
            count=count,
            step=step,
            floor=floor,
            request_id=uuid.uuid4().hex if request_id is None else request_id,
        )
        repeatable = bool(request.request_id)
        return Block.of(
            await self._caller.call(methods.NEXT_SEQUENCE, request, repeatable=repeatable)
        )

    async def last(self) -> LastValue:
        """Returns the last value that was handed out."""
        request = build(pb.GetSequenceRequest, name=self.name)
        return LastValue.of(await self._caller.call(methods.GET_SEQUENCE, request))

    async def set_floor(self, floor: int) -> bool:
        """Moves the sequence forward: its next value is at least `floor`, 0 to 2^63-1.

        Returns False if the floor is not above the last value: nothing changed then. Needs
        the permission `manage`.
        """
        request = build(pb.SetSequenceFloorRequest, name=self.name, floor=floor)
        return (await self._caller.call(methods.SET_SEQUENCE_FLOOR, request)).applied

    def allocator(self, block: int = 100) -> Allocator:
        """Returns an allocator that fetches `block` values (1 to 10,000) with one call."""
        return Allocator(self, block)


class Allocator:
    """Hands out the values of blocks, and fetches the next block in advance.

    No value is handed out twice. The values of one allocator are in order; those of several
    are not. Values that were not handed out become a gap. Tasks may share an allocator.
    """

    def __init__(self, sequence: Sequence, block: int) -> None:
        self._sequence = sequence
        self._block = block
        self._values: deque[Value] = deque()
        self._fetch: asyncio.Task[None] | None = None

    async def next(self) -> Value:
        """Returns the next value. Raises Error if no block could be fetched."""
        while not self._values:
            await asyncio.shield(self._fetching())
        value = self._values.popleft()
        if len(self._values) <= self._block // 2:
            self._fetching()
        return value

    def _fetching(self) -> asyncio.Task[None]:
        """Returns the running fetch, or starts one. A failed one in advance is repeated."""
        if self._fetch is None or self._fetch.done():
            self._fetch = asyncio.create_task(self._load())
            self._fetch.add_done_callback(_observe)
        return self._fetch

    async def _load(self) -> None:
        block = await self._sequence.next(self._block)
        values = block.values()
        if values is None:  # the layout hides the values between first and last
            block = await self._sequence.next(1)
            values = [Value(block.first, block.serials[0] if block.serials else None)]
        self._values.extend(values)

    async def close(self) -> None:
        """Ends a running fetch. Values that were not handed out become a gap."""
        if self._fetch is not None:
            self._fetch.cancel()
            await asyncio.gather(self._fetch, return_exceptions=True)
        self._values.clear()


def _observe(task: asyncio.Task[None]) -> None:
    """Marks the error of a fetch in advance as seen: the next one reports it."""
    if not task.cancelled():
        task.exception()
