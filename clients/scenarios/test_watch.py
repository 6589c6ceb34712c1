"""Watching: events in order, resumed at their cursor, with gaps reported."""

import pytest

from harness.paths import eventually


def run_task(observer, pool, task):
    observer.admit(pool, "d-1", task)
    observer.complete(pool, "d-1", task)


def seen(events, kind):
    """The tasks of the events of a kind, each once, in order of arrival."""
    return list(dict.fromkeys(event["task"] for event in events if event["kind"] == kind))


def has(task, kind="COMPLETED"):
    return lambda events: task in seen(events, kind)


def test_events_arrive_in_order(client, observer, name):
    run_task(observer, name, "t-0")
    client.watch_pool(handle="w", pool=name, after="0")
    for number in range(1, 4):
        run_task(observer, name, f"t-{number}")
    events = client.await_events("pool", "w", has("t-3"))
    assert [(event["kind"], event["task"]) for event in events] == [
        (kind, f"t-{number}") for number in range(4) for kind in ["ADMITTED", "COMPLETED"]]
    assert all(event["device"] == "d-1" and event["cursor"] for event in events)


def test_a_watch_starts_after_a_cursor(client, observer, name):
    for number in range(3):
        run_task(observer, name, f"t-{number}")
    cursor = observer.events(name, "COMPLETED")[1]["cursor"]
    client.watch_pool(handle="w", pool=name, after=cursor)
    events = client.await_events("pool", "w", has("t-2"))
    tasks = {event["task"] for event in events}
    assert "t-2" in tasks and not {"t-0", "t-1"} & tasks


def test_a_watch_resumes_after_a_cut(faulty, proxy, observer, name):
    faulty.watch_pool(handle="w", pool=name, after="0")
    expected = []
    for number in range(6):
        task = f"t-{number}"
        run_task(observer, name, task)
        expected.append(task)
        if number % 2 == 0:
            faulty.await_events("pool", "w", has(task))
        proxy.cut()
    events = faulty.await_events("pool", "w", has("t-5"))
    assert seen(events, "ADMITTED") == expected
    assert seen(events, "COMPLETED") == expected
    assert seen(events, "GAP") == []


def test_a_watch_of_new_events_resumes_too(faulty, proxy, observer, name):
    """A watch without a cursor must not miss the events of an interruption."""
    faulty.watch_pool(handle="w", pool=name)
    eventually(lambda: proxy.calls["WatchPool"] >= 1, "the watch has started")

    tasks = iter(f"first-{n}" for n in range(1000))

    def first():
        run_task(observer, name, next(tasks))
        return faulty.events("pool", "w")

    eventually(first, "the first event arrives")
    proxy.refuse()
    run_task(observer, name, "t-1")
    proxy.refuse(False)
    run_task(observer, name, "t-2")
    events = faulty.await_events("pool", "w", has("t-2"))
    assert [task for task in seen(events, "COMPLETED") if task.startswith("t-")] == ["t-1", "t-2"]


def test_a_watch_resumes_after_a_restart(connect, own_server, own_observer, name):
    client = connect(own_server.address)
    client.watch_pool(handle="w", pool=name, after="0")
    run_task(own_observer, name, "t-1")
    client.await_events("pool", "w", has("t-1"))
    own_server.stop()
    own_server.start()
    run_task(own_observer, name, "t-2")
    events = client.await_events("pool", "w", has("t-2"))
    assert seen(events, "COMPLETED") == ["t-1", "t-2"]


def test_a_gap_is_reported(client, observer, name):
    """The pool keeps its last 100 events; a watch from the first one has missed some."""
    pool = f"history:{name}"
    for number in range(3):
        run_task(observer, pool, f"t-{number}")
    cursor = observer.events(pool)[0]["cursor"]
    observer.enqueue(pool, *[("d-2", f"q-{number}") for number in range(900)])
    observer.enqueue(pool, ("d-2", "last"))
    client.watch_pool(handle="w", pool=pool, after=cursor)
    events = client.await_events("pool", "w", has("last", "ENQUEUED"))
    assert events[0]["kind"] == "GAP"
    assert len(seen(events, "ENQUEUED")) < 901


def test_a_stopped_watch_sends_no_events(client, observer, name):
    client.watch_pool(handle="w", pool=name, after="0")
    run_task(observer, name, "t-1")
    client.await_events("pool", "w", has("t-1"))
    client.watch_stop(handle="w")
    run_task(observer, name, "t-2")
    client.watch_pool(handle="other", pool=name, after="0")
    client.await_events("pool", "other", has("t-2"))
    assert "t-2" not in seen(client.events("pool", "w"), "COMPLETED")


def test_the_events_of_a_policy(client, observer, name):
    client.watch_rates(handle="w", policy="crawler", after="0")
    for _ in range(3):
        observer.check(name, "crawler")

    def own(events):
        return [event["kind"] for event in events if event["key"] == name]

    events = client.await_events("rate", "w", lambda events: len(own(events)) >= 2)
    assert own(events) == ["WARNED", "BANNED"]
    assert all(event["cursor"] for event in events)


def test_a_watch_of_a_policy_resumes(faulty, proxy, observer, name):
    faulty.watch_rates(handle="w", policy="crawler", after="0")
    keys = [f"{name}-{number}" for number in range(4)]
    for key in keys:
        observer.check(key, "crawler")
        observer.check(key, "crawler")
        proxy.cut()

    def arrived(events):
        return set(keys) <= {event["key"] for event in events}

    faulty.await_events("rate", "w", arrived)


@pytest.mark.parametrize("command", ["watch_pool", "watch_rates"])
def test_closing_ends_a_watch(connect, server, observer, name, command):
    client = connect(server.address)
    target = {"pool": name} if command == "watch_pool" else {"policy": "crawler"}
    getattr(client, command)(handle="w", after="0", **target)
    client.send("close").result()
    assert connect(server.address).next(name=name)["first"] == "1"
