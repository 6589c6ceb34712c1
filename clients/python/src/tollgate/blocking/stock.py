"""Stock of the blocking API."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from tollgate import aio
from tollgate._time import Span
from tollgate.aio._lease import Raised, Trace
from tollgate.blocking._loop import run
from tollgate.enums import CancelOutcome, ConfirmOutcome
from tollgate.stocks import NotReserved, Stock

if TYPE_CHECKING:
    from typing_extensions import Self


class Reservation:
    """A quantity that is held for an order. Leaving the scope without `confirm` cancels it."""

    def __init__(self, inner: aio.Reservation) -> None:
        self._inner = inner

    @property
    def order(self) -> str:
        """The order."""
        return self._inner.order

    @property
    def quantity(self) -> int:
        """The quantity. A repeat has the quantity of the first reservation."""
        return self._inner.quantity

    @property
    def replayed(self) -> bool:
        """Whether an earlier call reserved it."""
        return self._inner.replayed

    @property
    def stock(self) -> Stock:
        """The stock after the reservation."""
        return self._inner.stock

    @property
    def valid_for(self) -> timedelta:
        """The time left of the hold on the local clock; 0 if it has lapsed."""
        return self._inner.valid_for

    def confirm(self) -> ConfirmOutcome:
        """Confirms the paid reservation. As `tollgate.aio.Reservation.confirm`."""
        return run(self._inner.confirm())

    def cancel(self) -> CancelOutcome:
        """Cancels the reservation: its quantity is available again."""
        return run(self._inner.cancel())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Raised, error: BaseException | None, trace: Trace) -> None:
        """Cancels an unconfirmed reservation; if that fails, the hold lapses."""
        run(self._inner.__aexit__(kind, error, trace))


class StockItem:
    """The stock of a sku. Create it with `Connection.stock`."""

    def __init__(self, inner: aio.StockItem) -> None:
        self._inner = inner

    @property
    def sku(self) -> str:
        """The sku."""
        return self._inner.sku

    def get(self) -> Stock:
        """Returns the stock, with `holds`. Raises Error NOT_FOUND if it was never set."""
        return run(self._inner.get())

    def set(self, on_hand: int) -> Stock:
        """Sets the quantity on hand, 0 to 2^53-1. The call is never repeated."""
        return run(self._inner.set(on_hand))

    def add(self, delta: int, *, request_id: str | None = None) -> Stock:
        """Adds to the stock; a negative delta subtracts. As `tollgate.aio.StockItem.add`."""
        return run(self._inner.add(delta, request_id=request_id))

    def reserve(
        self,
        order: str,
        quantity: int,
        *,
        hold: Span | None = None,
        buyer: str = "",
        buyer_limit: int | None = None,
    ) -> Reservation | NotReserved:
        """Reserves a quantity for an order. As `tollgate.aio.StockItem.reserve`."""
        answer = run(
            self._inner.reserve(order, quantity, hold=hold, buyer=buyer, buyer_limit=buyer_limit)
        )
        return answer if isinstance(answer, NotReserved) else Reservation(answer)

    def confirm(self, order: str) -> tuple[ConfirmOutcome, bool]:
        """Confirms a reservation. Returns the outcome, and whether it was taken again."""
        return run(self._inner.confirm(order))

    def cancel(self, order: str) -> CancelOutcome:
        """Cancels a reservation, and repeats until it is decided."""
        return run(self._inner.cancel(order))
