"""Queued tasks: reports of devices, attempts, and workers."""

import time

import pytest

from harness.paths import eventually


def tasks_done(client, handle):
    return [event["task"] for event in client.events("done", handle)]


def test_a_device_gets_its_oldest_task(client, observer, name):
    statuses = client.enqueue(pool=name, tasks=[
        {"device": "d-1", "task": "t-1", "payload": "take a picture ü"},
        {"device": "d-1", "task": "t-2"}, {"device": "d-2", "task": "t-3"}])["statuses"]
    assert statuses == ["ENQUEUED"] * 3
    answer = client.poll(handle="a", pool=name, device="d-1", lease=60)
    assert answer["outcome"] == "ADMITTED"
    assert (answer["task"], answer["payload"]) == ("t-1", "take a picture ü")
    assert answer["attempt"] == 1
    assert client.complete(handle="a")["verdict"] == "COMPLETED"
    assert client.poll(handle="b", pool=name, device="d-1")["task"] == "t-2"


def test_nothing_queued_is_an_answer(client, name):
    answer = client.poll(handle="a", pool=name, device="d-1")
    assert answer["outcome"] == "NO_TASK"


def test_a_queued_task_is_known(client, name):
    tasks = [{"device": "d-1", "task": "t-1"}]
    assert client.enqueue(pool=name, tasks=tasks)["statuses"] == ["ENQUEUED"]
    assert client.enqueue(pool=name, tasks=tasks)["statuses"] == ["DUPLICATE"]


def test_a_lost_enqueue_queues_once(faulty, proxy, observer, name):
    proxy.cut_reply("EnqueueTasks")
    tasks = [{"device": "d-1", "task": f"t-{number}"} for number in range(5)]
    statuses = faulty.enqueue(pool=name, tasks=tasks)["statuses"]
    assert set(statuses) <= {"ENQUEUED", "DUPLICATE"} and len(statuses) == 5
    assert len(observer.tasks(name)) == 5


def test_a_cancelled_task_is_not_dispatched(client, observer, name):
    observer.enqueue(name, ("d-1", "t-1"))
    task = {"pool": name, "device": "d-1", "task": "t-1"}
    first = client.cancel_task(**task)
    assert first["verdict"] == "CANCELLED" and first["replayed"] is False
    assert client.cancel_task(**task)["replayed"] is True
    assert client.poll(handle="a", pool=name, device="d-1")["outcome"] == "NO_TASK"
    missing = client.cancel_task(pool=name, device="d-1", task="no-such")
    assert missing["verdict"] == "UNKNOWN"


def test_a_running_task_cannot_be_cancelled(client, observer, name):
    observer.enqueue(name, ("d-1", "t-1"))
    client.poll(handle="a", pool=name, device="d-1", lease=60)
    verdict = client.cancel_task(pool=name, device="d-1", task="t-1")["verdict"]
    assert verdict == "RUNNING"
    assert client.complete(handle="a")["verdict"] == "COMPLETED"


def test_a_task_whose_lease_ended_is_dispatched_again(client, observer, name):
    observer.enqueue(name, ("d-1", "t-1"))
    first = client.poll(handle="a", pool=name, device="d-1", lease=0.3, keeper=False)
    eventually(lambda: observer.in_use(name) == 0, "the lease has ended")
    second = client.poll(handle="b", pool=name, device="d-1", lease=60)
    assert (second["task"], second["attempt"]) == ("t-1", 2)
    assert int(second["token"]) > int(first["token"])


def test_a_poll_waits_for_a_slot(client, observer, name):
    observer.configure(name, capacity=1)
    observer.admit(name, "holder", "first", lease=60)
    observer.enqueue(name, ("d-1", "t-1"))
    call = client.send("poll", handle="a", pool=name, device="d-1", wait=25)
    eventually(lambda: observer.pool(name).waiters == 1, "the call waits")
    observer.complete(name, "holder", "first")
    assert call.result()["task"] == "t-1"


def test_a_worker_runs_the_tasks_of_its_device(client, observer, name):
    tasks = [f"t-{number}" for number in range(4)]
    observer.enqueue(name, *[("d-1", task) for task in tasks])
    client.worker_start(handle="w", pool=name, device="d-1", lease=10, work=0.05)
    events = client.await_events("done", "w", 4)
    assert [event["task"] for event in events] == tasks
    assert {event["verdict"] for event in events} == {"COMPLETED"}
    started = client.events("task", "w")
    assert [(event["task"], event["attempt"]) for event in started] == [(t, 1) for t in tasks]
    assert client.worker_stop(handle="w")["done"] == 4


def test_a_worker_finds_tasks_that_are_queued_later(client, observer, name):
    client.worker_start(handle="w", pool=name, device="d-1", lease=10, work=0.05)
    observer.enqueue(name, ("d-1", "t-1"))
    client.await_events("done", "w", 1)
    observer.enqueue(name, ("d-1", "t-2"))
    client.await_events("done", "w", 2)
    assert client.worker_stop(handle="w")["done"] == 2


def test_a_worker_ends_after_its_running_task(client, observer, name):
    observer.enqueue(name, ("d-1", "t-1"), ("d-1", "t-2"))
    client.worker_start(handle="w", pool=name, device="d-1", lease=10, work=1)
    client.await_events("task", "w", 1)
    assert client.worker_stop(handle="w")["done"] == 1
    assert tasks_done(client, "w") == ["t-1"]
    assert [task.task_id for task in observer.tasks(name)] == ["t-2"]
    assert observer.in_use(name) == 0


def test_a_worker_renews_a_long_task(client, observer, name):
    observer.enqueue(name, ("d-1", "t-1"))
    client.worker_start(handle="w", pool=name, device="d-1", lease=0.9, work=2.5)
    events = client.await_events("done", "w", 1)
    assert events[0]["verdict"] == "COMPLETED"
    assert observer.kinds(name, "t-1") == ["ENQUEUED", "ADMITTED", "COMPLETED"]
    client.worker_stop(handle="w")


def test_a_failing_handler_is_tried_again_until_the_task_is_dead(client, observer, name):
    observer.configure(name, attempts=2)
    observer.enqueue(name, ("d-1", "t-1"))
    client.worker_start(handle="w", pool=name, device="d-1", lease=10, work=0.05, fail=True)
    eventually(lambda: observer.tasks(name, "DEAD"), "the task is dead")
    client.worker_stop(handle="w")
    assert [event["attempt"] for event in client.events("task", "w")] == [1, 2]
    completed = observer.events(name, "COMPLETED")
    assert [event["outcome"] for event in completed] == ["FAILED", "FAILED"]


def make_dead(client, observer, pool, device, task):
    """Queues a task with a payload and fails its only attempt."""
    observer.configure(pool, attempts=1)
    observer.enqueue(pool, (device, task, "photo"))
    client.poll(handle=task, pool=pool, device=device, lease=60)
    client.complete(handle=task, outcome="FAILED")
    assert [dead.task_id for dead in observer.tasks(pool, "DEAD")] == [task]


def test_a_dead_task_is_requeued(client, observer, name):
    make_dead(client, observer, name, "d-1", "t-1")
    observer.enqueue(name, ("d-1", "t-2"))
    task = {"pool": name, "device": "d-1", "task": "t-1"}
    assert client.requeue_task(**task)["verdict"] == "REQUEUED"
    assert client.requeue_task(**task)["verdict"] == "ALREADY_QUEUED"
    assert client.poll(handle="a", pool=name, device="d-1", lease=60)["task"] == "t-2"
    assert client.complete(handle="a")["verdict"] == "COMPLETED"
    again = client.poll(handle="b", pool=name, device="d-1", lease=60)
    assert (again["task"], again["payload"], again["attempt"]) == ("t-1", "photo", 1)
    assert client.complete(handle="b")["verdict"] == "COMPLETED"
    assert client.requeue_task(**task)["verdict"] == "NOT_DEAD"
    assert client.requeue_task(**(task | {"task": "no-such"}))["verdict"] == "UNKNOWN"
    assert client.error("requeue_task", **(task | {"task": ""})).fields == {"task_id"}


@pytest.mark.parametrize("fault", ["lose_reply", "cut_reply", "cut_request"])
def test_a_lost_requeue_queues_once(faulty, proxy, observer, name, fault):
    make_dead(faulty, observer, name, "d-1", "t-1")
    lost = getattr(proxy, fault)("RequeueTask")
    verdict = faulty.requeue_task(pool=name, device="d-1", task="t-1")["verdict"]
    assert lost.fired.is_set() and verdict in ("REQUEUED", "ALREADY_QUEUED")
    assert [task.task_id for task in observer.tasks(name)] == ["t-1"]


def test_workers_keep_to_the_capacity(client, observer, name):
    observer.configure(name, capacity=2)
    devices = [f"d-{number}" for number in range(6)]
    observer.enqueue(name, *[(device, "t") for device in devices])
    for device in devices:
        client.worker_start(handle=device, pool=name, device=device, lease=2, work=0.2)
    for device in devices:
        client.await_events("done", device, 1)
    for device in devices:
        client.worker_stop(handle=device)
    running = most = 0
    for event in observer.events(name):
        running += {"ADMITTED": 1, "COMPLETED": -1, "EXPIRED": -1}.get(event["kind"], 0)
        most = max(most, running)
    assert most == 2


def test_a_worker_goes_on_over_a_restart(connect, own_server, own_observer, name):
    tasks = [f"t-{number}" for number in range(6)]
    own_observer.enqueue(name, *[("d-1", task) for task in tasks])
    client = connect(own_server.address)
    client.worker_start(handle="w", pool=name, device="d-1", lease=20, work=0.3)
    client.await_events("done", "w", 2)
    own_server.kill()
    own_server.start()
    client.await_events("done", "w", 6)
    client.worker_stop(handle="w")
    completed = [event["task"] for event in own_observer.events(name, "COMPLETED")]
    assert completed == tasks


def test_a_worker_waits_while_its_pool_is_paused(client, observer, name):
    observer.configure(name, paused=True)
    observer.enqueue(name, ("d-1", "t-1"))
    client.worker_start(handle="w", pool=name, device="d-1", lease=10, work=0.05)
    time.sleep(0.5)
    assert client.events("task", "w") == []
    assert client.worker_stop(handle="w")["done"] == 0
