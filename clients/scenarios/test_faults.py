"""Lost answers, cut connections, restarts: calls are repeated, and decided once."""

import threading
import time

import pytest

from harness.paths import eventually
from harness.proxy import RESOURCE_EXHAUSTED, UNAVAILABLE, Proxy
from harness.redis import Redis
from harness.runner import CommandError
from harness.server import Server

FAULTS = ["lose_reply", "cut_reply", "cut_request"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_lost_admission_takes_one_slot(faulty, proxy, observer, name, fault):
    lost = getattr(proxy, fault)("AdmitTask")
    answer = faulty.admit(handle="a", pool=name, device="d-1", task="t-1", lease=60)
    assert lost.fired.is_set()
    assert answer["outcome"] == "ADMITTED"
    lease = observer.leases(name)["t-1"]
    assert answer["token"] == str(lease.fencing_token)
    assert observer.kinds(name, "t-1") == ["ADMITTED"]
    assert proxy.calls["AdmitTask"] == 2


@pytest.mark.parametrize("fault", FAULTS)
def test_a_lost_completion_is_repeated(faulty, proxy, observer, name, fault):
    faulty.admit(handle="a", pool=name, device="d-1", task="t-1", lease=60)
    lost = getattr(proxy, fault)("CompleteTask")
    verdict = faulty.complete(handle="a")["verdict"]
    assert lost.fired.is_set()
    assert verdict in ("COMPLETED", "ALREADY_COMPLETED")
    assert observer.kinds(name, "t-1") == ["ADMITTED", "COMPLETED"]


def test_a_completion_is_repeated_until_its_verdict_is_known(faulty, proxy, observer, name):
    faulty.admit(handle="a", pool=name, device="d-1", task="t-1", lease=60)
    proxy.refuse()
    call = faulty.send("complete", handle="a")
    time.sleep(2)
    assert not call.done
    proxy.refuse(False)
    assert call.result()["verdict"] == "COMPLETED"
    assert observer.in_use(name) == 0


def test_a_report_whose_answer_is_lost_gets_the_same_task(faulty, proxy, observer, name):
    observer.enqueue(name, ("d-1", "t-1", "first"), ("d-1", "t-2", "second"))
    proxy.cut_reply("AdmitTask")
    answer = faulty.poll(handle="a", pool=name, device="d-1", lease=60)
    assert (answer["task"], answer["payload"], answer["attempt"]) == ("t-1", "first", 1)
    assert observer.in_use(name) == 1


def test_a_server_killed_between_grant_and_answer(connect, own_server, own_observer, cleanup,
                                                  name):
    proxy = Proxy(own_server.address)
    cleanup.append(proxy)
    client = connect(proxy.address, deadline=3)
    restarted = threading.Event()

    def restart():
        own_server.kill()
        own_server.start()
        restarted.set()

    proxy.cut_reply("AdmitTask", before=restart)
    answer = client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=60)
    assert restarted.is_set()
    assert answer["outcome"] == "ADMITTED"
    assert own_observer.kinds(name, "t-1") == ["ADMITTED"]
    assert answer["token"] == str(own_observer.leases(name)["t-1"].fencing_token)
    assert client.complete(handle="a")["verdict"] == "COMPLETED"


def test_calls_succeed_again_after_a_restart(connect, own_server, own_observer, name):
    client = connect(own_server.address)
    client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=60)
    own_server.stop()
    own_server.start()
    again = client.admit(handle="b", pool=name, device="d-1", task="t-1", lease=60)
    assert again["replayed"] is True
    assert client.complete(handle="b")["verdict"] == "COMPLETED"


def test_calls_during_a_restart_are_repeated(connect, own_server, cleanup, name):
    client = connect(own_server.address)
    client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=60)
    own_server.kill()
    call = client.send("complete", handle="a")
    own_server.start()
    assert call.result()["verdict"] == "COMPLETED"


def test_an_unreachable_server_is_an_error(faulty, proxy, name):
    proxy.refuse()
    error = faulty.error("admit", handle="a", pool=name, device="d-1", task="t-1")
    assert error.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED")
    proxy.refuse(False)
    # The first calls may still meet the pause of the library before it connects again.
    eventually(lambda: succeeds(faulty, name), "calls succeed again")


def succeeds(client, name):
    try:
        return client.next(name=name)
    except CommandError as error:
        assert error.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED")
        return None


def test_a_server_that_does_not_answer_is_an_error(faulty, proxy, name):
    proxy.stall()
    error = faulty.error("admit", handle="a", pool=name, device="d-1", task="t-1")
    assert error.code in ("DEADLINE_EXCEEDED", "UNAVAILABLE")
    proxy.flow()


def test_every_call_has_a_deadline(faulty, proxy, name):
    faulty.admit(handle="a", pool=name, device="d-1", task="t-1")
    faulty.complete(handle="a")
    faulty.next(name=name)
    faulty.check(key=name, policy="many")
    seen = {rpc: headers for rpc, headers in proxy.headers}
    for rpc in ["AdmitTask", "CompleteTask", "NextSequence", "CheckRate"]:
        assert "grpc-timeout" in seen[rpc], rpc


def test_slow_answers_are_awaited(connect, proxy, observer, name):
    proxy.delay = 0.1
    client = connect(proxy.address, deadline=10)
    assert client.admit(handle="a", pool=name, device="d-1", task="t-1")["outcome"] == "ADMITTED"
    assert client.complete(handle="a")["verdict"] == "COMPLETED"
    assert proxy.calls["AdmitTask"] == 1


def test_overload_with_retry_info_is_repeated(faulty, proxy, name):
    proxy.answer("AdmitTask", RESOURCE_EXHAUSTED, retry_after=0.2, times=2)
    answer = faulty.admit(handle="a", pool=name, device="d-1", task="t-1")
    assert answer["outcome"] == "ADMITTED"
    assert proxy.calls["AdmitTask"] == 3


def test_a_limit_without_retry_info_is_not_repeated(faulty, proxy, name):
    proxy.answer("AdmitTask", RESOURCE_EXHAUSTED, reason="MESSAGE_TOO_LARGE")
    error = faulty.error("admit", handle="a", pool=name, device="d-1", task="t-1")
    assert (error.code, error.reason) == ("RESOURCE_EXHAUSTED", "MESSAGE_TOO_LARGE")
    assert proxy.calls["AdmitTask"] == 1


def test_retry_info_is_honoured(connect, proxy, name):
    """If RetryInfo asks for more time than the call has, the call is not repeated early."""
    client = connect(proxy.address)
    proxy.answer("NextSequence", UNAVAILABLE, retry_after=600, times=100)
    call = client.send("next", name=name)
    time.sleep(1.5)
    assert proxy.calls["NextSequence"] == 1
    if call.done:
        error = call.error()
        assert error.code == "UNAVAILABLE" and error.retry_after > 500
    else:
        client.cancel(call)


def test_a_bad_request_is_not_repeated(faulty, proxy):
    error = faulty.error("admit", handle="a", pool="", device="d-1", task="t-1")
    assert error.code == "INVALID_ARGUMENT"
    assert proxy.calls["AdmitTask"] == 1


def test_repeats_are_bounded_by_a_budget(faulty, proxy, name):
    """Without a budget, clients multiply the load of a server that has just failed."""
    proxy.answer("NextSequence", UNAVAILABLE, times=10_000)
    calls = [faulty.send("next", name=name) for _ in range(100)]
    for call in calls:
        assert call.error().code == "UNAVAILABLE"
    assert proxy.calls["NextSequence"] <= 150


def test_set_stock_is_never_repeated(faulty, proxy, observer, name):
    observer.set_stock(name, 5)
    for fault in [proxy.cut_reply, proxy.lose_reply]:
        before = proxy.calls["SetStock"]
        fault("SetStock")
        error = faulty.error("set_stock", sku=name, on_hand="9")
        assert error.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED")
        assert proxy.calls["SetStock"] == before + 1
    assert observer.stock(name) == (9, 0, 0)


def test_calls_go_to_the_server_that_is_reachable(connect, cleanup, server, name):
    proxies = [Proxy(server.address), Proxy(server.address)]
    cleanup.extend(proxies)
    client = connect(*[proxy.address for proxy in proxies])
    for number in range(20):
        assert client.next(name=name)["first"] == str(number + 1)
    eventually(lambda: client.next(name=name) and all(p.calls["NextSequence"] for p in proxies),
               "both addresses get calls")
    proxies[0].refuse()
    outcomes = [client.admit(handle=f"h-{i}", pool=name, device=f"d-{i}", task="t")["outcome"]
                for i in range(20)]
    assert outcomes == ["ADMITTED"] * 20


def test_j26_a_server_that_hangs_leaves_the_rotation(connect, world, cleanup, name):
    """A stopped process keeps its connections open, so only its missing answers show it."""
    hanging = world.new_server()
    cleanup.append(hanging)
    proxies = [Proxy(world.server.address), Proxy(hanging.address)]
    cleanup.extend(proxies)
    client = connect(*[proxy.address for proxy in proxies])
    eventually(lambda: succeeds(client, name) and all(p.calls["NextSequence"] for p in proxies),
               "both servers get calls")
    hanging.suspend()
    failed = []
    for number in range(25):
        try:
            # Never repeated, so each call is one attempt at one server.
            client.set_stock(sku=name, on_hand=str(number))
        except CommandError as error:
            assert error.code == "DEADLINE_EXCEEDED", error
            failed.append(number)
    assert len(failed) <= 2, failed
    assert proxies[1].calls["SetStock"] <= 2
    hanging.resume()
    before = proxies[1].calls["NextSequence"]
    eventually(lambda: succeeds(client, name) and proxies[1].calls["NextSequence"] > before,
               "the server gets calls again")


def test_j26_a_server_that_hangs_delays_no_repeated_call(connect, world, cleanup, name):
    hanging = world.new_server()
    cleanup.append(hanging)
    proxy = Proxy(hanging.address)
    cleanup.append(proxy)
    client = connect(world.server.address, proxy.address)
    eventually(lambda: succeeds(client, name) and proxy.calls["NextSequence"], "it gets calls")
    hanging.suspend()
    before = proxy.calls["NextSequence"]
    for _ in range(25):
        client.next(name=name)
    assert proxy.calls["NextSequence"] - before <= 2


def test_j26_a_server_that_hangs_degrades_few_checks(connect, world, cleanup, name):
    """A limiter that fails open gives up after one deadline, which counts like any other."""
    hanging = world.new_server()
    cleanup.append(hanging)
    proxy = Proxy(hanging.address)
    cleanup.append(proxy)
    client = connect(world.server.address, proxy.address)
    eventually(lambda: succeeds(client, name) and proxy.calls["NextSequence"], "it gets calls")
    hanging.suspend()
    answers = [client.check(key=name, policy="many", on_failure="open") for _ in range(25)]
    assert all(answer["allowed"] for answer in answers)
    assert sum(answer["degraded"] for answer in answers) <= 2
    assert proxy.calls["CheckRate"] <= 2


@pytest.mark.engines("redis")
def test_an_unhealthy_server_gets_no_calls(connect, world, cleanup, name):
    """A server whose store is unreachable is NOT_SERVING, and still accepts connections."""
    redis = Redis()
    cleanup.append(redis)
    other = Server(redis.url)
    cleanup.append(other)
    client = connect(world.server.address, other.address)
    redis.kill()
    answers = []

    def succeeds():
        try:
            answers.append(client.next(name=name)["first"])
            return len(answers) > 40
        except CommandError:
            answers.clear()
            return False

    eventually(succeeds, "forty calls in a row succeed")
    assert len(set(answers)) == len(answers)
