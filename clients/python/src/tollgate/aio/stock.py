"""Stock: reservations that are confirmed or cancelled."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

from tollgate import _methods as methods
from tollgate._build import build
from tollgate._time import Clock, Span, to_duration
from tollgate.aio._caller import Caller
from tollgate.aio._lease import Raised, Trace, margin
from tollgate.enums import CancelOutcome, ConfirmOutcome, ReservationState
from tollgate.errors import QuantityDiffers, unknown_answer
from tollgate.stocks import AlreadySettled, BuyerLimit, NotReserved, Short, Stock
from tollgate.v1 import stock_pb2 as pb

if TYPE_CHECKING:
    from typing_extensions import Self


class Reservation:
    """A quantity that is held for an order.

    Leaving the scope without `confirm` cancels the reservation, even after an error:

        async with reservation:
            await pay()
            await reservation.confirm()
    """

    def __init__(self, item: StockItem, answer: pb.ReserveStockResponse, before: float) -> None:
        held = answer.reservation
        self.sku = held.sku
        """The sku."""
        self.order = held.order_id
        """The order."""
        self.quantity = held.quantity
        """The quantity. A repeat has the quantity of the first reservation."""
        self.replayed = answer.replayed
        """Whether an earlier call reserved it."""
        self.stock = Stock.of(answer.stock)
        """The stock after the reservation."""
        left = held.expires_in.ToTimedelta().total_seconds()
        self._end = before + left - margin(left)
        self._item = item
        self._settled = False

    @property
    def valid_for(self) -> timedelta:
        """The time left of the hold on the local clock; 0 if it has lapsed."""
        return timedelta(seconds=max(self._end - self._item.clock.now(), 0.0))

    async def confirm(self) -> ConfirmOutcome:
        """Confirms the paid reservation, even after the hold has lapsed.

        The call is repeated until its outcome is known. EXPIRED means that the quantity is
        no longer available: refund the payment.
        """
        outcome, _ = await self._item.confirm(self.order)
        self._settled = True
        return outcome

    async def cancel(self) -> CancelOutcome:
        """Cancels the reservation: its quantity is available again."""
        outcome = await self._item.cancel(self.order)
        self._settled = True
        return outcome

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: Raised, error: BaseException | None, trace: Trace) -> None:
        """Cancels an unconfirmed reservation.

        It takes at most the deadline of one call. Without an answer, the cancellation
        continues in the background until the hold ends.
        """
        if not self._settled:
            await self._item.leave(self.order, self._end)


class StockItem:
    """The stock of a sku. Create it with `Connection.stock`."""

    def __init__(self, sku: str, caller: Caller, clock: Clock) -> None:
        self.sku = sku
        """The sku."""
        self.clock = clock
        self._caller = caller

    async def get(self) -> Stock:
        """Returns the stock, with `holds`. Raises Error NOT_FOUND if it was never set."""
        request = build(pb.GetStockRequest, sku=self.sku)
        answer = await self._caller.call(methods.GET_STOCK, request)
        return Stock.of(answer.stock, holds=answer.holds)

    async def set(self, on_hand: int) -> Stock:
        """Sets the quantity on hand, 0 to 2^53-1. The call is never repeated."""
        request = build(pb.SetStockRequest, sku=self.sku, on_hand=on_hand)
        answer = await self._caller.call(methods.SET_STOCK, request, repeatable=False)
        return Stock.of(answer.stock)

    async def add(self, delta: int, *, request_id: str | None = None) -> Stock:
        """Adds to the stock; a negative delta subtracts.

        A repeat with the same `request_id` within 5 minutes adds nothing. Default: a
        generated one, which the retries of this call keep. With "" the call is never
        repeated.
        """
        identity = uuid.uuid4().hex if request_id is None else request_id
        request = build(pb.AddStockRequest, sku=self.sku, delta=delta, request_id=identity)
        repeatable = bool(identity)
        answer = await self._caller.call(methods.ADD_STOCK, request, repeatable=repeatable)
        return Stock.of(answer.stock, answer.replayed)

    async def reserve(
        self,
        order: str,
        quantity: int,
        *,
        hold: Span | None = None,
        buyer: str = "",
        buyer_limit: int | None = None,
    ) -> Reservation | NotReserved:
        """Reserves a quantity (1 to 1,000,000,000) for an order until its hold ends.

        `hold` is 1 ms to 30 days, default 15 minutes. `buyer_limit` is the maximum that the
        buyer may have reserved and bought. Returns a reservation, or Short, BuyerLimit or
        AlreadySettled. Raises QuantityDiffers if the order holds another quantity.
        """
        request = build(
            pb.ReserveStockRequest,
            sku=self.sku,
            order_id=order,
            quantity=quantity,
            hold_duration=to_duration(hold, "hold_duration"),
            buyer_id=buyer,
            buyer_limit=buyer_limit,
        )
        await self._caller.claims.settle("order", self.sku, order)
        before, answer = await self._caller.timed(methods.RESERVE_STOCK, request)
        stock = Stock.of(answer.stock)
        if answer.outcome == pb.RESERVE_OUTCOME_RESERVED:
            return Reservation(self, answer, before)
        if answer.outcome == pb.RESERVE_OUTCOME_SHORT:
            retry_after = answer.retry_after if answer.HasField("retry_after") else None
            return Short(stock, None if retry_after is None else retry_after.ToTimedelta())
        if answer.outcome == pb.RESERVE_OUTCOME_BUYER_LIMIT:
            return BuyerLimit(stock, answer.buyer_quantity)
        if answer.outcome == pb.RESERVE_OUTCOME_QUANTITY_DIFFERS:
            raise QuantityDiffers(order, self.sku, answer.reservation.quantity, quantity)
        if answer.outcome == pb.RESERVE_OUTCOME_ALREADY_SETTLED:
            return AlreadySettled(stock, ReservationState.of(answer.reservation.state))
        raise unknown_answer("ReserveOutcome", answer.outcome)

    async def confirm(self, order: str) -> tuple[ConfirmOutcome, bool]:
        """Confirms a paid reservation, also a lapsed one, and repeats until it is decided.

        Returns the outcome, and whether a lapsed quantity was taken again.
        """
        request = build(pb.ConfirmReservationRequest, sku=self.sku, order_id=order)
        answer = await self._caller.until_known(methods.CONFIRM_RESERVATION, request)
        return ConfirmOutcome.of(answer.outcome), answer.retaken

    async def cancel(self, order: str) -> CancelOutcome:
        """Cancels a reservation, and repeats until it is decided."""
        request = build(pb.CancelReservationRequest, sku=self.sku, order_id=order)
        answer = await self._caller.until_known(methods.CANCEL_RESERVATION, request)
        return CancelOutcome.of(answer.outcome)

    async def leave(self, order: str, until: float) -> None:
        """Cancels a reservation whose scope is left."""
        request, caller = (
            build(pb.CancelReservationRequest, sku=self.sku, order_id=order),
            self._caller,
        )

        async def cancel() -> None:
            await caller.once(methods.CANCEL_RESERVATION, request, caller.transport.pick())

        await caller.claims.leave(("order", self.sku, order), until, cancel)
