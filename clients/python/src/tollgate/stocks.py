"""Answers of stock, as values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from tollgate.enums import ReservationState
from tollgate.v1 import stock_pb2 as pb


@dataclass(frozen=True, slots=True)
class Stock:
    """The quantities of a sku."""

    sku: str
    """The sku."""
    on_hand: int
    """Quantity on hand, including reserved ones."""
    available: int
    """Quantity that can be reserved."""
    reserved: int
    """Quantity held for orders."""
    sold: int
    """Quantity confirmed since the sku was created."""
    replayed: bool = False
    """Whether an earlier `add` with this request id gave this answer."""
    holds: int | None = None
    """Number of reservations that are held; None unless `get` returned it."""

    @staticmethod
    def of(stock: pb.Stock, replayed: bool = False, holds: int | None = None) -> Stock:
        """Reads the message."""
        return Stock(
            stock.sku, stock.on_hand, stock.available, stock.reserved, stock.sold, replayed, holds
        )


@dataclass(frozen=True, slots=True)
class NotReserved:
    """Nothing was reserved. The subclass says why."""

    stock: Stock
    """The stock now."""


@dataclass(frozen=True, slots=True)
class Short(NotReserved):
    """Fewer are available."""

    retry_after: timedelta | None
    """Time until the next hold ends; None if only more stock helps."""


@dataclass(frozen=True, slots=True)
class BuyerLimit(NotReserved):
    """The buyer would have more than the limit."""

    buyer_quantity: int
    """The quantity that the buyer has reserved and bought."""


@dataclass(frozen=True, slots=True)
class AlreadySettled(NotReserved):
    """The order's reservation was confirmed or cancelled."""

    state: ReservationState
    """CONFIRMED or CANCELLED."""
