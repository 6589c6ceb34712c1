"""Tollgate servers of the scenarios."""

import os
import signal
import subprocess
import tempfile
import threading
from pathlib import Path

import grpc

from .paths import PATIENCE, eventually, free_port, tollgate_binary

# Settings of every server. Scenarios use separate names, so that they can share servers.
SETTINGS = """
[[pool]]
match = "history:*"
namespace = "*"
history = 100

[[policy]]
name = "three"
limit = [{ name = "hour", max = 3, window = "1h" }]

[[policy]]
name = "many"
limit = [{ max = 1000000, window = "1h" }]

[[policy]]
name = "crawler"
limit = [{ window = "1h", algorithm = "FIXED_WINDOW" }]
tier = [{ above = 1, action = "WARN" }, { above = 2, action = "BAN", ban_durations = ["5m"] }]

[[policy]]
name = "deny"
limit = [{ max = 1000, window = "1h" }]
on_store_failure = "deny"

[[policy]]
name = "allow"
limit = [{ max = 1000, window = "1h" }]
on_store_failure = "allow"

[[sequence]]
match = "order:*"
namespace = "*"
layout = "ORD-{n:06}"

[[sequence]]
match = "dated:*"
layout = "timestamp17"
"""


class Server:
    """A server process. It can be stopped and started again on the same port."""

    def __init__(self, engine: str = "embedded", *, durable: bool = False, settings: str = "",
                 prefix: str = "tollgate", scheme: str = "http"):
        self.port = free_port()
        self.scheme = scheme
        self._folder = tempfile.TemporaryDirectory(prefix="scenario-server-")
        folder = Path(self._folder.name)
        redis = "" if engine == "embedded" else f'[redis]\nkey_prefix = "{prefix}"\n'
        (folder / "tollgate.toml").write_text(redis + settings + SETTINGS)
        self._command = [
            str(tollgate_binary()), "serve", "--listen", self.address, "--engine", engine,
            "--config", str(folder / "tollgate.toml"), "--log-level", "warn",
        ]
        if durable and engine == "embedded":
            self._command += ["--data-dir", str(folder / "data"), "--durability", "always"]
        self._log = folder / "log"
        self.process = None
        self.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self):
        """Starts the process and waits until it is SERVING."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TOLLGATE_")}
        environment["TOLLGATE_ADMIN"] = "off"
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(
                self._command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        eventually(self._serves, "the server is SERVING", PATIENCE)

    def _serves(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"the server has exited:\n{self._log.read_text()}")
        if self.scheme == "https":
            return "https" in self.scheme and _accepts(self.port)
        with grpc.insecure_channel(self.address) as channel:
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            try:
                # The answer SERVING is field 1 with value 1.
                return check(b"", timeout=2) == b"\x08\x01"
            except grpc.RpcError:
                return False

    def stop(self):
        """Stops the process as an operator does, and waits until it has ended."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=PATIENCE)

    def kill(self):
        """Kills the process without a shutdown."""
        self.process.kill()
        self.process.wait()

    def start_after(self, seconds: float) -> threading.Timer:
        """Starts the process again after a while, in the background."""
        timer = threading.Timer(seconds, self.start)
        timer.start()
        return timer

    def suspend(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def close(self):
        if self.process.poll() is None:
            self.resume()
            self.kill()
        self._folder.cleanup()


def _accepts(port: int) -> bool:
    import socket

    try:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
        return True
    except OSError:
        return False
