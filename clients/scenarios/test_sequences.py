"""Sequences: exact values, blocks, layouts, and no value twice."""

import re

import pytest

from harness.runner import CommandError

LARGEST = 2**63 - 1


def test_values_follow_each_other(client, observer, name):
    first = client.next(name=name)
    assert (first["first"], first["last"], first["step"]) == ("1", "1", "1")
    assert first["serials"] == [] and first["replayed"] is False
    assert client.next(name=name)["first"] == "2"
    assert observer.last(name) == 2


def test_a_call_takes_several_values(client, observer, name):
    answer = client.next(name=name, count=3, step="10", floor="100")
    assert (answer["first"], answer["last"], answer["step"]) == ("100", "120", "10")
    assert client.next(name=name)["first"] == "121"


@pytest.mark.parametrize("floor", [2**53 + 1, 2**62 + 3, LARGEST])
def test_large_values_are_exact(client, name, floor):
    answer = client.next(name=name, floor=str(floor))
    assert answer["first"] == answer["last"] == str(floor)


def test_a_floor_moves_a_sequence_forward_and_never_back(client, observer, name):
    assert client.set_floor(name=name, floor=str(2**53 + 1))["applied"] is True
    assert client.next(name=name)["first"] == str(2**53 + 1)
    assert client.set_floor(name=name, floor="7")["applied"] is False
    assert client.next(name=name)["first"] == str(2**53 + 2)
    assert observer.last(name) == 2**53 + 2


def test_a_used_up_sequence_is_an_error(client, name):
    client.next(name=name, floor=str(LARGEST))
    error = client.error("next", name=name)
    assert (error.code, error.reason) == ("OUT_OF_RANGE", "VALUES_EXHAUSTED")


def test_bad_fields_are_named_all_at_once(client, name):
    error = client.error("next", name=f"dated:{name}", count=10_001, step="2000000")
    assert error.code == "INVALID_ARGUMENT"
    assert error.fields == {"count", "step"}


@pytest.mark.parametrize("fault", ["lose_reply", "cut_reply", "cut_request"])
def test_a_lost_answer_takes_no_further_values(faulty, proxy, observer, name, fault):
    lost = getattr(proxy, fault)("NextSequence")
    answer = faulty.next(name=name, count=5)
    assert lost.fired.is_set()
    assert (answer["first"], answer["last"]) == ("1", "5")
    assert observer.last(name) == 5


def test_an_id_of_the_caller_is_replayed(client, name):
    first = client.next(name=name, count=2, request_id="r-1")
    client.next(name=name)
    again = client.next(name=name, count=2, request_id="r-1")
    assert again["replayed"] is True
    assert (again["first"], again["last"]) == (first["first"], first["last"])


def test_the_serials_of_a_layout(client, name):
    answer = client.next(name=f"order:{name}", count=3)
    assert answer["serials"] == ["ORD-000001", "ORD-000002", "ORD-000003"]


def test_dated_serials_are_their_values(client, name):
    """A value of `timestamp17` exceeds 2^53, the largest exact number of JavaScript."""
    answer = client.next(name=f"dated:{name}", count=250)
    serials = answer["serials"]
    assert len(set(serials)) == 250
    assert all(re.fullmatch(r"\d{17}", serial) for serial in serials)
    assert int(serials[0]) == int(answer["first"]) > 2**53
    assert int(serials[-1]) == int(answer["last"])


def test_an_allocator_gives_out_its_blocks(client, proxy, connect, observer, name):
    counted = connect(proxy.address)
    counted.allocator(handle="a", name=name, block=50)
    values = [int(counted.allocate(handle="a")["value"]) for _ in range(120)]
    assert values == list(range(1, 121))
    # Three blocks, and at most two that are fetched ahead.
    assert proxy.calls["NextSequence"] <= 5


def test_allocators_never_give_out_a_value_twice(client, name):
    for handle in ["a", "b"]:
        client.allocator(handle=handle, name=name, block=20)
    calls = [client.send("allocate", handle="ab"[i % 2]) for i in range(400)]
    values = [int(call.result()["value"]) for call in calls]
    assert len(set(values)) == 400


def test_an_allocator_gives_out_serials(client, name):
    client.allocator(handle="a", name=f"order:{name}", block=10)
    answers = [client.allocate(handle="a") for _ in range(25)]
    assert [answer["serial"] for answer in answers] == [f"ORD-{n:06}" for n in range(1, 26)]
    assert [answer["value"] for answer in answers] == [str(n) for n in range(1, 26)]


def test_an_allocator_goes_on_over_lost_answers(faulty, proxy, observer, name):
    faulty.allocator(handle="a", name=name, block=10)
    values = []
    for number in range(100):
        if number % 20 == 5:
            proxy.cut_reply("NextSequence")
        values.append(int(faulty.allocate(handle="a")["value"]))
    assert values == list(range(1, 101))


def test_an_allocator_goes_on_over_a_restart(connect, own_server, name):
    client = connect(own_server.address)
    client.allocator(handle="a", name=name, block=10)
    values = [int(client.allocate(handle="a")["value"]) for _ in range(5)]
    own_server.kill()
    own_server.start()
    while len(values) < 50:
        call = client.send("allocate", handle="a")
        try:
            values.append(int(call.result()["value"]))
        except CommandError as error:
            assert error.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED")
    assert values == sorted(set(values))


def test_concurrent_calls_get_different_values(client, name):
    calls = [client.send("next", name=name, count=3) for _ in range(60)]
    blocks = sorted(int(call.result()["first"]) for call in calls)
    assert blocks == list(range(1, 181, 3))
