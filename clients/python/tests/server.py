"""Starts real servers, on the embedded engine or on a Redis."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

CONFIG = """
[[policy]]
name = "two"
limit = [{ name = "minute", max = 2, window = "60s" }]

[[policy]]
name = "many"
limit = [{ name = "second", max = 1000000, window = "1s" }]

[[policy]]
name = "warned"
limit = [{ name = "m", max = 100, window = "60s" }]
tier = [{ above = 1, action = "WARN" }]

[[sequence]]
match = "order"
layout = "timestamp17"

[[sequence]]
match = "ticket"
layout = "T{n:04}"
"""


def binary() -> Path:
    """Returns the server program: TOLLGATE_BINARY, else the debug build."""
    root = Path(__file__).parents[3]
    return Path(os.environ.get("TOLLGATE_BINARY", root / "target" / "debug" / "tollgate"))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} does not listen on {port}")


class Server:
    """A server. It can stop and start again on the same port."""

    def __init__(self, folder: Path, *, config: str = CONFIG, engine: str | None = None) -> None:
        self.port = free_port()
        self.folder = folder
        self.config = folder / f"tollgate-{self.port}.toml"
        self.config.write_text(config)
        self.engine = engine
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [str(binary()), "serve", "--listen", self.address, "--admin", "off"]
        command += ["--config", str(self.config)]
        if self.engine is not None:
            command += ["--engine", self.engine]
        log = (self.folder / f"tollgate-{self.port}.log").open("ab")
        with log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_for_port(self.port, self.process)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            self.process = None


class Redis:
    """A Redis without persistence."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--save", "", "--appendonly", "no", "--dir", str(folder)]
        log = (folder / "redis.log").open("wb")
        with log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_for_port(self.port, self.process)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()
