"""Bulk calls: an answer or an error for each item, in the order of the items."""

import pytest

from harness.stubs import messages


def items(name, number, **fields):
    return [{"pool": name, "device": "d-1", "task": f"t-{i}", **fields} for i in range(number)]


def test_several_tasks_are_admitted_in_order(client, observer, name):
    observer.configure(name, capacity=3)
    results = client.admit_many(items=items(name, 5, lease=60))["results"]
    assert [each["outcome"] for each in results] == ["ADMITTED"] * 3 + ["FULL"] * 2
    leases = observer.leases(name)
    tokens = [each["token"] for each in results[:3]]
    assert tokens == [str(leases[f"t-{i}"].fencing_token) for i in range(3)]


def test_items_of_several_pools_are_admitted_together(client, observer, name):
    batch = [{"pool": f"{name}-{i % 3}", "device": "d-1", "task": f"t-{i}"} for i in range(9)]
    results = client.admit_many(items=batch)["results"]
    assert [each["outcome"] for each in results] == ["ADMITTED"] * 9
    assert [observer.in_use(f"{name}-{i}") for i in range(3)] == [3, 3, 3]


def test_a_bad_item_fails_alone(client, observer, name):
    batch = items(name, 3)
    batch[1]["device"] = ""
    results = client.admit_many(items=batch)["results"]
    assert results[0]["outcome"] == "ADMITTED" and results[2]["outcome"] == "ADMITTED"
    error = results[1]["error"]
    assert error["code"] == "INVALID_ARGUMENT"
    assert len(error["violations"]) == 1
    assert error["violations"][0]["field"].endswith("device_id")
    assert observer.in_use(name) == 2


def test_several_tasks_are_completed(client, observer, name):
    admitted = client.admit_many(items=items(name, 3))["results"]
    batch = items(name, 4)
    for item, answer in zip(batch, admitted):
        item["token"] = answer["token"]
    batch[0]["token"] = str(int(batch[0]["token"]) - 1)
    results = client.complete_many(items=batch)["results"]
    assert [each["verdict"] for each in results] == [
        "STALE_TOKEN", "COMPLETED", "COMPLETED", "UNKNOWN"]
    assert observer.in_use(name) == 1


def test_several_leases_are_renewed(client, observer, name):
    client.admit_many(items=items(name, 2, lease=5))
    results = client.renew_many(items=items(name, 3, lease=300))["results"]
    assert [each["verdict"] for each in results] == ["RENEWED", "RENEWED", "UNKNOWN"]
    assert all(lease.expires_in.seconds > 5 for lease in observer.leases(name).values())


def test_more_items_than_a_call_accepts_are_split(client, observer, name):
    observer.configure(name, capacity=2000)
    results = client.admit_many(items=items(name, 1500, lease=600))["results"]
    assert [each.get("outcome") for each in results] == ["ADMITTED"] * 1500
    tokens = [each["token"] for each in results]
    assert len(set(tokens)) == 1500
    assert observer.in_use(name) == 1500
    batch = [{**item, "token": token} for item, token in zip(items(name, 1500), tokens)]
    results = client.complete_many(items=batch)["results"]
    assert [each.get("verdict") for each in results] == ["COMPLETED"] * 1500
    assert observer.in_use(name) == 0


@pytest.mark.parametrize("fault", ["lose_reply", "cut_reply", "cut_request"])
def test_a_lost_batch_is_repeated(faulty, proxy, observer, name, fault):
    lost = getattr(proxy, fault)("AdmitTasks")
    results = faulty.admit_many(items=items(name, 5, lease=60))["results"]
    assert lost.fired.is_set()
    assert [each["outcome"] for each in results] == ["ADMITTED"] * 5
    assert observer.in_use(name) == 5
    assert len(observer.events(name, "ADMITTED")) == 5


def test_a_lost_batch_of_results_is_repeated(faulty, proxy, observer, name):
    faulty.admit_many(items=items(name, 3, lease=60))
    proxy.cut_reply("CompleteTasks")
    results = faulty.complete_many(items=items(name, 3))["results"]
    assert {each["verdict"] for each in results} <= {"COMPLETED", "ALREADY_COMPLETED"}
    assert len(observer.events(name, "COMPLETED")) == 3


def test_completed_tasks_in_a_batch(client, name):
    client.admit_many(items=items(name, 1))
    client.complete_many(items=items(name, 1))
    results = client.admit_many(items=items(name, 2))["results"]
    assert [each["outcome"] for each in results] == ["ALREADY_COMPLETED", "ADMITTED"]


def test_an_unknown_decision_fails_its_item_alone(faulty, proxy, name):
    admission = messages["admission"]
    known = admission.AdmitTaskResponse(
        decision=admission.ADMIT_DECISION_ALREADY_COMPLETED, usage={"capacity": 1})
    unknown = admission.AdmitTaskResponse(decision=99, usage={"capacity": 1})
    results = [admission.AdmitTaskResult(response=each) for each in (unknown, known)]
    proxy.reply("AdmitTasks", admission.AdmitTasksResponse(results=results))
    first, second = faulty.admit_many(items=items(name, 2))["results"]
    assert (first["error"]["code"], first["error"]["reason"]) == ("INTERNAL", "ANSWER_UNKNOWN")
    assert second["outcome"] == "ALREADY_COMPLETED"
