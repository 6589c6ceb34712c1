"""TLS, tokens and their rotation, and namespaces."""

import time

import grpc
import pytest

from harness.certificates import Certificates, Token
from harness.observer import Observer
from harness.paths import eventually
from harness.proxy import Proxy
from harness.runner import Client, CommandError


@pytest.fixture(scope="module")
def certificates():
    certificates = Certificates()
    yield certificates
    certificates.close()


def tls(certificates, client_auth=None):
    """The section `[tls]` of a configuration."""
    lines = ["[tls]", f'cert = "{certificates.file("server.crt")}"',
             f'key = "{certificates.file("server.key")}"']
    if client_auth:
        lines += [f'client_ca = "{certificates.file("ca.crt")}"',
                  f'client_auth = "{client_auth}"']
    return "\n".join(lines) + "\n"


@pytest.fixture
def tls_server(world, certificates, cleanup):
    server = world.new_server(settings=tls(certificates), scheme="https")
    cleanup.append(server)
    return server


def caller(name, token, namespace="", allow=("use", "read", "manage")):
    """An entry `[[caller]]` of a configuration."""
    rights = ", ".join(f'"{right}"' for right in allow)
    scope = f'namespace = "{namespace}"\n' if namespace else ""
    digests = ", ".join(f'"{each.digest}"' for each in token)
    return (f'[[caller]]\nname = "{name}"\ntoken_sha256 = [{digests}]\n{scope}'
            f'allow = [{rights}]\n')


@pytest.fixture
def tokens():
    return [Token(), Token()]


@pytest.fixture
def guarded(world, cleanup, tokens):
    """A server with callers: two tokens of `acme`, which chooses namespaces with `"*"`."""
    reader = Token()
    settings = caller("all", tokens, "*") + caller("reader", [reader], "acme", ["read"])
    server = world.new_server(settings=settings)
    server.reader = reader
    cleanup.append(server)
    return server


def observe(server, token, namespace=None):
    metadata = [("authorization", f"Bearer {token.text}")]
    if namespace:
        metadata.append(("x-tollgate-namespace", namespace))
    return Observer(server.address, metadata=metadata)


def test_calls_over_tls(connect, tls_server, certificates, name):
    client = connect(tls_server.address, ca=certificates.file("ca.crt"))
    assert client.admit(handle="a", pool=name, device="d-1", task="t-1")["outcome"] == "ADMITTED"
    assert client.complete(handle="a")["verdict"] == "COMPLETED"


def test_waits_and_watches_over_tls(connect, tls_server, certificates, name):
    client = connect(tls_server.address, ca=certificates.file("ca.crt"))
    client.configure(pool=name, capacity=1)
    client.watch_pool(handle="w", pool=name, after="0")
    client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=60)
    call = client.send("admit", handle="b", pool=name, device="d-2", task="t-2", wait=25)
    eventually(lambda: client.pool(pool=name)["waiters"] == 1, "the call waits")
    client.complete(handle="a")
    assert call.result()["outcome"] == "ADMITTED"
    client.await_events("pool", "w", lambda events: "t-2" in {e["task"] for e in events})


def test_another_name_of_the_certificate(connect, tls_server, certificates, name):
    client = connect(tls_server.address, ca=certificates.file("ca.crt"),
                     server_name="tollgate.test")
    assert client.next(name=name)["first"] == "1"


def fails(connect, address, code, *, reason=None, name="x", **options):
    """Checks that a connection with these options answers with an error, and returns it."""
    try:
        client = connect(address, **options)
        error = client.error("next", name=name)
    except CommandError as opening:
        error = opening
    assert error.code in code, error
    if reason:
        assert error.reason == reason
    return error


def test_a_name_that_the_certificate_lacks(connect, tls_server, certificates):
    fails(connect, tls_server.address, ["UNAVAILABLE", "DEADLINE_EXCEEDED"],
          ca=certificates.file("ca.crt"), server_name="other.test")


def test_a_foreign_authority_is_refused(connect, tls_server, certificates):
    fails(connect, tls_server.address, ["UNAVAILABLE", "DEADLINE_EXCEEDED"],
          ca=certificates.file("foreign.crt"))


def test_a_client_without_tls_is_refused(connect, tls_server):
    error = fails(connect, tls_server.address, ["UNAVAILABLE", "DEADLINE_EXCEEDED"])
    assert "requires TLS" in error.message


def errors(runner, addresses, **options):
    """The errors of the calls of one connection. A library may already fail to open it."""
    client = None
    for _ in range(8):
        try:
            client = client or Client(runner, *addresses, **options)
        except CommandError as opening:
            yield opening
            continue
        yield client.error("next", name="x")


@pytest.mark.parametrize("servers", [1, 2])
def test_j25_plain_text_to_a_tls_server_backs_off_and_says_why(own_runner, tls_server, cleanup,
                                                               servers):
    proxies = [Proxy(tls_server.address) for _ in range(servers)]
    cleanup.extend(proxies)
    for error in errors(own_runner, [proxy.address for proxy in proxies]):
        assert error.code == "UNAVAILABLE" and "requires TLS" in error.message, error
    time.sleep(2)  # The library could still connect again and again.
    assert sum(proxy.connections for proxy in proxies) <= 50 * servers
    assert own_runner.logged < 20_000, own_runner.log()[:2_000]


@pytest.mark.parametrize("servers", [1, 2])
def test_j25_tls_to_a_plain_text_server_backs_off_and_says_why(own_runner, server, certificates,
                                                               servers):
    for error in errors(own_runner, [server.address] * servers, ca=certificates.file("ca.crt")):
        assert error.code == "UNAVAILABLE" and "does not use TLS" in error.message, error
    assert own_runner.logged < 20_000, own_runner.log()[:2_000]


def test_a_client_certificate(connect, world, certificates, cleanup, name):
    settings = (tls(certificates, "required") + '[[caller]]\nname = "backend"\n'
                'mtls = "spiffe://scenarios/*"\nallow = ["use", "read"]\n')
    server = world.new_server(settings=settings, scheme="https")
    cleanup.append(server)
    client = connect(server.address, ca=certificates.file("ca.crt"),
                     cert=certificates.file("client.crt"), key=certificates.file("client.key"))
    assert client.next(name=name)["first"] == "1"
    error = client.error("configure", pool=name, capacity=1)
    assert (error.code, error.reason) == ("PERMISSION_DENIED", "PERMISSION_MISSING")
    fails(connect, server.address, ["UNAVAILABLE", "DEADLINE_EXCEEDED"],
          ca=certificates.file("ca.crt"))


def test_a_token_is_needed(connect, guarded, tokens, name):
    assert connect(guarded.address, token=tokens[0].text).next(name=name)["first"] == "1"
    fails(connect, guarded.address, ["UNAUTHENTICATED"], reason="CREDENTIALS_MISSING")
    fails(connect, guarded.address, ["UNAUTHENTICATED"], reason="TOKEN_UNKNOWN",
          token=Token().text)


def test_a_permission_is_needed(connect, guarded, name):
    client = connect(guarded.address, token=guarded.reader.text)
    assert client.pool(pool=name)["in_use"] == 0
    error = client.error("admit", handle="a", pool=name, device="d-1", task="t-1")
    assert (error.code, error.reason) == ("PERMISSION_DENIED", "PERMISSION_MISSING")


@pytest.mark.parametrize("source", ["token_file", "token_callback"])
def test_a_token_is_rotated(connect, guarded, tokens, tmp_path, name, source):
    """The file gets another token; from then on, calls and keepers send it."""
    file = tmp_path / "token"
    file.write_text(tokens[0].text)
    client = connect(guarded.address, **{source: str(file)})
    client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=2)
    replace(file, Token().text)
    eventually(lambda: refused(client, name), "the wrong token is sent")
    replace(file, tokens[1].text + "\n")
    eventually(lambda: not refused(client, name), "the second token is sent")
    client.admit(handle="b", pool=name, device="d-1", task="t-2", lease=1)
    assert client.complete(handle="b")["verdict"] == "COMPLETED"


def replace(file, text):
    """Replaces a file as a secret manager does, by a rename."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.rename(file)


def refused(client, name):
    try:
        client.next(name=name)
        return False
    except CommandError as error:
        assert (error.code, error.reason) == ("UNAUTHENTICATED", "TOKEN_UNKNOWN")
        return True


def test_a_keeper_sends_the_rotated_token(connect, guarded, tokens, tmp_path, cleanup, name):
    file = tmp_path / "token"
    file.write_text(tokens[0].text)
    client = connect(guarded.address, token_file=str(file))
    client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=4)
    replace(file, tokens[1].text)
    observer = observe(guarded, tokens[0])
    cleanup.append(observer)
    eventually(lambda: len(observer.events(name, "RENEWED")) >= 4, "the lease is renewed")
    assert client.permit(handle="a")["valid"] is True


def test_namespaces_are_separate(connect, guarded, tokens, cleanup, name):
    token = tokens[0].text
    clients = {namespace: connect(guarded.address, token=token, namespace=namespace)
               for namespace in ["acme", "beta"]}
    for client in clients.values():
        client.configure(pool=name, capacity=1)
        answer = client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=60)
        assert answer["outcome"] == "ADMITTED" and answer["replayed"] is False
        assert client.next(name=name)["first"] == "1"
        assert client.lock(handle="l", name=name, owner="one")["outcome"] == "ACQUIRED"
    default = connect(guarded.address, token=token)
    assert default.pool(pool=name)["in_use"] == 0
    acme = observe(guarded, tokens[0], "acme")
    cleanup.append(acme)
    assert acme.in_use(name) == 1


def test_a_keeper_and_a_watch_use_the_namespace(connect, guarded, tokens, cleanup, name):
    client = connect(guarded.address, token=tokens[0].text, namespace="acme")
    client.watch_pool(handle="w", pool=name, after="0")
    client.admit(handle="a", pool=name, device="d-1", task="t-1", lease=1)
    client.await_events("pool", "w", lambda events: "RENEWED" in {e["kind"] for e in events})
    assert client.permit(handle="a")["valid"] is True


def test_a_foreign_namespace_is_denied(connect, guarded):
    fails(connect, guarded.address, ["PERMISSION_DENIED"], reason="NAMESPACE_NOT_PERMITTED",
          token=guarded.reader.text, namespace="beta")


@pytest.mark.parametrize(("field", "text"), [
    ("token", "two\nlines"), ("token", "über"), ("namespace", "two\nlines"), ("namespace", "über"),
])
def test_a_value_that_no_header_can_carry(connect, proxy, field, text):
    error = fails(connect, proxy.address, ["INVALID_ARGUMENT"], **{field: text})
    assert error.fields == {field}
    assert text not in error.message
    assert proxy.calls["NextSequence"] == 0


def test_denied_calls_are_not_repeated(connect, guarded, cleanup, name):
    proxy = Proxy(guarded.address)
    cleanup.append(proxy)
    client = connect(proxy.address, token=Token().text)
    assert client.error("next", name=name).code == "UNAUTHENTICATED"
    assert proxy.calls["NextSequence"] == 1


def test_the_server_of_these_scenarios_checks_certificates(tls_server, certificates):
    """The harness itself: without this, a client that verifies nothing would pass."""
    with open(certificates.file("foreign.crt"), "rb") as file:
        credentials = grpc.ssl_channel_credentials(file.read())
    with grpc.secure_channel(tls_server.address, credentials) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        with pytest.raises(grpc.RpcError):
            check(b"", timeout=5)
