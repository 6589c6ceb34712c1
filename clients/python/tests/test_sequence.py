from __future__ import annotations

import asyncio

import grpc
import pytest

from tests.fake import FakeServer
from tollgate import Block, Error, Retry, Value
from tollgate import _methods as methods
from tollgate.aio import Connection
from tollgate.v1 import sequence_pb2


async def test_values_rise_and_keep_64_bits(any_connection: Connection, name: str) -> None:
    sequence = any_connection.sequence(name)
    first = await sequence.next(3, step=2)
    assert (first.last - first.first, first.step) == (4, 2)
    floor = 2**62 + 1
    second = await sequence.next(floor=floor)
    assert (second.first, second.floor_applied) == (floor, True)
    assert (await sequence.last()).last == floor
    with pytest.raises(Error, match="OUT_OF_RANGE"):
        await sequence.next(2, floor=2**63 - 1)


async def test_a_request_id_repeats_values(any_connection: Connection, name: str) -> None:
    sequence = any_connection.sequence(name)
    first = await sequence.next(2, request_id=name)
    again = await sequence.next(2, request_id=name)
    assert (again.first, again.last, again.replayed) == (first.first, first.last, True)


async def test_the_allocator_never_repeats(any_connection: Connection, name: str) -> None:
    sequence = any_connection.sequence(name)
    allocators = [sequence.allocator(block=10) for _ in range(3)]
    work = [allocator.next() for _ in range(100) for allocator in allocators]
    values = [value.number for value in await asyncio.gather(*work)]
    assert len(set(values)) == 300
    own = [(await allocators[0].next()).number for _ in range(30)]
    assert own == sorted(own)
    for allocator in allocators:
        await allocator.close()


async def test_the_allocator_has_serials(any_connection: Connection) -> None:
    allocator = any_connection.sequence("order").allocator(block=250)
    for _ in range(600):
        value = await allocator.next()
        assert value.serial == str(value.number)
    await allocator.close()


async def test_the_allocator_reports_a_failed_fetch_and_recovers(name: str) -> None:
    async with FakeServer() as fake:
        block = sequence_pb2.NextSequenceResponse(first=1, last=4, step=1)
        fake.play(methods.NEXT_SEQUENCE, grpc.StatusCode.UNAVAILABLE, block)
        async with Connection(fake.address, retry=Retry(attempts=1)) as connection:
            allocator = connection.sequence(name).allocator(block=4)
            with pytest.raises(Error, match="UNAVAILABLE"):
                await allocator.next()
            assert (await allocator.next()).number == 1
            await allocator.close()


def block(first: int, last: int, *serials: str) -> Block:
    return Block(first, last, 1, serials, False, False)


def test_values_of_blocks() -> None:
    assert block(5, 7).values() == [Value(5, None), Value(6, None), Value(7, None)]
    assert block(5, 6, "T5", "T6").values() == [Value(5, "T5"), Value(6, "T6")]
    # 23:59:59 is followed by 00:00:00 of the next day.
    leap = block(20261231235959, 20270101000000, "N-20261231-235959", "N-20270101-000000")
    numbers = [20261231235959, 20270101000000]
    assert [value.number for value in leap.values() or []] == numbers
    assert block(59, 100, "A59x7", "A100x8").values() is None
