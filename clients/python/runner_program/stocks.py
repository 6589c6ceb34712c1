"""Commands of stock."""

from __future__ import annotations

from runner_program.pools import HandlerError
from runner_program.state import Answer, Commands, Fields, State, given, seconds
from tollgate import AlreadySettled, BuyerLimit, Short, Stock
from tollgate.aio import Reservation, StockItem

OUTCOMES = {Short: "SHORT", BuyerLimit: "BUYER_LIMIT", AlreadySettled: "ALREADY_SETTLED"}


def item(state: State, fields: Fields) -> StockItem:
    return state.connection(fields).stock(fields["sku"])


def stock_fields(stock: Stock) -> Answer:
    return {
        "on_hand": str(stock.on_hand),
        "available": str(stock.available),
        "reserved": str(stock.reserved),
        "sold": str(stock.sold),
    }


async def set_stock(state: State, fields: Fields) -> Answer:
    return stock_fields(await item(state, fields).set(int(fields["on_hand"])))


async def add_stock(state: State, fields: Fields) -> Answer:
    options = given(fields, "request_id")
    stock = await item(state, fields).add(int(fields["delta"]), **options)
    return {**stock_fields(stock), "replayed": stock.replayed}


async def get_stock(state: State, fields: Fields) -> Answer:
    stock = await item(state, fields).get()
    return {**stock_fields(stock), "holds": str(stock.holds)}


async def reserve(state: State, fields: Fields) -> Answer:
    options = given(fields, "hold", "buyer")
    if "buyer_limit" in fields:
        options["buyer_limit"] = int(fields["buyer_limit"])
    answer = await item(state, fields).reserve(fields["order"], int(fields["quantity"]), **options)
    if isinstance(answer, Reservation):
        state.keep(fields, answer)
        valid_for = answer.valid_for.total_seconds()
        return {"outcome": "RESERVED", "replayed": answer.replayed, "valid_for": valid_for}
    result: Answer = {"outcome": OUTCOMES[type(answer)], "replayed": False}
    if isinstance(answer, Short):
        result.update(seconds(answer.retry_after))
    return result


async def confirm(state: State, fields: Fields) -> Answer:
    outcome, retaken = await item(state, fields).confirm(fields["order"])
    return {"outcome": outcome.name, "retaken": retaken}


async def cancel_reservation(state: State, fields: Fields) -> Answer:
    return {"outcome": (await item(state, fields).cancel(fields["order"])).name}


async def leave_reservation(state: State, fields: Fields) -> Answer:
    failure = HandlerError()
    try:
        async with state.get(fields) as reservation:
            if fields["confirm"]:
                await reservation.confirm()
            if fields.get("failed", False):
                raise failure
    except HandlerError as error:
        return {"delivered": error is failure}
    return {"delivered": False}


COMMANDS: Commands = {
    "set_stock": set_stock,
    "add_stock": add_stock,
    "stock": get_stock,
    "reserve": reserve,
    "confirm": confirm,
    "cancel_reservation": cancel_reservation,
    "leave_reservation": leave_reservation,
}
