from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tollgate import (
    AlreadySettled,
    BuyerLimit,
    CancelOutcome,
    ConfirmOutcome,
    Error,
    QuantityDiffers,
    ReservationState,
    Short,
)
from tollgate.aio import Connection, Reservation


async def test_quantities(any_connection: Connection, name: str) -> None:
    stock = any_connection.stock(name)
    with pytest.raises(Error, match="STOCK_NOT_FOUND"):
        await stock.get()
    largest = 2**53 - 1
    assert (await stock.set(largest)).available == largest
    assert (await stock.add(-largest + 5)).on_hand == 5
    first = await stock.add(1, request_id=name)
    again = await stock.add(1, request_id=name)
    assert (first.on_hand, again.on_hand, again.replayed) == (6, 6, True)
    assert not first.replayed


async def test_a_scope_confirms(any_connection: Connection, name: str) -> None:
    stock = any_connection.stock(name)
    await stock.set(3)
    reservation = await stock.reserve("o-1", 2, hold=60, buyer="b", buyer_limit=2)
    assert isinstance(reservation, Reservation)
    assert timedelta(seconds=50) < reservation.valid_for < timedelta(seconds=60)
    with pytest.raises(QuantityDiffers):
        await stock.reserve("o-1", 3)
    repeat = await stock.reserve("o-1", 2)
    assert isinstance(repeat, Reservation)
    assert (repeat.quantity, repeat.replayed) == (2, True)
    held = await stock.get()
    assert (held.reserved, held.holds, repeat.stock.holds) == (2, 1, None)
    async with reservation:
        assert await reservation.confirm() is ConfirmOutcome.CONFIRMED
    found = await stock.get()
    assert (found.on_hand, found.reserved, found.sold, found.holds) == (1, 0, 2, 0)
    settled = await stock.reserve("o-1", 1)
    assert isinstance(settled, AlreadySettled)
    assert settled.state is ReservationState.CONFIRMED
    short = await stock.reserve("o-2", 2)
    assert isinstance(short, Short)
    assert short.stock.available == 1
    limited = await stock.reserve("o-3", 1, buyer="b", buyer_limit=2)
    assert isinstance(limited, BuyerLimit)
    assert limited.buyer_quantity == 2


async def test_a_scope_without_confirm_cancels(any_connection: Connection, name: str) -> None:
    stock = any_connection.stock(name)
    await stock.set(2)
    reservation = await stock.reserve("o", 2)
    assert isinstance(reservation, Reservation)
    with pytest.raises(ZeroDivisionError):
        async with reservation:
            _ = 1 // 0
    assert (await stock.get()).available == 2
    assert await stock.cancel("o") is CancelOutcome.ALREADY_CANCELLED


async def test_a_late_payment(any_connection: Connection, name: str) -> None:
    stock = any_connection.stock(name)
    await stock.set(1)
    reservation = await stock.reserve("late", 1, hold=0.2)
    assert isinstance(reservation, Reservation)
    await asyncio.sleep(0.3)
    assert reservation.valid_for == timedelta(0)
    assert await stock.confirm("late") == (ConfirmOutcome.CONFIRMED, True)
    assert await stock.confirm("other") == (ConfirmOutcome.UNKNOWN, False)
