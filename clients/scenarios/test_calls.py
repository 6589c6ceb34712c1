"""Errors, deadlines, cancellation and shutdown, whatever the service."""

import json
import time

import pytest

from conftest import warm
from harness.paths import eventually
from harness.runner import Client
from harness.stubs import messages


def test_all_violations_come_at_once(client):
    error = client.error("admit", handle="a", pool="", device="d\n1", task="t-1", lease=0.001)
    assert error.code == "INVALID_ARGUMENT"
    assert error.fields == {"pool", "device_id", "lease_duration"}
    assert all(violation["description"] for violation in error.violations)
    assert error.message


def test_an_error_says_its_reason(client, name):
    error = client.error("stock", sku=name)
    assert (error.code, error.reason) == ("NOT_FOUND", "STOCK_NOT_FOUND")


@pytest.mark.engines("embedded")
def test_an_error_says_when_to_try_again(connect, world, cleanup, name):
    # On Redis, names are counted periodically.
    settings = '[[namespace]]\nmatch = ""\nnames_max = 1\n'
    server = world.new_server(settings=settings)
    cleanup.append(server)
    client = connect(server.address, deadline=0.5)
    client.next(name=name)
    error = client.error("next", name=f"{name}-other")
    assert (error.code, error.reason) == ("RESOURCE_EXHAUSTED", "NAMESPACE_LIMIT")
    assert error.retry_after > 0


@pytest.mark.parametrize(("do", "fields"), [
    ("set_stock", {"sku": "", "on_hand": "1"}),
    ("reserve", {"handle": "r", "sku": "", "order": "o-1", "quantity": "1"}),
    ("lock", {"handle": "l", "name": "", "owner": "one"}),
    ("next", {"name": ""}),
    ("enqueue", {"pool": "", "tasks": [{"device": "d-1", "task": "t-1"}]}),
    ("configure", {"pool": "", "capacity": 1}),
])
def test_every_service_names_the_bad_field(client, do, fields):
    error = client.error(do, **fields)
    assert error.code == "INVALID_ARGUMENT"
    assert len(error.fields) == 1 and error.fields <= {"pool", "sku", "name"}


def test_a_deadline_ends_a_call(connect, proxy, name):
    client = connect(proxy.address, deadline=0.3)
    client.next(name=name)
    proxy.stall()
    error = client.error("set_stock", sku=name, on_hand="1")
    assert error.code == "DEADLINE_EXCEEDED"
    proxy.flow()


def test_a_longer_deadline_waits_for_a_slow_answer(connect, proxy, observer, name):
    """The default of one second would repeat the call."""
    client = connect(proxy.address, deadline=8)
    proxy.hold_reply("NextSequence", 1.8)
    assert client.next(name=name)["first"] == "1"
    assert proxy.calls["NextSequence"] == 1


def test_a_call_of_a_hanging_server_is_cancelled(connect, proxy, name):
    client = connect(proxy.address, deadline=25)
    client.next(name=name)
    proxy.stall()
    call = client.send("next", name=name)
    time.sleep(0.3)
    client.cancel(call)
    assert call.error().code == "CANCELLED"
    proxy.flow()
    assert int(client.next(name=name)["first"]) > 1


def test_a_cancelled_completion_can_be_repeated(connect, proxy, observer, name):
    client = connect(proxy.address, deadline=25)
    client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=60)
    proxy.stall()
    call = client.send("complete", handle="a")
    time.sleep(0.3)
    client.cancel(call)
    assert call.error().code == "CANCELLED"
    proxy.flow()
    verdict = client.complete_task(pool=name, device="d-1", task="t-1")["verdict"]
    assert verdict in ("COMPLETED", "ALREADY_COMPLETED")
    assert observer.in_use(name) == 0


def test_closing_ends_waiting_calls(connect, server, observer, name):
    client = connect(server.address)
    observer.configure(name, capacity=1)
    observer.admit(name, "holder", "first", lease=60)
    call = client.send("admit", handle="a", pool=name, device="d-1", task="t-1", wait=25)
    eventually(lambda: observer.pool(name).waiters == 1, "the call waits")
    client.send("close").result()
    assert call.error().code in ("CANCELLED", "UNAVAILABLE")
    eventually(lambda: observer.pool(name).waiters == 0, "nobody waits")


def test_closing_stops_keepers(connect, server, observer, name):
    client = connect(server.address)
    client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=1.5)
    client.send("close").result()
    eventually(lambda: "EXPIRED" in observer.kinds(name, "t-1"), "the lease has ended")
    assert observer.kinds(name, "t-1") == ["ADMITTED", "EXPIRED"]


def test_a_closed_connection_makes_no_calls(connect, server, observer, name):
    client = connect(server.address)
    client.send("close").result()
    client.error("next", name=name)
    assert observer.last(name) == 0


def test_connections_are_independent(connect, server, name):
    first, second = connect(server.address), connect(server.address)
    assert first.next(name=name)["first"] == "1"
    first.send("close").result()
    assert second.next(name=name)["first"] == "2"


def test_a_process_with_everything_open_exits(own_runner, server, observer, name):
    client = Client(own_runner, server.address)
    observer.configure(name, capacity=1)
    client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=2)
    client.send("admit", handle="b", pool=name, device="d-2", task="t-2", wait=25)
    client.lock(handle="l", name=name, owner="one", lease=2)
    client.watch_pool(handle="w", pool=name, after="0")
    client.worker_start(handle="k", pool=f"{name}-k", device="d-1", lease=5, work=0.1)
    client.allocator(handle="n", name=name, block=10)
    client.http_start(handle="h", policy="many")
    eventually(lambda: observer.pool(name).waiters == 1, "the call waits")
    assert own_runner.quit() == 0
    eventually(lambda: observer.pool(name).waiters == 0, "nobody waits")
    eventually(lambda: observer.in_use(name) == 0, "the lease has ended")
    eventually(lambda: not observer.lock(name).held, "the lease of the lock has ended")


def test_a_process_whose_server_hangs_exits(own_runner, proxy, name):
    client = Client(own_runner, proxy.address)
    client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=30)
    proxy.stall()
    client.send("complete", handle="a")
    time.sleep(0.2)
    assert own_runner.quit() == 0
    proxy.flow()


def test_many_calls_at_once(client, name):
    calls = [client.send("next", name=name) for _ in range(300)]
    values = {int(call.result()["first"]) for call in calls}
    assert values == set(range(1, 301))


@pytest.mark.engines("embedded")
def test_thousands_of_calls_at_once(own_runner, proxy, observer, name):
    """The deadline of a call begins when it is sent, not while it is queued in the library."""
    client = warm(Client(own_runner, proxy.address, deadline=15))
    observer.configure(name, capacity=3000)
    proxy.delay = 0.6
    calls = [client.send("admit", handle=f"a-{i}", pool=name, device=f"d-{i}", task="t-1",
                         lease=600, keeper=False) for i in range(3000)]
    outcomes = [call.result(600)["outcome"] for call in calls]
    assert outcomes == ["ADMITTED"] * 3000
    assert proxy.calls["AdmitTask"] == 3000


def unknown(proxy, rpc, service, **values):
    """Makes a server answer the next call with a value of a newer version."""
    answer = getattr(messages[service], f"{rpc}Response")(**values)
    # Fields of messages that a library needs besides the value.
    if rpc == "AdmitTask":
        answer.usage.capacity = 1
    proxy.reply(rpc, answer)


@pytest.mark.parametrize(("rpc", "service", "value", "do", "fields"), [
    ("AdmitTask", "admission", {"decision": 99}, "admit",
     {"handle": "a", "device": "d-1", "task": "t-1", "pool": ""}),
    ("AcquireLock", "lock", {"outcome": 99}, "lock",
     {"handle": "l", "owner": "one", "name": ""}),
    ("ReserveStock", "stock", {"outcome": 99}, "reserve",
     {"handle": "r", "order": "o-1", "quantity": "1", "sku": ""}),
], ids=["admit", "lock", "reserve"])
def test_an_unknown_decision_is_an_error(faulty, proxy, name, rpc, service, value, do, fields):
    """A newer server may have decisions that the library does not know."""
    unknown(proxy, rpc, service, **value)
    fields = {key: field or name for key, field in fields.items()}
    error = faulty.error(do, **fields)
    assert (error.code, error.reason) == ("INTERNAL", "ANSWER_UNKNOWN")
    assert "99" in error.message
    assert proxy.calls[rpc] == 1


def test_admit_needs_a_task(faulty, proxy, name):
    """An empty task would ask for a queued one."""
    error = faulty.error("admit", handle="a", pool=name, device="d-1", task="")
    assert (error.code, error.fields) == ("INVALID_ARGUMENT", {"task_id"})
    assert "poll" in error.violations[0]["description"].lower()
    assert proxy.calls["AdmitTask"] == 0


def test_64_bit_numbers_are_strings(client, name):
    """JSON of JavaScript would round them."""
    answer = client.admit(handle="a", pool=name, device="d-1", task="t-1", keeper=False)
    assert isinstance(answer["token"], str)
    assert json.loads(json.dumps(int(answer["token"]))) == int(answer["token"])
    assert isinstance(client.pool(pool=name)["queued"], str)
