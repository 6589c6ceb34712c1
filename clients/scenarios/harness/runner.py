"""The runner of a library: a process that performs commands, and its answers and events."""

import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time

from .paths import PATIENCE, eventually, runner_program


class CommandError(Exception):
    """The error that a command was answered with."""

    def __init__(self, do: str, error: dict):
        super().__init__(f"{do}: {error}")
        self.code = error["code"]
        self.reason = error.get("reason", "")
        self.violations = error.get("violations") or []
        self.message = error.get("message", "")
        self.retry_after = error.get("retry_after")

    @property
    def fields(self) -> set:
        """The fields with a violation."""
        return {violation["field"] for violation in self.violations}


class Call:
    """A command that was sent. `sent` is the time just before that, on the system clock."""

    def __init__(self, number: int, do: str):
        self.id = number
        self.do = do
        self.sent = time.time()
        self._answers = queue.Queue(1)
        self._answer = None

    def finish(self, message: dict):
        self._answers.put(message)

    @property
    def done(self) -> bool:
        return self._answer is not None or not self._answers.empty()

    def result(self, patience: float = PATIENCE) -> dict:
        """Returns the answer, or raises its CommandError."""
        if self._answer is None:
            try:
                self._answer = self._answers.get(timeout=patience)
            except queue.Empty:
                raise AssertionError(f"no answer to {self.do} within {patience:g} s") from None
        if "error" in self._answer:
            raise CommandError(self.do, self._answer["error"])
        return self._answer.get("answer") or {}

    def error(self, patience: float = PATIENCE) -> CommandError:
        """Returns the error; fails if the command succeeded."""
        try:
            answer = self.result(patience)
        except CommandError as error:
            return error
        raise AssertionError(f"{self.do} succeeded: {answer}")


class Runner:
    """The process of a runner."""

    def __init__(self, language: str):
        self.language = language
        self._numbers = itertools.count(1)
        self._calls = {}
        self._lock = threading.Lock()
        self.events = []
        self._log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [str(runner_program(language))], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._log, text=True, bufsize=1, start_new_session=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None and self._reader.is_alive()

    def send(self, do: str, **fields) -> Call:
        """Sends a command. Fields that are None are left out."""
        call = Call(next(self._numbers), do)
        line = {"id": call.id, "do": do, **{k: v for k, v in fields.items() if v is not None}}
        with self._lock:
            self._calls[call.id] = call
            self.process.stdin.write(json.dumps(line) + "\n")
            self.process.stdin.flush()
        return call

    def _read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            if "event" in message:
                message["read"] = time.time()
                self.events.append(message)
                continue
            with self._lock:
                call = self._calls.pop(message["id"])
            call.finish(message)
        with self._lock:
            calls, self._calls = self._calls, {}
        for call in calls.values():
            call.finish({"error": {"code": "RUNNER_EXITED"}})

    def log(self, start: int = 0) -> str:
        """Returns what the process has written to standard error, from a byte on."""
        written = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), max(0, written - start), start).decode()

    @property
    def logged(self) -> int:
        """Number of bytes that the process has written to standard error."""
        return os.fstat(self._log.fileno()).st_size

    def signal(self, number: int):
        """Sends a signal to the process and its children."""
        os.killpg(self.process.pid, number)

    def stop(self):
        """Stops the process, as if the machine were overloaded."""
        self.signal(signal.SIGSTOP)

    def resume(self):
        self.signal(signal.SIGCONT)

    def quit(self) -> int:
        """Asks the runner to exit and returns its exit code."""
        self.send("quit")
        return self.process.wait(timeout=PATIENCE)

    def close(self):
        if self.process.poll() is None:
            self.resume()
            self.signal(signal.SIGKILL)
            self.process.wait()
        self.process.stdout.close()
        sys.stderr.write(self.log())
        self._log.close()


class Client:
    """A connection of a runner. Each method is a command: `client.admit(handle="a", …)`.

    Handles are local to the client.
    """

    _names = itertools.count(1)

    def __init__(self, runner: Runner, *addresses: str, **options):
        self.runner = runner
        self.name = f"c{next(self._names)}"
        self._first_event = len(runner.events)
        self.opening = self.send("open", addresses=list(addresses), **options)
        self.opening.result(PATIENCE * 10)

    def send(self, do: str, **fields) -> Call:
        if "handle" in fields:
            fields["handle"] = f"{self.name}/{fields['handle']}"
        return self.runner.send(do, connection=self.name, **fields)

    def __getattr__(self, do: str):
        if do.startswith("_"):
            raise AttributeError(do)
        return lambda **fields: self.send(do, **fields).result()

    def error(self, do: str, **fields) -> CommandError:
        """Performs a command that must fail."""
        return self.send(do, **fields).error()

    def cancel(self, call: Call):
        """Cancels a command. A runner may answer with an error if it has just ended."""
        try:
            self.send("cancel", target=call.id).result()
        except CommandError:
            if not call.done:
                raise

    def events(self, kind: str, handle: str) -> list:
        """Returns the events of a handle that have arrived."""
        full = f"{self.name}/{handle}"
        return [event for event in self.runner.events[self._first_event:]
                if event["event"] == kind and event.get("handle") == full]

    def await_events(self, kind: str, handle: str, enough=1, patience: float = PATIENCE) -> list:
        """Returns the events of a handle: a number of them, or until a condition is true."""
        def arrived():
            events = self.events(kind, handle)
            done = enough(events) if callable(enough) else len(events) >= enough
            return events if done else None
        try:
            return eventually(arrived, f"events {kind} of {handle}", patience)
        except AssertionError as error:
            raise AssertionError(f"{error}; events: {self.events(kind, handle)}") from None

    def await_lost(self, handle: str, patience: float = PATIENCE) -> dict:
        """Returns the event `lost` of a permit or lock."""
        return self.await_events("lost", handle, 1, patience)[0]

    def close(self):
        if self.runner.alive:
            try:
                self.send("close").result()
            except (CommandError, AssertionError, OSError):
                pass
