"""A failover of Redis, which Tollgate follows by Sentinel."""

import pytest

from harness.observer import Observer
from harness.paths import eventually
from harness.redis import Sentinels
from harness.server import Server

pytestmark = pytest.mark.engines("redis")


@pytest.fixture
def sentinels(cleanup):
    sentinels = Sentinels()
    cleanup.append(sentinels)
    return sentinels


@pytest.fixture
def failing_server(sentinels, cleanup):
    server = Server(sentinels.url)
    cleanup.append(server)
    return server


def test_permits_locks_and_values_survive_a_failover(connect, engine, sentinels, failing_server,
                                                     cleanup, name):
    observer = Observer(failing_server.address)
    cleanup.append(observer)
    client = connect(failing_server.address)
    observer.configure(name, capacity=1)
    permit = client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=20)
    lock = client.lock(handle="l", name=name, owner="one", lease=20)
    values = [int(client.next(name=name)["first"]) for _ in range(3)]
    sentinels.wait_for_replica()
    sentinels.fail_over()

    def renewed():
        verdict = client.renew_task(pool=name, device="d-1", task="t-1", token=permit["token"],
                                    lease=20)
        return verdict["verdict"] == "RENEWED"

    eventually(lambda: _try(renewed), "the lease is renewed at the new primary")
    assert client.permit(handle="a")["valid"] is True
    assert client.lock_state(handle="l")["valid"] is True
    assert client.lock_state(handle="l")["token"] == lock["token"]
    other = client.admit(handle="b", pool=name, device="d-2", task="t-2")
    assert other["outcome"] == "FULL"
    values += [int(client.next(name=name)["first"]) for _ in range(3)]
    assert values == sorted(set(values))
    assert client.complete(handle="a")["verdict"] == "COMPLETED"
    assert client.unlock(handle="l")["outcome"] == "RELEASED"


def _try(action):
    from harness.runner import CommandError

    try:
        return action()
    except CommandError as error:
        assert error.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED")
        return False


def test_a_lease_that_a_failover_loses_is_lost(connect, engine, sentinels, failing_server,
                                               cleanup, name):
    """The replica never got the lease. Its holder must not continue beyond the lease."""
    observer = Observer(failing_server.address)
    cleanup.append(observer)
    client = connect(failing_server.address)
    client.next(name=name)
    sentinels.wait_for_replica()
    sentinels.replica.command("REPLICAOF", "NO", "ONE")
    permit = client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=6)
    assert permit["outcome"] == "ADMITTED"
    sentinels.primary.kill()
    client.await_lost("a")
    assert client.permit(handle="a")["valid"] is False


def test_an_unreachable_store_is_an_error_with_retry_after(connect, engine, cleanup, name):
    from harness.redis import Redis

    redis = Redis()
    cleanup.append(redis)
    # Redis comes back empty.
    server = Server(redis.url, settings='on_store_loss = "continue"\n')
    cleanup.append(server)
    client = connect(server.address)
    client.next(name=name)
    redis.kill()
    errors = []

    def unavailable():
        errors.append(client.error("next", name=name))
        return errors[-1].code == "UNAVAILABLE"

    eventually(unavailable, "the server notices that Redis is unreachable")
    assert {error.code for error in errors} <= {"UNAVAILABLE", "DEADLINE_EXCEEDED",
                                                "RESOURCE_EXHAUSTED"}
    redis.start()
    eventually(lambda: _try(lambda: client.next(name=name)), "values are given out again")
