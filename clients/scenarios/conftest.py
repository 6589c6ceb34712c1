"""Fixtures of the scenarios, and the choice of language and engine."""

import itertools
import uuid

import pytest

from harness.observer import Observer
from harness.paths import eventually, runner_program, tollgate_binary
from harness.proxy import Proxy
from harness.redis import Redis
from harness.runner import Client, CommandError, Runner
from harness.server import Server

ENGINES = ["embedded", "redis"]


def pytest_addoption(parser):
    parser.addoption("--language", default="go", help="library whose runner plays the scenarios")
    parser.addoption("--engine", action="append", choices=ENGINES,
                     help="engine of the server; default: both")


def pytest_configure(config):
    config.addinivalue_line("markers", "engines(*names): plays on these engines only")
    if not tollgate_binary().exists():
        raise pytest.UsageError(f"there is no server program {tollgate_binary()}: run "
                                "`cargo build`, or set TOLLGATE_BINARY")
    program = runner_program(config.getoption("--language"))
    if not program.exists():
        raise pytest.UsageError(f"there is no runner {program}")


def pytest_generate_tests(metafunc):
    if "engine" in metafunc.fixturenames:
        engines = metafunc.config.getoption("--engine") or ENGINES
        marker = metafunc.definition.get_closest_marker("engines")
        if marker:
            engines = [engine for engine in engines if engine in marker.args]
        language = metafunc.config.getoption("--language")
        ids = [f"{language}-{engine}" for engine in engines]
        metafunc.parametrize("engine", engines, ids=ids, scope="session")


class World:
    """The resources that scenarios of one engine share: a Redis, a server and its observer."""

    def __init__(self, engine: str):
        self.engine = engine
        self._prefixes = itertools.count(1)
        self.redis = Redis() if engine == "redis" else None
        self.server = self.new_server()
        self.observer = Observer(self.server.address)

    def new_server(self, **options) -> Server:
        """Starts a server with its own state."""
        options.setdefault("prefix", f"p{next(self._prefixes)}")
        engine = self.redis.url if self.redis else "embedded"
        return Server(engine, **options)

    def close(self):
        self.observer.close()
        self.server.close()
        if self.redis:
            self.redis.close()


@pytest.fixture(scope="session")
def worlds():
    worlds = {}
    yield worlds
    for world in worlds.values():
        world.close()


@pytest.fixture
def world(worlds, engine) -> World:
    if engine not in worlds:
        worlds[engine] = World(engine)
    return worlds[engine]


@pytest.fixture
def cleanup():
    """A list of objects that are closed at the end of the scenario, the last one first."""
    objects = []
    yield objects
    for each in reversed(objects):
        each.close()


@pytest.fixture
def language(request) -> str:
    return request.config.getoption("--language")


@pytest.fixture(scope="session")
def runners():
    """The runner that scenarios share, unless it has exited."""
    shared = []
    yield shared
    for runner in shared:
        runner.close()


@pytest.fixture
def runner(runners, language) -> Runner:
    if not runners or not runners[-1].alive:
        runners.append(Runner(language))
    return runners[-1]


@pytest.fixture
def own_runner(language, cleanup) -> Runner:
    """A runner of this scenario, which it may stop, kill or quit."""
    runner = Runner(language)
    cleanup.append(runner)
    return runner


@pytest.fixture
def server(world) -> Server:
    """The server that scenarios share."""
    return world.server


@pytest.fixture
def observer(world) -> Observer:
    return world.observer


@pytest.fixture
def own_server(world, cleanup) -> Server:
    """A server of this scenario, whose state survives a restart."""
    server = world.new_server(durable=True)
    cleanup.append(server)
    return server


@pytest.fixture
def own_observer(own_server, cleanup) -> Observer:
    observer = Observer(own_server.address)
    cleanup.append(observer)
    return observer


@pytest.fixture
def connect(runner, cleanup):
    """Opens further connections of the shared runner."""
    def connect(*addresses, **options) -> Client:
        client = Client(runner, *addresses, **options)
        cleanup.append(client)
        return client
    return connect


def warm(client: Client) -> Client:
    """Makes a first call, so that the deadline of the next one is not spent on connecting."""
    eventually(lambda: succeeds(client), "a first call succeeds")
    return client


def succeeds(client: Client) -> bool:
    try:
        client.pool(pool="warm-up")
        return True
    except CommandError as error:
        assert error.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED"), error
        return False


@pytest.fixture
def client(connect, server) -> Client:
    """A connection to the shared server."""
    return warm(connect(server.address))


@pytest.fixture
def proxy(server, cleanup) -> Proxy:
    """A fault proxy in front of the shared server."""
    proxy = Proxy(server.address)
    cleanup.append(proxy)
    return proxy


@pytest.fixture
def faulty(connect, proxy) -> Client:
    """A connection to the shared server through the fault proxy."""
    return warm(connect(proxy.address))


@pytest.fixture
def name() -> str:
    """A name that no other scenario uses: of a pool, key, sequence, lock or sku."""
    return f"ar:{uuid.uuid4().hex[:10]}"
