"""Admission: the answers of a pool, and what a permit says about its lease."""

from harness.paths import eventually


def test_an_admitted_task_holds_a_slot(client, observer, name):
    answer = client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=60)
    assert answer["outcome"] == "ADMITTED"
    assert answer["replayed"] is False
    lease = observer.leases(name)["t-1"]
    assert answer["token"] == str(lease.fencing_token)
    assert 0 < answer["valid_for"] <= 60
    permit = client.permit(handle="a")
    assert permit["valid"] is True and permit["lost"] is False
    assert permit["token"] == answer["token"]


def test_a_completed_task_frees_its_slot(client, observer, name):
    client.admit(handle="a", pool=name, device="d-1", task="t-1")
    assert client.complete(handle="a", result="done")["verdict"] == "COMPLETED"
    assert observer.in_use(name) == 0
    assert observer.kinds(name, "t-1") == ["ADMITTED", "COMPLETED"]
    assert client.permit(handle="a")["valid"] is False


def test_full_is_an_answer_with_retry_after(client, observer, name):
    observer.configure(name, capacity=1)
    client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=60)
    answer = client.admit(handle="b", pool=name, device="d-2", task="t-2")
    assert answer["outcome"] == "FULL"
    assert 0 < answer["retry_after"] <= 90
    assert observer.in_use(name) == 1


def test_a_paused_pool_admits_no_task(client, observer, name):
    observer.configure(name, paused=True)
    answer = client.admit(handle="a", pool=name, device="d-1", task="t-1")
    assert answer["outcome"] == "PAUSED"
    assert answer["retry_after"] > 0


def test_a_completed_task_is_not_admitted_again(client, name):
    client.admit(handle="a", pool=name, device="d-1", task="t-1")
    client.complete(handle="a")
    answer = client.admit(handle="b", pool=name, device="d-1", task="t-1")
    assert answer["outcome"] == "ALREADY_COMPLETED"


def test_a_repeat_returns_the_same_lease(client, observer, name):
    first = client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=60)
    again = client.admit(handle="b", pool=name, device="d-1", task="t-1", lease=60)
    assert again["outcome"] == "ADMITTED"
    assert again["replayed"] is True
    assert again["token"] == first["token"]
    assert observer.in_use(name) == 1


def test_tokens_of_a_pool_grow(client, name):
    tokens = []
    for task in ["t-1", "t-2", "t-3"]:
        answer = client.admit(handle=task, pool=name, device="d-1", task=task)
        tokens.append(int(answer["token"]))
        client.complete(handle=task)
    assert tokens == sorted(set(tokens))


def test_concurrent_calls_never_exceed_the_capacity(client, observer, name):
    observer.configure(name, capacity=5)
    calls = [client.send("admit", handle=f"h-{i}", pool=name, device=f"d-{i}", task="t", lease=60)
             for i in range(30)]
    outcomes = [call.result()["outcome"] for call in calls]
    assert outcomes.count("ADMITTED") == 5
    assert outcomes.count("FULL") == 25
    assert observer.in_use(name) == 5


def test_a_result_after_the_lease_is_late(client, observer, name):
    client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=0.3, keeper=False)
    client.await_lost("a")
    eventually(lambda: observer.in_use(name) == 0, "the lease has ended")
    assert client.complete(handle="a")["verdict"] == "LATE"
    assert observer.kinds(name, "t-1")[-1] == "LATE"


def test_a_result_with_an_older_token_is_refused(client, observer, name):
    first = client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=0.3, keeper=False)
    eventually(lambda: observer.in_use(name) == 0, "the lease has ended")
    second = client.admit(handle="b", pool=name, device="d-1", task="t-1", lease=60)
    assert int(second["token"]) > int(first["token"])
    assert client.complete(handle="a")["verdict"] == "STALE_TOKEN"
    assert client.permit(handle="b")["valid"] is True
    assert client.complete(handle="b")["verdict"] == "COMPLETED"
