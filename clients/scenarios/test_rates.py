"""Rates: verdicts, repeats with ids, fallbacks, and the middleware of a web server."""

import urllib.error
import urllib.request

import pytest

from harness.paths import eventually
from harness.redis import Redis
from harness.runner import Client
from harness.server import Server


def test_calls_within_a_limit_are_allowed(client, observer, name):
    for _ in range(3):
        answer = client.check(key=name, policy="three")
        assert answer["allowed"] is True and answer["verdict"] == "ALLOW"
        assert answer["replayed"] is False and answer["degraded"] is False
    refused = client.check(key=name, policy="three")
    assert refused["allowed"] is False and refused["verdict"] == "THROTTLE"
    assert 0 < refused["retry_after"] <= 3700
    assert observer.spent(name, "three") == 3


def test_a_cost_counts_as_several_calls(client, observer, name):
    assert client.check(key=name, policy="three", cost=2)["allowed"] is True
    assert client.check(key=name, policy="three", cost=2)["allowed"] is False
    assert client.check(key=name, policy="three", cost=0)["allowed"] is True
    assert observer.spent(name, "three") == 2


def test_warnings_and_bans(client, name):
    verdicts = [client.check(key=name, policy="crawler") for _ in range(3)]
    assert [each["verdict"] for each in verdicts] == ["ALLOW", "WARN", "BAN"]
    assert [each["allowed"] for each in verdicts] == [True, True, False]
    assert 0 < verdicts[2]["retry_after"] <= 3600


def test_an_unknown_policy_is_an_error(client, name):
    assert client.error("check", key=name, policy="no-such").code == "NOT_FOUND"


def test_a_bad_cost_is_an_error_with_its_field(client):
    error = client.error("check", key="", policy="three")
    assert error.code == "INVALID_ARGUMENT" and error.fields == {"key"}


@pytest.mark.parametrize("fault", ["lose_reply", "cut_reply", "cut_request"])
def test_a_lost_check_is_spent_once(faulty, proxy, observer, name, fault):
    """The library generates an id, and its retries keep it."""
    lost = getattr(proxy, fault)("CheckRate")
    assert faulty.check(key=name, policy="many")["allowed"] is True
    assert lost.fired.is_set()
    assert observer.spent(name, "many") == 1


def test_several_lost_checks_are_spent_once(connect, proxy, observer, name):
    client = connect(proxy.address, deadline=3)
    proxy.cut_reply("CheckRate", times=2)
    assert client.check(key=name, policy="many", cost=5)["allowed"] is True
    assert observer.spent(name, "many") == 5


def test_an_id_of_the_caller_is_replayed(client, observer, name):
    first = client.check(key=name, policy="many", request_id="r-1")
    again = client.check(key=name, policy="many", request_id="r-1")
    assert first["replayed"] is False and again["replayed"] is True
    assert observer.spent(name, "many") == 1


def test_ids_of_calls_differ(client, observer, name):
    for _ in range(5):
        assert client.check(key=name, policy="many")["replayed"] is False
    assert observer.spent(name, "many") == 5


def test_a_key_shows_its_usage(client, observer, name):
    client.check(key=name, policy="three", cost=2)
    hour = {"name": "hour", "max": "3", "count": "2", "remaining": "1"}
    for _ in range(2):
        answer = client.get_key(key=name, policy="three")
        assert answer == {"limits": [hour], "banned": False, "strikes": 0}
    assert observer.spent(name, "three") == 2


def test_a_key_shows_its_ban(client, name):
    for _ in range(3):
        client.check(key=name, policy="crawler")
    answer = client.get_key(key=name, policy="crawler")
    assert answer["banned"] is True and answer["strikes"] == 1


def test_the_errors_of_a_key(client, name):
    assert client.error("get_key", key=name, policy="no-such").code == "NOT_FOUND"
    assert client.error("get_key", key="", policy="three").fields == {"key"}


@pytest.mark.parametrize("fault", ["lose_reply", "cut_reply", "cut_request"])
def test_a_lost_answer_about_a_key_is_asked_again(faulty, proxy, name, fault):
    faulty.check(key=name, policy="three")
    lost = getattr(proxy, fault)("GetKey")
    limits = faulty.get_key(key=name, policy="three")["limits"]
    assert lost.fired.is_set() and limits[0]["count"] == "1"


@pytest.mark.parametrize(("on_failure", "allowed"), [("open", True), ("closed", False)])
def test_a_limiter_decides_without_a_server(faulty, proxy, name, on_failure, allowed):
    proxy.refuse()
    answer = faulty.check(key=name, policy="three", on_failure=on_failure)
    assert answer["allowed"] is allowed
    assert answer["degraded"] is True
    assert answer["verdict"] == ""


def test_without_a_choice_a_failure_is_an_error(faulty, proxy, name):
    proxy.refuse()
    error = faulty.error("check", key=name, policy="three")
    assert error.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED")


@pytest.mark.parametrize("on_failure", ["open", "closed"])
def test_a_bad_request_is_an_error_whatever_the_choice(client, on_failure):
    """The caller chooses its key, and must not open the gate with a bad one."""
    error = client.error("check", key="", policy="three", on_failure=on_failure)
    assert error.code == "INVALID_ARGUMENT"


def test_j27_an_unknown_policy_passes_a_limiter_that_fails_open(connect, own_runner, server, name):
    client = warm(Client(own_runner, server.address))
    for _ in range(200):
        answer = client.check(key=name, policy="no-such", on_failure="open")
        assert answer["allowed"] is True
        assert answer["degraded"] is True and answer["verdict"] == ""
    assert client.check(key=name, policy="absent", on_failure="open")["allowed"] is True
    for policy in ["no-such", "absent"]:
        lines = lines_about(own_runner, policy)
        assert 1 <= len(lines) <= 3, lines
        assert "POLICY_NOT_FOUND" in lines[0], lines


def test_j27_a_limiter_that_fails_open_logs_an_outage(own_runner, proxy, name):
    client = Client(own_runner, proxy.address)
    proxy.refuse()
    for _ in range(10):
        assert client.check(key=name, policy="three", on_failure="open")["allowed"] is True
    assert 1 <= len(lines_about(own_runner, "three")) <= 3, own_runner.log()


@pytest.mark.parametrize("on_failure", [None, "closed"])
def test_j27_an_unknown_policy_is_an_error_of_its_own(client, name, on_failure):
    """A limiter that fails closed lets nothing pass, and its owner sees why."""
    error = client.error("check", key=name, policy="no-such", on_failure=on_failure)
    assert (error.code, error.reason) == ("NOT_FOUND", "POLICY_NOT_FOUND")
    assert "no-such" in error.message


@pytest.mark.parametrize(("on_failure", "status"), [("open", 200), ("closed", 503), (None, 503)])
def test_j27_a_web_server_logs_an_unknown_policy(own_runner, server, cleanup, name, on_failure,
                                                 status):
    options = {"on_failure": on_failure} if on_failure else {}
    web = Web(warm(Client(own_runner, server.address)), "no-such", **options)
    cleanup.append(web)
    for _ in range(20):
        assert web.get(name)[0] == status
    lines = lines_about(own_runner, "no-such")
    assert 1 <= len(lines) <= 3, lines
    assert "POLICY_NOT_FOUND" in lines[0], lines


def warm(client) -> Client:
    """Makes a first call: a runner that has just started may need longer than one deadline."""
    eventually(lambda: decided(client), "a first check is decided")
    return client


def decided(client) -> bool:
    return not client.check(key="warm-up", policy="many", on_failure="closed")["degraded"]


def lines_about(runner, policy) -> list:
    """The log lines of a library that name a policy."""
    return [line for line in runner.log().splitlines() if policy in line]


def test_j28_the_addresses_of_an_ipv6_network_are_one_caller(client, observer, name):
    addresses = [f"2001:db8:1:2:{number:x}::{number:x}" for number in range(1, 41)]
    keys = {client.address_key(address=address)["key"] for address in addresses}
    assert keys == {"ip:2001:db8:1:2::/64"}
    assert client.address_key(address="2001:db8:1:3::1")["key"] == "ip:2001:db8:1:3::/64"


@pytest.mark.parametrize(("prefix", "address", "key"), [
    (None, "192.0.2.7", "ip:192.0.2.7"),
    (None, "::ffff:192.0.2.7", "ip:192.0.2.7"),
    (None, "::FFFF:C000:0207", "ip:192.0.2.7"),
    (None, "2001:DB8:0:0:1:0:0:1", "ip:2001:db8::/64"),
    (None, "fe80::1%eth0", "ip:fe80::/64"),
    (None, "::1", "ip:::/64"),
    (48, "2001:db8:1:2::3", "ip:2001:db8:1::/48"),
    (56, "2001:db8:1:2fe::3", "ip:2001:db8:1:200::/56"),
    (128, "2001:db8:1:2::3", "ip:2001:db8:1:2::3"),
    (48, "::ffff:192.0.2.7", "ip:192.0.2.7"),
    (None, "no address", "ip:no address"),
])
def test_j28_the_key_of_an_address(client, prefix, address, key):
    assert client.address_key(address=address, prefix=prefix)["key"] == key


@pytest.mark.engines("redis")
@pytest.mark.parametrize(("policy", "allowed"), [("allow", True), ("deny", False)])
def test_a_fallback_of_the_server_is_marked(connect, engine, cleanup, name, policy, allowed):
    redis = Redis()
    cleanup.append(redis)
    server = Server(redis.url)
    cleanup.append(server)
    client = connect(server.address)
    assert client.check(key=name, policy=policy)["degraded"] is False
    redis.kill()

    def fallback():
        answer = client.check(key=name, policy=policy, on_failure="closed")
        return answer if answer["verdict"] else None

    answer = eventually(fallback, "the server answers without Redis")
    assert answer["degraded"] is True and answer["allowed"] is allowed


def test_the_headers_of_an_answer(client, name):
    headers = client.check(key=name, policy="three")["headers"]
    limit = parse(headers["ratelimit"])
    assert limit["name"] == "hour" and limit["r"] == 2 and 0 < limit["t"] <= 3700
    assert parse(headers["ratelimit-policy"]) == {"name": "hour", "q": 3, "w": 3600}


def test_the_name_of_an_unnamed_limit(client, name):
    headers = client.check(key=name, policy="many")["headers"]
    assert parse(headers["ratelimit-policy"])["name"] == "default"


def parse(header: str) -> dict:
    """Parses one item of a structured field list: `"hour";r=2;t=3600`."""
    name, *parameters = header.split(",")[0].strip().split(";")
    assert name.startswith('"') and name.endswith('"'), header
    values = dict(parameter.strip().split("=") for parameter in parameters)
    return {"name": name.strip('"'), **{key: int(value) for key, value in values.items()}}


class Web:
    """The web server of a runner."""

    def __init__(self, client, policy, **options):
        self.client = client
        self.url = client.http_start(handle="web", policy=policy, **options)["url"]

    def get(self, key: str):
        """Returns the status and the headers of an answer."""
        request = urllib.request.Request(self.url, headers={"x-caller": key})
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, answer.headers
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers

    def close(self):
        self.client.http_stop(handle="web")


@pytest.fixture
def web(faulty, cleanup):
    def web(policy, **options):
        web = Web(faulty, policy, **options)
        cleanup.append(web)
        return web
    return web


def test_a_web_server_allows_calls_and_says_what_is_left(web, name):
    status, headers = web("three").get(name)
    assert status == 200
    assert parse(headers["RateLimit"])["r"] == 2
    assert parse(headers["RateLimit-Policy"]) == {"name": "hour", "q": 3, "w": 3600}
    assert headers["Retry-After"] is None


def test_a_web_server_refuses_with_429(web, proxy, name):
    server = web("three")
    assert [server.get(name)[0] for _ in range(3)] == [200] * 3
    status, headers = server.get(name)
    assert status == 429
    assert 0 < int(headers["Retry-After"]) <= 3700
    assert parse(headers["RateLimit"])["r"] == 0
    assert parse(headers["RateLimit-Policy"])["q"] == 3
    # Other callers have limits of their own, and each request is one call.
    assert server.get(f"{name}-other")[0] == 200
    assert proxy.calls["CheckRate"] == 5


def test_a_web_server_that_fails_open(web, proxy, name):
    server = web("three", on_failure="open")
    proxy.refuse()
    assert server.get(name)[0] == 200


def test_a_web_server_that_fails_closed(web, proxy, name):
    server = web("three", on_failure="closed")
    proxy.refuse()
    assert server.get(name)[0] in (429, 503)
