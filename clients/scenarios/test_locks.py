"""Locks: scope, keeper, waits, tokens, and lost answers."""

import time

import pytest

from harness.paths import eventually


def test_one_owner_holds_a_lock(client, observer, name):
    first = client.lock(handle="a", name=name, owner="one", lease=60)
    assert first["outcome"] == "ACQUIRED" and first["replayed"] is False
    assert 0 < first["valid_for"] <= 60
    second = client.lock(handle="b", name=name, owner="two")
    assert second["outcome"] == "HELD"
    assert second["holder"] == "one"
    assert second["retry_after"] > 0
    lease = observer.lock(name).lease
    assert lease.owner == "one" and first["token"] == str(lease.fencing_token)


def test_unlock_frees_a_lock(client, observer, name):
    first = client.lock(handle="a", name=name, owner="one", lease=60)
    assert client.unlock(handle="a")["outcome"] == "RELEASED"
    assert observer.lock(name).held is False
    state = client.lock_state(handle="a")
    assert state["valid"] is False
    second = client.lock(handle="b", name=name, owner="two", lease=60)
    assert second["outcome"] == "ACQUIRED"
    assert int(second["token"]) > int(first["token"])


def test_an_owner_that_repeats_gets_its_lease(client, name):
    first = client.lock(handle="a", name=name, owner="one", lease=60, keeper=False)
    again = client.lock(handle="b", name=name, owner="one", lease=60, keeper=False)
    assert again["outcome"] == "ACQUIRED" and again["replayed"] is True
    assert again["token"] == first["token"]


def test_default_owners_differ(client, name):
    assert client.lock(handle="a", name=name, lease=60)["outcome"] == "ACQUIRED"
    assert client.lock(handle="b", name=name, lease=60)["outcome"] == "HELD"


def test_a_keeper_renews_a_lock(client, observer, name):
    first = client.lock(handle="a", name=name, owner="one", lease=1)
    time.sleep(2.5)
    state = client.lock_state(handle="a")
    assert state["valid"] is True and state["lost"] is False
    assert observer.lock(name).lease.fencing_token == int(first["token"])


def test_a_lock_without_keeper_ends_with_its_lease(client, observer, name):
    client.lock(handle="a", name=name, owner="one", lease=0.5, keeper=False)
    client.await_lost("a")
    state = client.lock_state(handle="a")
    assert state["valid"] is False and state["lost"] is True and state["valid_for"] == 0
    eventually(lambda: not observer.lock(name).held, "the lease has ended")
    assert client.unlock(handle="a")["outcome"] == "NOT_HELD"


def test_a_waiting_owner_gets_the_lock(client, observer, name):
    client.lock(handle="a", name=name, owner="one", lease=60)
    call = client.send("lock", handle="b", name=name, owner="two", wait=25, lease=60)
    eventually(lambda: observer.lock(name).waiters == 1, "the call waits")
    client.unlock(handle="a")
    assert call.result()["outcome"] == "ACQUIRED"
    assert client.lock_state(handle="b")["valid"] is True


def test_owners_get_a_lock_in_order_of_arrival(client, observer, name):
    client.lock(handle="first", name=name, owner="first", lease=60)
    calls = []
    for number in range(3):
        calls.append(client.send("lock", handle=f"h-{number}", name=name, owner=f"o-{number}",
                                 wait=25, lease=60))
        eventually(lambda: observer.lock(name).waiters == number + 1, "the call waits")
    client.unlock(handle="first")
    for number, call in enumerate(calls):
        assert call.result()["outcome"] == "ACQUIRED"
        assert not any(later.done for later in calls[number + 1:])
        client.unlock(handle=f"h-{number}")


def test_a_wait_for_a_lock_ends_with_held(client, observer, name):
    client.lock(handle="a", name=name, owner="one", lease=60)
    answer = client.lock(handle="b", name=name, owner="two", wait=0.5)
    assert answer["outcome"] == "HELD" and answer["holder"] == "one"
    eventually(lambda: observer.lock(name).waiters == 0, "nobody waits")


def test_a_cancelled_wait_gets_no_lock(client, observer, name):
    client.lock(handle="a", name=name, owner="one", lease=60)
    call = client.send("lock", handle="b", name=name, owner="two", wait=25)
    eventually(lambda: observer.lock(name).waiters == 1, "the call waits")
    client.cancel(call)
    assert call.error().code == "CANCELLED"
    eventually(lambda: observer.lock(name).waiters == 0, "nobody waits")


@pytest.mark.parametrize("fault", ["lose_reply", "cut_reply", "cut_request"])
def test_a_lost_acquisition_holds_the_lock_once(faulty, proxy, observer, name, fault):
    """Also with a generated owner, which the repeat must keep."""
    lost = getattr(proxy, fault)("AcquireLock")
    answer = faulty.lock(handle="a", name=name, lease=60)
    assert lost.fired.is_set()
    assert answer["outcome"] == "ACQUIRED"
    assert answer["token"] == str(observer.lock(name).lease.fencing_token)


@pytest.mark.parametrize("fault", ["lose_reply", "cut_reply", "cut_request"])
def test_a_lost_release_is_repeated(faulty, proxy, observer, name, fault):
    faulty.lock(handle="a", name=name, owner="one", lease=60)
    getattr(proxy, fault)("ReleaseLock")
    assert faulty.unlock(handle="a")["outcome"] == "RELEASED"
    assert observer.lock(name).held is False


def test_a_lock_is_invalid_before_another_owner_has_it(faulty, proxy, observer, name):
    faulty.lock(handle="a", name=name, owner="one", lease=2)
    proxy.stall()
    observer.acquire(name, "two")
    state = faulty.lock_state(handle="a")
    assert state["valid"] is False and state["valid_for"] == 0
    faulty.await_lost("a")
    proxy.flow()
    assert faulty.unlock(handle="a")["outcome"] == "NOT_HELD"
    assert observer.lock(name).lease.owner == "two"


def test_a_keeper_renews_a_lock_over_a_restart(connect, own_server, own_observer, name):
    client = connect(own_server.address)
    first = client.lock(handle="a", name=name, owner="one", lease=6)
    own_server.kill()
    own_server.start()
    time.sleep(6)
    state = client.lock_state(handle="a")
    assert state["valid"] is True and state["token"] == first["token"]
    assert client.unlock(handle="a")["outcome"] == "RELEASED"


def test_a_late_answer_does_not_lengthen_a_lock(faulty, proxy, observer, name):
    proxy.hold_reply("AcquireLock", 0.8)
    faulty.lock(handle="a", name=name, owner="one", lease=20, keeper=False)
    call = faulty.send("lock_state", handle="a")
    ends = observer.lock(name).lease.expire_time.ToNanoseconds() / 1e9
    assert call.sent + call.result()["valid_for"] <= ends
