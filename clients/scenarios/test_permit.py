"""Permits: their scope, renewal and eviction, and operations on tasks without a permit."""

from harness.paths import eventually


def test_leaving_with_an_error_completes_as_failed(client, observer, name):
    observer.enqueue(name, ("d-1", "t-1"))
    client.poll(handle="a", pool=name, device="d-1", lease=60)
    client.leave(handle="a", failed=True)
    eventually(lambda: observer.in_use(name) == 0, "the slot is free")
    completed = observer.events(name, "COMPLETED")
    assert [event["outcome"] for event in completed] == ["FAILED"]
    again = client.poll(handle="b", pool=name, device="d-1")
    assert again["task"] == "t-1" and again["attempt"] == 2


def test_leaving_without_a_result_lets_the_lease_end(client, observer, name):
    client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=1.5)
    client.leave(handle="a")
    eventually(lambda: "EXPIRED" in observer.kinds(name, "t-1"), "the lease has ended")
    assert observer.kinds(name, "t-1") == ["ADMITTED", "EXPIRED"]


def test_a_permit_without_keeper_ends_with_its_lease(client, observer, name):
    client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=0.5, keeper=False)
    client.await_lost("a")
    permit = client.permit(handle="a")
    assert permit["valid"] is False and permit["lost"] is True
    assert permit["valid_for"] == 0
    eventually(lambda: observer.in_use(name) == 0, "the lease has ended")
    assert observer.events(name, "RENEWED") == []


def test_an_evicted_task_is_lost(client, observer, name):
    client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=1.5)
    observer.evict(name, "d-1", "t-1")
    client.await_lost("a")
    assert client.permit(handle="a")["valid"] is False
    assert client.complete(handle="a")["verdict"] == "LATE"


def test_a_task_completed_elsewhere_is_lost(client, observer, name):
    client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=1.5)
    assert observer.complete(name, "d-1", "t-1") == "COMPLETED"
    client.await_lost("a")
    assert client.complete(handle="a")["verdict"] == "ALREADY_COMPLETED"


def test_lost_is_reported_once(client, observer, name):
    client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=0.4)
    observer.evict(name, "d-1", "t-1")
    client.await_lost("a")
    client.complete(handle="a")
    # Another permit is lost later: by then a second event of the first one would have arrived.
    client.admit(handle="b", pool=name, device="d-2", task="t-2", lease=0.8, keeper=False)
    client.await_lost("b")
    assert len(client.events("lost", "a")) == 1


def test_a_completed_permit_is_not_lost(client, observer, name):
    client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=0.4)
    client.complete(handle="a")
    client.admit(handle="b", pool=name, device="d-2", task="t-2", lease=0.8, keeper=False)
    client.await_lost("b")
    assert client.events("lost", "a") == []


def test_the_verdicts_of_a_call_without_permit(client, observer, name):
    task = {"pool": name, "device": "d-1", "task": "t-1"}
    assert client.complete_task(**task)["verdict"] == "UNKNOWN"
    token = client.admit(handle="a", lease=60, keeper=False, **task)["token"]
    stale = client.complete_task(token=str(int(token) - 1), **task)
    assert stale["verdict"] == "STALE_TOKEN"
    assert client.complete_task(token=token, outcome="FAILED", **task)["verdict"] == "COMPLETED"
    assert client.complete_task(token=token, **task)["verdict"] == "ALREADY_COMPLETED"
    assert observer.events(name, "COMPLETED")[0]["outcome"] == "FAILED"


def test_the_verdicts_of_a_renewal(client, observer, name):
    task = {"pool": name, "device": "d-1", "task": "t-1"}
    assert client.renew_task(**task)["verdict"] == "UNKNOWN"
    token = client.admit(handle="a", lease=5, keeper=False, **task)["token"]
    renewed = client.renew_task(token=token, lease=300, **task)
    assert renewed["verdict"] == "RENEWED"
    assert 5 < renewed["valid_for"] <= 300
    assert client.renew_task(token=str(int(token) - 1), **task)["verdict"] == "STALE_TOKEN"
    observer.evict(name, "d-1", "t-1")
    assert client.renew_task(token=token, **task)["verdict"] == "EXPIRED"


def test_evict_frees_a_slot_once(client, observer, name):
    client.admit(handle="a", pool=name, device="d-1", task="t-1", keeper=False)
    first = client.evict(pool=name, device="d-1", task="t-1")
    assert first["verdict"] == "EVICTED"
    again = client.evict(pool=name, device="d-1", task="t-1")
    assert again["verdict"] == "EVICTED" and again["replayed"] is True
    assert observer.in_use(name) == 0


def test_the_settings_of_a_pool(client, observer, name):
    client.configure(pool=name, capacity=7, paused=False, lease=20, grace=1)
    client.admit(handle="a", pool=name, device="d-1", task="t-1", keeper=False)
    pool = client.pool(pool=name)
    assert (pool["capacity"], pool["in_use"], pool["available"]) == (7, 1, 6)
    assert pool["paused"] is False and pool["waiters"] == 0 and pool["queued"] == "0"
    config = observer.pool(name).config
    assert config.lease_duration.seconds == 20 and config.expiry_grace.seconds == 1


def test_a_lease_within_its_grace_is_not_believed(client, observer, name):
    """The server keeps the slot for the grace; the permit still ends with its lease."""
    observer.configure(name, capacity=1, grace=60)
    client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=0.4, keeper=False)
    client.await_lost("a")
    assert client.permit(handle="a")["valid"] is False
    assert observer.in_use(name) == 1
    other = client.admit(handle="b", pool=name, device="d-2", task="t-2")
    assert other["outcome"] == "FULL"


def test_names_with_every_kind_of_character(client, observer, name):
    pool = f"{name}/{{a}}:* ü 北京"
    device = 'd "1" \\ {x}'
    answer = client.admit(handle="a", pool=pool, device=device, task="t:1/ü", lease=60)
    assert answer["outcome"] == "ADMITTED"
    assert observer.leases(pool)["t:1/ü"].device_id == device
    assert client.complete(handle="a")["verdict"] == "COMPLETED"
