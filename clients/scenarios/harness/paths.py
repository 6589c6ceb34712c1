"""Places in the repository, free ports, and waiting for a condition."""

import itertools
import os
import socket
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TOOLS = ROOT / "target" / "tools"
# How long a scenario waits for something that must happen. Only a failure takes this long.
PATIENCE = float(os.environ.get("TOLLGATE_SCENARIO_PATIENCE", "30"))

_ports = itertools.count()


def tollgate_binary() -> Path:
    """Returns the server program: TOLLGATE_BINARY, or the debug build of the repository."""
    return Path(os.environ.get("TOLLGATE_BINARY", ROOT / "target" / "debug" / "tollgate"))


def runner_program(language: str) -> Path:
    """Returns the runner of a language: TOLLGATE_RUNNER, or that of its library."""
    return Path(os.environ.get("TOLLGATE_RUNNER", ROOT / "clients" / language / "runner"))


def free_port() -> int:
    """Returns an unused port below the range of client sockets.

    A stopped server can start again on it, because no outgoing connection takes it.
    """
    # Processes begin at different ports.
    start = os.getpid() * 97
    for offset in itertools.islice(_ports, 20_000):
        port = 12_000 + (start + offset) % 20_000
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("there is no free port")


def eventually(condition, message="the condition holds", patience=PATIENCE):
    """Returns the first true value of a condition; fails if it stays false."""
    end = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {patience:g} s: {message}")
        time.sleep(0.03)
