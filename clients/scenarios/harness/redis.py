"""Redis servers of the scenarios: one for each worker, and a group with Sentinels."""

import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from .paths import eventually, free_port


class Redis:
    """A redis-server without persistence, on a port of its own."""

    def __init__(self, *arguments: str, config: str | None = None):
        self.port = free_port()
        self._folder = tempfile.TemporaryDirectory(prefix="scenario-redis-")
        self._arguments = [
            "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
            "--dir", self._folder.name, "--maxmemory-policy", "noeviction", *arguments,
        ]
        self._sentinel = config
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self):
        """Starts the process and waits until it answers."""
        command = ["redis-server", *self._arguments]
        if self._sentinel is not None:
            path = Path(self._folder.name) / "sentinel.conf"
            path.write_text(f"port {self.port}\nbind 127.0.0.1\n{self._sentinel}")
            command = ["redis-server", str(path), "--sentinel"]
        log = open(Path(self._folder.name) / "log", "ab")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        eventually(self._answers, "Redis answers")

    def _answers(self) -> bool:
        try:
            return self.command("PING") == "+PONG"
        except OSError:
            return False

    def command(self, *words: str) -> str:
        """Runs a command and returns the answer as text of the protocol."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in words]
            connection.sendall(f"*{len(words)}\r\n{''.join(parts)}".encode())
            time.sleep(0.01)
            return connection.recv(1 << 16).decode(errors="replace").strip()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGCONT)
            self.kill()
        self._folder.cleanup()


class Sentinels:
    """A primary, a replica and three Sentinels, which replace a dead primary."""

    NAME = "scenarios"

    def __init__(self):
        self.primary = Redis()
        self.replica = Redis("--replicaof", "127.0.0.1", str(self.primary.port))
        monitor = (
            f"sentinel monitor {self.NAME} 127.0.0.1 {self.primary.port} 2\n"
            f"sentinel down-after-milliseconds {self.NAME} 1000\n"
            f"sentinel failover-timeout {self.NAME} 5000\n"
        )
        self.sentinels = [Redis(config=monitor) for _ in range(3)]
        eventually(lambda: "master_link_status:up" in self.replica.command("INFO", "replication"),
                   "the replica follows")
        for sentinel in self.sentinels:
            eventually(lambda: self._is_complete(sentinel), "the Sentinels know each other")

    def _is_complete(self, sentinel: Redis) -> bool:
        info = sentinel.command("INFO", "sentinel")
        return "slaves=1,sentinels=3" in info

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{hosts}/{self.NAME}"

    def wait_for_replica(self):
        """Waits until the replica has all writes of the primary."""
        eventually(lambda: self._offset("master") == self._offset("slave"),
                   "the replica has all writes")

    def _offset(self, role: str) -> str:
        """Returns the offset of a node; that of the replica is missing until it follows."""
        node = self.primary if role == "master" else self.replica
        lines = node.command("INFO", "replication").split("\r\n")
        name = f"{role}_repl_offset:"
        return next((line.removeprefix(name) for line in lines if line.startswith(name)), role)

    def fail_over(self):
        """Kills the primary and waits until the Sentinels have promoted the replica."""
        self.primary.kill()
        eventually(lambda: "role:master" in self.replica.command("INFO", "replication"),
                   "the replica is promoted")

    def close(self):
        for node in [*self.sentinels, self.replica, self.primary]:
            node.close()
