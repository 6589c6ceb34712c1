"""Stock: reservations, late payments, limits of buyers, and lost answers."""

import time

import pytest

from harness.paths import eventually


def numbers(stock):
    return {field: stock[field] for field in ["on_hand", "available", "reserved", "sold"]}


def test_a_reservation_is_confirmed(client, observer, name):
    stock = client.set_stock(sku=name, on_hand="3")
    assert numbers(stock) == {"on_hand": "3", "available": "3", "reserved": "0", "sold": "0"}
    answer = client.reserve(handle="a", sku=name, order="o-1", quantity="2", hold=60)
    assert answer["outcome"] == "RESERVED" and answer["replayed"] is False
    assert 0 < answer["valid_for"] <= 60
    held = client.stock(sku=name)
    assert numbers(held) == {"on_hand": "3", "available": "1", "reserved": "2", "sold": "0"}
    assert held["holds"] == "1"
    confirmed = client.confirm(sku=name, order="o-1")
    assert confirmed["outcome"] == "CONFIRMED" and confirmed["retaken"] is False
    assert client.confirm(sku=name, order="o-1")["outcome"] == "ALREADY_CONFIRMED"
    assert client.stock(sku=name)["holds"] == "0"
    assert observer.stock(name) == (1, 0, 2)


def test_short_is_an_answer(client, observer, name):
    observer.set_stock(name, 1)
    client.reserve(handle="a", sku=name, order="o-1", quantity="1", hold=60)
    answer = client.reserve(handle="b", sku=name, order="o-2", quantity="1")
    assert answer["outcome"] == "SHORT"
    assert answer["retry_after"] > 0
    client.confirm(sku=name, order="o-1")
    sold_out = client.reserve(handle="c", sku=name, order="o-3", quantity="1")
    assert sold_out["outcome"] == "SHORT"
    assert sold_out.get("retry_after") is None


def test_a_repeat_reserves_once(client, observer, name):
    observer.set_stock(name, 5)
    client.reserve(handle="a", sku=name, order="o-1", quantity="2", hold=60)
    again = client.reserve(handle="b", sku=name, order="o-1", quantity="2", hold=60)
    assert again["outcome"] == "RESERVED" and again["replayed"] is True
    assert observer.stock(name) == (3, 2, 0)


def test_j6_another_quantity_for_an_order_is_a_typed_error(client, observer, name):
    observer.set_stock(name, 9)
    client.reserve(handle="a", sku=name, order="o-1", quantity="1", hold=60)
    error = client.error("reserve", handle="b", sku=name, order="o-1", quantity="5", hold=60)
    assert (error.code, error.reason) == ("FAILED_PRECONDITION", "QUANTITY_DIFFERS")
    assert observer.stock(name) == (8, 1, 0)
    again = client.reserve(handle="c", sku=name, order="o-1", quantity="1", hold=60)
    assert again["outcome"] == "RESERVED" and again["replayed"] is True


def test_a_cancelled_reservation_is_available_again(client, observer, name):
    observer.set_stock(name, 5)
    client.reserve(handle="a", sku=name, order="o-1", quantity="2")
    assert client.cancel_reservation(sku=name, order="o-1")["outcome"] == "CANCELLED"
    again = client.cancel_reservation(sku=name, order="o-1")
    assert again["outcome"] == "ALREADY_CANCELLED"
    assert client.confirm(sku=name, order="o-1")["outcome"] == "CANCELLED"
    assert client.confirm(sku=name, order="o-2")["outcome"] == "UNKNOWN"
    settled = client.reserve(handle="b", sku=name, order="o-1", quantity="2")
    assert settled["outcome"] == "ALREADY_SETTLED"
    assert observer.stock(name) == (5, 0, 0)


def test_leaving_the_scope_cancels(client, observer, name):
    observer.set_stock(name, 5)
    client.reserve(handle="a", sku=name, order="o-1", quantity="2", hold=600)
    client.leave_reservation(handle="a", confirm=False)
    eventually(lambda: observer.stock(name) == (5, 0, 0), "the quantity is available again")


def test_leaving_the_scope_after_the_confirmation_sells(client, observer, name):
    observer.set_stock(name, 5)
    client.reserve(handle="a", sku=name, order="o-1", quantity="2", hold=600)
    client.leave_reservation(handle="a", confirm=True)
    assert observer.stock(name) == (3, 0, 2)


def test_a_late_payment_takes_the_quantity_again(client, observer, name):
    observer.set_stock(name, 1)
    client.reserve(handle="a", sku=name, order="o-1", quantity="1", hold=0.2)
    eventually(lambda: observer.stock(name) == (1, 0, 0), "the hold has lapsed")
    answer = client.confirm(sku=name, order="o-1")
    assert answer["outcome"] == "CONFIRMED" and answer["retaken"] is True
    assert observer.stock(name) == (0, 0, 1)


def test_a_late_payment_for_sold_stock_is_expired(client, observer, name):
    observer.set_stock(name, 1)
    client.reserve(handle="a", sku=name, order="o-1", quantity="1", hold=0.2)
    eventually(lambda: observer.stock(name) == (1, 0, 0), "the hold has lapsed")
    client.reserve(handle="b", sku=name, order="o-2", quantity="1", hold=60)
    client.confirm(sku=name, order="o-2")
    assert client.confirm(sku=name, order="o-1")["outcome"] == "EXPIRED"
    assert client.cancel_reservation(sku=name, order="o-1")["outcome"] == "EXPIRED"
    assert observer.stock(name) == (0, 0, 1)


def test_a_limit_of_a_buyer(client, observer, name):
    observer.set_stock(name, 9)
    buyer = {"sku": name, "quantity": "1", "buyer": "ann", "buyer_limit": "1"}
    assert client.reserve(handle="a", order="o-1", **buyer)["outcome"] == "RESERVED"
    assert client.reserve(handle="b", order="o-2", **buyer)["outcome"] == "BUYER_LIMIT"
    assert observer.stock(name) == (8, 1, 0)


@pytest.mark.parametrize("fault", ["lose_reply", "cut_reply", "cut_request"])
def test_a_lost_reservation_is_made_once(faulty, proxy, observer, name, fault):
    observer.set_stock(name, 5)
    lost = getattr(proxy, fault)("ReserveStock")
    answer = faulty.reserve(handle="a", sku=name, order="o-1", quantity="2", hold=60)
    assert lost.fired.is_set() and answer["outcome"] == "RESERVED"
    assert observer.stock(name) == (3, 2, 0)


@pytest.mark.parametrize("fault", ["lose_reply", "cut_reply", "cut_request"])
def test_a_lost_confirmation_sells_once(faulty, proxy, observer, name, fault):
    observer.set_stock(name, 5)
    faulty.reserve(handle="a", sku=name, order="o-1", quantity="2", hold=60)
    getattr(proxy, fault)("ConfirmReservation")
    assert faulty.confirm(sku=name, order="o-1")["outcome"] in ("CONFIRMED", "ALREADY_CONFIRMED")
    assert observer.stock(name) == (3, 0, 2)


@pytest.mark.parametrize("fault", ["lose_reply", "cut_reply", "cut_request"])
def test_a_lost_addition_is_made_once(faulty, proxy, observer, name, fault):
    """The library generates an id and keeps it over repeats."""
    observer.set_stock(name, 5)
    lost = getattr(proxy, fault)("AddStock")
    assert numbers(faulty.add_stock(sku=name, delta="3"))["on_hand"] == "8"
    assert lost.fired.is_set()
    assert observer.stock(name) == (8, 0, 0)


def test_an_addition_with_an_id_of_the_caller(client, observer, name):
    observer.set_stock(name, 5)
    client.add_stock(sku=name, delta="-2", request_id="r-1")
    again = client.add_stock(sku=name, delta="-2", request_id="r-1")
    assert again["replayed"] is True
    assert observer.stock(name) == (3, 0, 0)


def test_a_sale_is_never_oversold(client, observer, name):
    observer.set_stock(name, 20)
    calls = [client.send("reserve", handle=f"h-{i}", sku=name, order=f"o-{i}", quantity="1",
                         hold=60) for i in range(100)]
    reserved = [f"o-{i}" for i, call in enumerate(calls)
                if call.result()["outcome"] == "RESERVED"]
    assert len(reserved) == 20
    for call in [client.send("confirm", sku=name, order=order) for order in reserved]:
        assert call.result()["outcome"] == "CONFIRMED"
    assert observer.stock(name) == (0, 0, 20)


def test_large_quantities_are_exact(client, observer, name):
    largest = 2**53 - 1
    stock = client.set_stock(sku=name, on_hand=str(largest))
    assert stock["on_hand"] == str(largest)
    assert client.stock(sku=name)["available"] == str(largest)
    error = client.error("add_stock", sku=name, delta="1")
    assert error.code == "OUT_OF_RANGE"


def test_the_errors_of_stock(client, observer, name):
    unknown = client.error("stock", sku=name)
    assert (unknown.code, unknown.reason) == ("NOT_FOUND", "STOCK_NOT_FOUND")
    observer.set_stock(name, 5)
    client.reserve(handle="a", sku=name, order="o-1", quantity="2")
    assert client.error("set_stock", sku=name, on_hand="1").code == "FAILED_PRECONDITION"


def test_the_hold_of_a_late_answer_is_not_lengthened(faulty, proxy, observer, name):
    observer.set_stock(name, 5)
    proxy.hold_reply("ReserveStock", 0.8)
    before = time.time()
    answer = faulty.reserve(handle="a", sku=name, order="o-1", quantity="1", hold=20)
    reservation = observer.reserve(name, "o-1").reservation
    ends = reservation.expire_time.ToNanoseconds() / 1e9
    # The answer arrived at least 0.8 s after the call was sent.
    assert before + 0.8 + answer["valid_for"] <= ends + 0.05
