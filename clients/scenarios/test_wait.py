"""Waiting for a slot: order, cancellation, long waits, and many waits at once."""

import time
from concurrent.futures import ThreadPoolExecutor

from harness.paths import eventually


def fill(observer, name, lease=60):
    """Takes the only slot of a pool."""
    observer.configure(name, capacity=1)
    assert observer.decision(name, "holder", "first", lease=lease) == "ADMITTED"


def await_waiters(observer, name, number):
    eventually(lambda: observer.pool(name).waiters == number, f"{number} calls wait")


def test_a_waiting_call_gets_the_freed_slot(client, observer, name):
    fill(observer, name)
    call = client.send("admit", handle="a", pool=name, device="d-1", task="t-1", wait=20)
    await_waiters(observer, name, 1)
    observer.complete(name, "holder", "first")
    assert call.result()["outcome"] == "ADMITTED"
    assert client.permit(handle="a")["valid"] is True


def test_a_waiting_call_gets_the_slot_of_an_ended_lease(client, observer, name):
    fill(observer, name, lease=1)
    answer = client.admit(handle="a", pool=name, device="d-1", task="t-1", wait=20)
    assert answer["outcome"] == "ADMITTED"


def test_a_wait_ends_with_full(client, observer, name):
    fill(observer, name)
    answer = client.admit(handle="a", pool=name, device="d-1", task="t-1", wait=0.5)
    assert answer["outcome"] == "FULL"
    assert answer["retry_after"] > 0
    await_waiters(observer, name, 0)


def test_calls_are_admitted_in_order_of_arrival(client, observer, name):
    fill(observer, name)
    calls = []
    for number in range(3):
        calls.append(client.send("admit", handle=f"h-{number}", pool=name, device=f"d-{number}",
                                 task="t", wait=25))
        await_waiters(observer, name, number + 1)
    observer.complete(name, "holder", "first")
    for number, call in enumerate(calls):
        assert call.result()["outcome"] == "ADMITTED"
        assert not any(later.done for later in calls[number + 1:])
        client.complete(handle=f"h-{number}")


def test_a_long_wait_keeps_its_place(client, observer, name):
    """A library cuts a long wait into calls. A caller that came later must not overtake them."""
    fill(observer, name)
    first = client.send("admit", handle="a", pool=name, device="d-1", task="t-1", wait=40)
    await_waiters(observer, name, 1)
    with ThreadPoolExecutor() as pool:
        # One call without a gap.
        second = pool.submit(observer.decision, name, "d-2", "t-2", wait=18)
        await_waiters(observer, name, 2)
        time.sleep(13)
        assert not first.done
        observer.complete(name, "holder", "first")
        assert first.result()["outcome"] == "ADMITTED"
        assert not second.done()
        client.complete(handle="a")
        assert second.result() == "ADMITTED"


def test_a_cancelled_wait_gives_up_its_place(client, observer, name):
    fill(observer, name)
    call = client.send("admit", handle="a", pool=name, device="d-1", task="t-1", wait=25)
    await_waiters(observer, name, 1)
    client.cancel(call)
    assert call.error().code == "CANCELLED"
    await_waiters(observer, name, 0)
    observer.complete(name, "holder", "first")
    assert observer.decision(name, "d-2", "t-2") == "ADMITTED"


def test_many_waits_do_not_starve_a_keeper(client, observer, name):
    """A connection has at most 256 open calls; renewals must not queue behind waits."""
    observer.configure(name, capacity=1)
    client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=1.5)
    calls = [client.send("admit", handle=f"w-{i}", pool=name, device=f"w-{i}", task="t", wait=25)
             for i in range(400)]
    await_waiters(observer, name, 400)
    renewed = len(observer.events(name, "RENEWED"))
    eventually(lambda: len(observer.events(name, "RENEWED")) >= renewed + 4, "the lease is renewed")
    assert client.permit(handle="a")["valid"] is True
    assert client.complete(handle="a")["verdict"] == "COMPLETED"
    eventually(lambda: any(call.done for call in calls), "a waiting call is admitted")
    for call in calls:
        if not call.done:
            client.cancel(call)
    await_waiters(observer, name, 0)


def test_a_permit_after_a_wait_knows_what_is_left(client, observer, name):
    """The lease of a waiting call starts with the grant, not with the call."""
    fill(observer, name, lease=3)
    answer = client.admit(handle="a", pool=name, device="d-1", task="t-1", wait=20, lease=1.2)
    assert answer["outcome"] == "ADMITTED"
    eventually(lambda: observer.events(name, "RENEWED"), "the lease is renewed")
    assert client.permit(handle="a")["valid"] is True
    assert client.events("lost", "a") == []
    assert client.complete(handle="a")["verdict"] == "COMPLETED"


def test_a_wait_in_a_paused_pool_is_answered_paused(client, observer, name):
    observer.configure(name, paused=True)
    answer = client.admit(handle="a", pool=name, device="d-1", task="t-1", wait=5)
    assert answer["outcome"] == "PAUSED"


def test_a_pool_that_is_paused_ends_its_waits(client, observer, name):
    fill(observer, name)
    call = client.send("admit", handle="a", pool=name, device="d-1", task="t-1", wait=25)
    await_waiters(observer, name, 1)
    observer.configure(name, paused=True)
    assert call.result()["outcome"] == "PAUSED"


def test_a_waiting_call_goes_on_over_a_cut_connection(faulty, proxy, observer, name):
    fill(observer, name)
    call = faulty.send("admit", handle="a", pool=name, device="d-1", task="t-1", wait=25)
    await_waiters(observer, name, 1)
    proxy.cut()
    eventually(lambda: proxy.calls["AdmitTask"] >= 2, "the wait is repeated")
    observer.complete(name, "holder", "first")
    assert call.result()["outcome"] == "ADMITTED"
    assert observer.in_use(name) == 1


def test_a_waiting_call_goes_on_over_a_restart(connect, own_server, own_observer, name):
    fill(own_observer, name, lease=4)
    client = connect(own_server.address)
    call = client.send("admit", handle="a", pool=name, device="d-1", task="t-1", wait=28)
    await_waiters(own_observer, name, 1)
    own_server.stop()
    own_server.start()
    assert call.result()["outcome"] == "ADMITTED"
    assert own_observer.in_use(name) == 1
