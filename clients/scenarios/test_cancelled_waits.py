"""Waits that are cancelled at the moment of the grant: no lease is left behind, none is taken away.

SCENARIO_CANCELLED_WAITS is the number of cancelled waits of a scenario, by default 60.
"""

import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.paths import eventually
from harness.runner import CommandError

WAITS = int(os.environ.get("SCENARIO_CANCELLED_WAITS", "60"))
PARALLEL = 6


def cancel_around(client, call, free):
    """Cancels a wait within 4 ms of the call that frees its slot or lock; returns its answer."""
    freeing = threading.Thread(target=free)
    offset = random.uniform(-0.002, 0.004)
    if offset < 0:
        client.cancel(call)
        time.sleep(-offset)
        freeing.start()
    else:
        freeing.start()
        time.sleep(offset)
        client.cancel(call)
    freeing.join()
    try:
        return call.result()
    except CommandError as error:
        assert error.code == "CANCELLED", error
        return None


def test_j7_cancelled_waits_for_a_slot_leave_no_lease(client, observer, name):
    def play(number):
        pool, handle = f"{name}:{number}", f"h-{number}"
        observer.configure(pool, capacity=1)
        observer.decision(pool, "holder", "first", lease=60)
        call = client.send("admit", handle=handle, pool=pool, device="d", task="t", wait=25,
                           lease=60)
        eventually(lambda: observer.pool(pool).waiters == 1, "the call waits")
        answer = cancel_around(client, call, lambda: observer.complete(pool, "holder", "first"))
        if answer:
            client.complete(handle=handle)
        return pool

    with ThreadPoolExecutor(PARALLEL) as threads:
        pools = list(threads.map(play, range(WAITS)))
    eventually(lambda: not any(observer.in_use(pool) for pool in pools), "the slots are free")
    assert not any(observer.pool(pool).waiters for pool in pools)


def test_j7_cancelled_waits_for_a_queued_task_leave_no_lease(client, observer, name):
    def play(number):
        pool, handle = f"{name}:{number}", f"h-{number}"
        observer.configure(pool, capacity=1)
        observer.decision(pool, "holder", "first", lease=60)
        observer.enqueue(pool, ("d", "t"))
        call = client.send("poll", handle=handle, pool=pool, device="d", wait=25, lease=60)
        eventually(lambda: observer.pool(pool).waiters == 1, "the call waits")
        answer = cancel_around(client, call, lambda: observer.complete(pool, "holder", "first"))
        if answer:
            client.complete(handle=handle)
        return pool

    with ThreadPoolExecutor(PARALLEL) as threads:
        pools = list(threads.map(play, range(WAITS)))
    eventually(lambda: not any(observer.in_use(pool) for pool in pools), "the slots are free")


@pytest.mark.parametrize("named", [False, True], ids=["default-owner", "named-owner"])
def test_j7_cancelled_waits_for_a_lock_leave_no_lease(client, observer, name, named):
    def play(number):
        lock, handle = f"{name}:{number}", f"h-{number}"
        client.lock(handle=f"first-{number}", name=lock, lease=60, keeper=False)
        call = client.send("lock", handle=handle, name=lock, wait=25, lease=60,
                           owner="two" if named else None)
        eventually(lambda: observer.lock(lock).waiters == 1, "the call waits")
        answer = cancel_around(client, call, lambda: client.unlock(handle=f"first-{number}"))
        if answer:
            client.unlock(handle=handle)
        return lock

    with ThreadPoolExecutor(PARALLEL) as threads:
        locks = list(threads.map(play, range(WAITS)))
    eventually(lambda: not any(observer.lock(lock).held for lock in locks), "the locks are free")


def test_j7_a_call_after_a_cancelled_wait_keeps_its_permit(client, observer, name):
    """The library must not end the lease of a later call for the same task."""
    def play(number):
        pool = f"{name}:{number}"
        observer.configure(pool, capacity=1)
        observer.decision(pool, "holder", "first", lease=60)
        task = {"pool": pool, "device": "d", "task": "t", "wait": 25, "lease": 60}
        call = client.send("admit", handle=f"a-{number}", **task)
        eventually(lambda: observer.pool(pool).waiters == 1, "the call waits")
        cancel_around(client, call, lambda: observer.complete(pool, "holder", "first"))
        later = client.admit(handle=f"b-{number}", keeper=False, **task)
        assert later["outcome"] == "ADMITTED"
        return pool, later["token"]

    with ThreadPoolExecutor(PARALLEL) as threads:
        permits = list(threads.map(play, range(20)))
    time.sleep(2)  # whatever the library still does for the cancelled waits
    for number, (pool, token) in enumerate(permits):
        assert str(observer.leases(pool)["t"].fencing_token) == token
        assert client.permit(handle=f"b-{number}")["valid"] is True
        assert client.complete(handle=f"b-{number}")["verdict"] == "COMPLETED"


def test_j7_a_cancelled_wait_does_not_end_an_earlier_permit(faulty, proxy, observer, name):
    task = {"pool": name, "device": "d", "task": "t", "lease": 60}
    first = faulty.admit(handle="a", keeper=False, **task)
    held = proxy.hold_reply("AdmitTask", 0.2)
    call = faulty.send("admit", handle="b", wait=20, **task)
    held.fired.wait(20)
    faulty.cancel(call)
    assert call.error().code == "CANCELLED"
    time.sleep(2)  # whatever the library still does for the cancelled wait
    assert str(observer.leases(name)["t"].fencing_token) == first["token"]
    assert faulty.complete(handle="a")["verdict"] == "COMPLETED"


def test_j7_a_cancelled_wait_does_not_release_an_earlier_lock(faulty, proxy, observer, name):
    first = faulty.lock(handle="a", name=name, owner="one", lease=60, keeper=False)
    held = proxy.hold_reply("AcquireLock", 0.2)
    call = faulty.send("lock", handle="b", name=name, owner="one", wait=20, lease=60)
    held.fired.wait(20)
    faulty.cancel(call)
    assert call.error().code == "CANCELLED"
    time.sleep(2)  # whatever the library still does for the cancelled wait
    assert str(observer.lock(name).lease.fencing_token) == first["token"]
    assert faulty.unlock(handle="a")["outcome"] == "RELEASED"
