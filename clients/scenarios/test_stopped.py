"""A stopped process and a clock that jumps: an ended lease is never believed."""

import signal
import time

import pytest

from harness.paths import eventually
from harness.runner import Client
from harness.storage import FencedStorage


@pytest.fixture
def own_client(own_runner, server):
    return Client(own_runner, server.address)


def test_a_permit_of_a_stopped_process_is_invalid(own_client, own_runner, observer, name):
    observer.configure(name, capacity=1)
    own_client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=1)
    own_runner.stop()
    observer.admit_after_wait(name, "d-2")
    # The process reads this command as soon as it continues, maybe before its timers fire.
    call = own_client.send("permit", handle="a")
    own_runner.resume()
    permit = call.result()
    assert permit["valid"] is False
    assert permit["valid_for"] == 0
    own_client.await_lost("a")
    assert own_client.complete(handle="a")["verdict"] == "LATE"
    assert own_client.permit(handle="a")["valid"] is False


def test_a_lost_permit_does_not_become_valid_again(own_client, own_runner, observer, name):
    """The slot is still free when the process continues, so a renewal would be too late."""
    own_client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=1)
    own_runner.stop()
    eventually(lambda: observer.in_use(name) == 0, "the lease has ended")
    own_runner.resume()
    own_client.await_lost("a")
    for _ in range(10):
        assert own_client.permit(handle="a")["valid"] is False
        time.sleep(0.05)
    assert observer.in_use(name) == 0


def test_many_permits_of_a_stopped_process_are_lost(own_client, own_runner, observer, name):
    tasks = [f"t-{i}" for i in range(20)]
    for task in tasks:
        own_client.admit(handle=task, pool=name, device="d-1", task=task, lease=1)
    own_runner.stop()
    eventually(lambda: observer.in_use(name) == 0, "the leases have ended")
    calls = [own_client.send("permit", handle=task) for task in tasks]
    own_runner.resume()
    assert not any(call.result()["valid"] for call in calls)
    for task in tasks:
        own_client.await_lost(task)


def test_a_short_stop_loses_no_permit(own_client, own_runner, observer, name):
    own_client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=6)
    own_runner.stop()
    time.sleep(1.5)
    own_runner.resume()
    renewed = len(observer.events(name, "RENEWED"))
    eventually(lambda: len(observer.events(name, "RENEWED")) > renewed, "the lease is renewed")
    assert own_client.permit(handle="a")["valid"] is True
    assert own_client.events("lost", "a") == []


def test_a_lock_of_a_stopped_process_is_invalid(own_client, own_runner, observer, name):
    first = own_client.lock(handle="a", name=name, owner="one", lease=1)
    own_runner.stop()
    observer.acquire(name, "two")
    call = own_client.send("lock_state", handle="a")
    own_runner.resume()
    state = call.result()
    assert state["valid"] is False
    assert state["token"] == first["token"]
    own_client.await_lost("a")
    assert own_client.unlock(handle="a")["outcome"] == "NOT_HELD"
    assert observer.lock(name).lease.owner == "two"


def test_a_storage_refuses_the_write_of_a_stopped_holder(own_client, own_runner, observer, name):
    storage = FencedStorage()
    first = own_client.lock(handle="a", name=name, owner="one", lease=1)
    assert storage.write(first["token"], "one")
    own_runner.stop()
    second = observer.acquire(name, "two").lease.fencing_token
    assert storage.write(str(second), "two")
    own_runner.resume()
    assert not storage.write(own_client.lock_state(handle="a")["token"], "one again")
    assert storage.values == ["one", "two"]


def test_a_storage_refuses_the_write_of_a_stopped_task(own_client, own_runner, observer, name):
    storage = FencedStorage()
    observer.configure(name, capacity=1)
    first = own_client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=1)
    assert storage.write(first["token"], "t-1")
    own_runner.stop()
    assert storage.write(str(observer.admit_after_wait(name, "d-2")), "other")
    own_runner.resume()
    assert not storage.write(own_client.permit(handle="a")["token"], "t-1 again")


def test_a_jump_of_the_clock_ends_a_permit(own_client, own_runner, observer, name):
    own_client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=60)
    own_client.clock(advance=61)
    permit = own_client.permit(handle="a")
    assert permit["valid"] is False and permit["valid_for"] == 0
    own_client.await_lost("a")
    assert own_client.permit(handle="a")["lost"] is True


def test_a_jump_within_the_lease_loses_no_permit(own_client, observer, name):
    own_client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=60)
    own_client.clock(advance=45)
    permit = own_client.permit(handle="a")
    assert permit["valid"] is True
    # The jump has passed the time of the next renewal.
    eventually(lambda: observer.events(name, "RENEWED"), "the lease is renewed")
    eventually(lambda: own_client.permit(handle="a")["valid_for"] > 30, "the client has the answer")
    assert own_client.events("lost", "a") == []


def test_a_jump_shortens_a_permit_without_keeper(own_client, name):
    own_client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=60, keeper=False)
    own_client.clock(advance=45)
    assert 0 < own_client.permit(handle="a")["valid_for"] <= 15


def test_a_jump_of_the_clock_ends_a_lock(own_client, observer, name):
    own_client.lock(handle="a", name=name, owner="one", lease=60)
    own_client.clock(advance=61)
    assert own_client.lock_state(handle="a")["valid"] is False
    own_client.await_lost("a")
    # The process does not know whether the lease runs, so it must not unlock for another.
    assert observer.lock(name).lease.owner == "one"


def test_a_stopped_process_does_not_believe_a_late_answer(own_client, own_runner, observer, name):
    """The answer of the admission lies in the socket until its lease has ended."""
    observer.configure(name, capacity=1)
    assert observer.decision(name, "d-2", "t-2", lease=60) == "ADMITTED"
    call = own_client.send("admit", handle="a", pool=name, device="d-1", task="t-1", wait=25,
                           lease=1, keeper=False)
    eventually(lambda: observer.pool(name).waiters == 1, "the call waits")
    own_runner.stop()
    observer.complete(name, "d-2", "t-2")
    eventually(lambda: "EXPIRED" in observer.kinds(name, "t-1"), "the lease has ended")
    own_runner.resume()
    if call.result()["outcome"] == "ADMITTED" and observer.in_use(name) == 0:
        assert own_client.permit(handle="a")["valid"] is False


def test_the_slots_of_a_killed_process_are_freed(own_client, own_runner, observer, name):
    observer.configure(name, capacity=1)
    own_client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=1.5)
    own_runner.signal(signal.SIGKILL)
    observer.admit_after_wait(name, "d-2")
    assert observer.kinds(name, "t-1") == ["ADMITTED", "EXPIRED"]


def test_a_stopped_server_loses_no_valid_permit(own_runner, own_server, own_observer, name):
    """The server continues before the lease ends, and the keeper renews again."""
    client = Client(own_runner, own_server.address)
    client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=6)
    own_server.suspend()
    time.sleep(2.2)
    own_server.resume()
    renewed = len(own_observer.events(name, "RENEWED"))
    eventually(lambda: len(own_observer.events(name, "RENEWED")) > renewed, "a renewal")
    assert client.permit(handle="a")["valid"] is True
