"""Many permits in one process: the short version of load.sh."""

import time

from harness.paths import eventually
from harness.runner import Client


def test_many_permits_are_kept(own_runner, server, observer, name):
    observer.configure(name, capacity=200)
    client = Client(own_runner, server.address, deadline=5)
    assert client.hold(handle="h", pool=name, count=200, lease=6)["admitted"] == 200
    time.sleep(7)
    held = client.held(handle="h")
    assert held == {"valid": 200, "lost": 0}
    assert observer.in_use(name) == 200
    assert client.release(handle="h")["completed"] == 200
    assert observer.in_use(name) == 0


def test_permits_that_no_server_renews_are_lost(own_runner, proxy, observer, name):
    observer.configure(name, capacity=200)
    client = Client(own_runner, proxy.address, deadline=5)
    assert client.hold(handle="h", pool=name, count=200, lease=3)["admitted"] == 200
    proxy.stall()
    eventually(lambda: client.held(handle="h") == {"valid": 0, "lost": 200}, "all are lost")
    proxy.flow()


def test_pairs_leave_nothing(own_runner, server, observer, name):
    """A leak of 2 KB a pair grows in every round; a heap grows in its first rounds only."""
    client = Client(own_runner, server.address, deadline=5)
    before = client.usage()
    memory = []
    for number in range(15):
        # A new pool, because the names of the tasks may be the same in each round.
        pool = f"{name}-{number}"
        assert client.pairs(pool=pool, count=1000, parallel=10)["completed"] == 1000
        after = client.usage()
        assert after["calls"] - before["calls"] >= 2000
        assert after["cpu_seconds"] > before["cpu_seconds"]
        assert observer.in_use(pool) == 0
        before = after
        memory.append(after["rss_bytes"])
        if len(memory) > 1 and memory[-1] - memory[-2] < 2_000_000:
            return
    raise AssertionError(f"memory grows with each pair: {memory}")
