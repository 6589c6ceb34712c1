"""Keepers: renewals, their faults, and the end of a permit before that of its lease."""

import time

import pytest

from harness.paths import eventually


def assert_not_beyond(call, observer, pool, task):
    """Fails if a permit claims to be valid after the end of its lease.

    The claim is counted from before the command was sent, so it is not exaggerated. The engine
    and this process use the clock of the same machine.
    """
    permit = call.result()
    ends = {each: lease.expire_time.ToNanoseconds() / 1e9
            for each, lease in observer.leases(pool).items()}
    if permit["valid"]:
        assert call.sent + permit["valid_for"] <= ends[task]


def await_renewals(observer, name, number):
    eventually(lambda: len(observer.events(name, "RENEWED")) >= number, f"{number} renewals")


def test_a_keeper_renews_beyond_the_lease(client, observer, name):
    first = client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=1)
    time.sleep(2.5)
    permit = client.permit(handle="a")
    assert permit["valid"] is True and permit["lost"] is False
    assert permit["token"] == first["token"]
    assert observer.kinds(name, "t-1") == ["ADMITTED"]
    assert client.complete(handle="a")["verdict"] == "COMPLETED"


def test_a_keeper_stops_at_the_completion(client, observer, name):
    client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=0.6)
    await_renewals(observer, name, 1)
    client.complete(handle="a")
    renewed = len(observer.events(name, "RENEWED"))
    time.sleep(1)
    assert len(observer.events(name, "RENEWED")) == renewed


@pytest.mark.parametrize("fault", ["lose_reply", "cut_reply", "cut_request"])
def test_a_keeper_survives_a_lost_renewal(faulty, proxy, observer, name, fault):
    faulty.admit(handle="a", pool=name, device="d-1", task="t-1", lease=4)
    lost = getattr(proxy, fault)("RenewTask")
    assert lost.fired.wait(20)
    # Renewals continue until long after the admitted lease would have ended.
    time.sleep(4)
    assert faulty.permit(handle="a")["valid"] is True
    assert faulty.events("lost", "a") == []
    assert observer.kinds(name, "t-1") == ["ADMITTED"]


def test_a_keeper_renews_over_a_restart_of_the_server(connect, own_server, own_observer, name):
    client = connect(own_server.address)
    client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=6)
    await_renewals(own_observer, name, 1)
    own_server.kill()
    own_server.start()
    token = own_observer.leases(name)["t-1"].fencing_token
    time.sleep(6)
    permit = client.permit(handle="a")
    assert permit["valid"] is True
    assert permit["token"] == str(token)
    assert client.complete(handle="a")["verdict"] == "COMPLETED"


def test_lost_comes_before_the_end_of_the_lease(connect, observer, name, proxy):
    """Keepers reach no server. Every permit ends before the server gives the slot away."""
    late = []
    for attempt in range(3):
        client = connect(proxy.address)
        tasks = [f"t-{attempt}-{i}" for i in range(5)]
        for task in tasks:
            answer = client.admit(handle=task, pool=name, device="d-1", task=task, lease=4)
            assert answer["outcome"] == "ADMITTED"
        proxy.stall()
        time.sleep(0.3)
        ends = {task: observer.leases(name)[task].expire_time.ToNanoseconds() / 1e9
                for task in tasks}
        read = {task: client.await_lost(task)["read"] for task in tasks}
        proxy.flow()
        late = [task for task in tasks if read[task] >= ends[task]]
        if not late:
            return
    # Reading an event late proves nothing on a busy machine; three times is no coincidence.
    raise AssertionError(f"lost came after the end of the leases: {late}")


def test_a_permit_is_invalid_before_another_is_admitted(faulty, proxy, observer, name):
    observer.configure(name, capacity=1)
    faulty.admit(handle="a", pool=name, device="d-1", task="t-1", lease=2)
    proxy.stall()
    observer.admit_after_wait(name, "d-2")
    permit = faulty.permit(handle="a")
    assert permit["valid"] is False
    assert permit["valid_for"] == 0
    faulty.await_lost("a")
    proxy.flow()
    assert faulty.complete(handle="a")["verdict"] == "LATE"


def test_a_permit_ends_while_the_server_is_stopped(connect, own_server, own_observer, name):
    own_observer.configure(name, capacity=1)
    client = connect(own_server.address)
    client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=2)
    own_server.kill()
    client.await_lost("a")
    assert client.permit(handle="a")["valid"] is False
    own_server.start()
    own_observer.admit_after_wait(name, "d-2")
    assert client.complete(handle="a")["verdict"] == "LATE"


def test_a_late_answer_does_not_lengthen_a_permit(faulty, proxy, observer, name):
    held = proxy.hold_reply("AdmitTask", 0.8)
    answer = faulty.admit(handle="a", pool=name, device="d-1", task="t-1", lease=20,
                          keeper=False)
    assert held.fired.is_set() and answer["outcome"] == "ADMITTED"
    assert_not_beyond(faulty.send("permit", handle="a"), observer, name, "t-1")


def test_an_answer_after_the_lease_gives_no_valid_permit(connect, proxy, observer, name):
    """A library may call again; then its permit is that of the second lease."""
    client = connect(proxy.address, deadline=8)
    proxy.hold_reply("AdmitTask", 2.5)
    answer = client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=2, keeper=False)
    if answer["outcome"] == "ADMITTED":
        assert_not_beyond(client.send("permit", handle="a"), observer, name, "t-1")
        client.await_lost("a")


def test_late_renewals_do_not_lengthen_a_permit(faulty, proxy, observer, name):
    faulty.admit(handle="a", pool=name, device="d-1", task="t-1", lease=6)
    held = proxy.hold_reply("RenewTask", 0.7, times=4)
    assert held.fired.wait(20)
    for _ in range(25):
        time.sleep(0.1)
        assert_not_beyond(faulty.send("permit", handle="a"), observer, name, "t-1")
    assert faulty.permit(handle="a")["valid"] is True


def test_renewals_go_on_over_a_slow_network(faulty, proxy, observer, name):
    proxy.delay = 0.15
    faulty.admit(handle="a", pool=name, device="d-1", task="t-1", lease=3)
    await_renewals(observer, name, 3)
    assert_not_beyond(faulty.send("permit", handle="a"), observer, name, "t-1")
    assert faulty.events("lost", "a") == []


def test_a_keeper_goes_on_after_a_short_partition(faulty, proxy, observer, name):
    faulty.admit(handle="a", pool=name, device="d-1", task="t-1", lease=6)
    proxy.stall()
    time.sleep(2.5)
    proxy.flow()
    renewed = len(observer.events(name, "RENEWED"))
    await_renewals(observer, name, renewed + 2)
    assert faulty.permit(handle="a")["valid"] is True
    assert faulty.events("lost", "a") == []


def test_tokens_rise_when_a_lost_task_is_admitted_again(faulty, proxy, observer, name):
    first = faulty.admit(handle="a", pool=name, device="d-1", task="t-1", lease=1)
    proxy.stall()
    faulty.await_lost("a")
    eventually(lambda: observer.in_use(name) == 0, "the lease has ended")
    proxy.flow()
    second = faulty.admit(handle="b", pool=name, device="d-1", task="t-1", lease=60)
    assert int(second["token"]) > int(first["token"])
    assert faulty.permit(handle="a")["valid"] is False
    assert faulty.permit(handle="b")["valid"] is True
    assert faulty.complete(handle="a")["verdict"] == "STALE_TOKEN"
