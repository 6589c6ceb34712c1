"""A proxy between a client and a server, which injects faults.

It reads the frames of HTTP/2, so it can drop the answer to one call while other calls of the
connection continue. It counts the calls and connections of a client.
"""

import collections
import queue
import socket
import struct
import threading
import time

import hpack

from . import frames
from .paths import free_port

UNAVAILABLE, RESOURCE_EXHAUSTED = 14, 8


class Fault:
    """A fault of the next calls of one rpc. `fired` is set when it hits the first one."""

    def __init__(self, rpc: str, action: str, times: int, options: dict):
        self.rpc = rpc
        self.action = action
        self.left = times
        self.options = options
        self.fired = threading.Event()


class Proxy:
    """Listens on a port of its own and passes the frames of each connection on."""

    def __init__(self, target: str):
        host, port = target.rsplit(":", 1)
        self._target = (host, int(port))
        self.calls = collections.Counter()
        self.connections = 0
        self.headers = []
        self.faults = []
        self.delay = 0.0
        self.flowing = threading.Event()
        self.flowing.set()
        self._refusing = False
        self._lock = threading.Lock()
        self._connections = set()
        self.port = free_port()
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def retarget(self, target: str):
        """Redirects new connections to another server."""
        host, port = target.rsplit(":", 1)
        self._target = (host, int(port))

    # Faults of all calls.

    def cut(self):
        """Resets all connections."""
        with self._lock:
            connections, self._connections = self._connections, set()
        for connection in connections:
            connection.close()

    def refuse(self, refusing: bool = True):
        """Resets all connections, and new ones immediately, until refuse(False)."""
        with self._lock:
            self._refusing = refusing
        if refusing:
            self.cut()

    def stall(self):
        """Passes nothing on until flow(), like a network that loses every packet."""
        self.flowing.clear()

    def flow(self):
        self.flowing.set()

    # Faults of the next calls of an rpc.

    def lose_reply(self, rpc: str, times: int = 1) -> Fault:
        """The server decides the call, and the client never gets the answer."""
        return self._fault(rpc, "lose", times)

    def cut_reply(self, rpc: str, times: int = 1, before=None) -> Fault:
        """The server decides the call; then the connection is reset without the answer.

        `before` is a function to call between the two.
        """
        return self._fault(rpc, "cut_reply", times, before=before)

    def cut_request(self, rpc: str, times: int = 1) -> Fault:
        """The connection is reset before the server gets the call."""
        return self._fault(rpc, "cut_request", times)

    def hold_reply(self, rpc: str, seconds: float, times: int = 1) -> Fault:
        """The client gets the answer late."""
        return self._fault(rpc, "hold", times, seconds=seconds)

    def answer(self, rpc: str, code: int, retry_after: float | None = None, times: int = 1,
               reason: str = "OVERLOADED") -> Fault:
        """The proxy answers with an error in place of the server."""
        return self._fault(rpc, "answer", times, code=code, retry_after=retry_after,
                           reason=reason)

    def reply(self, rpc: str, message, times: int = 1) -> Fault:
        """The proxy answers with a message in place of the server."""
        return self._fault(rpc, "answer", times, message=message)

    def _fault(self, rpc: str, action: str, times: int, **options) -> Fault:
        fault = Fault(rpc, action, times, options)
        with self._lock:
            self.faults.append(fault)
        return fault

    def take(self, rpc: str) -> Fault | None:
        """Counts a call and returns the fault that applies to it."""
        with self._lock:
            self.calls[rpc] += 1
            for fault in self.faults:
                if fault.rpc == rpc and fault.left > 0:
                    fault.left -= 1
                    return fault
        return None

    def clear(self):
        """Ends all faults."""
        with self._lock:
            self.faults = []
        self.delay = 0.0
        self._refusing = False
        self.flow()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            if self._refusing:
                _reset(client)
                continue
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client):
        self.flowing.wait()
        try:
            server = socket.create_connection(self._target, timeout=5)
        except OSError:
            _reset(client)
            return
        server.settimeout(None)
        connection = Connection(self, client, server)
        with self._lock:
            refused = self._refusing
            if not refused:
                self._connections.add(connection)
        if refused:
            connection.close()
        else:
            connection.start()

    def forget(self, connection):
        with self._lock:
            self._connections.discard(connection)

    def close(self):
        self.clear()
        # Without this, the listener lives on until its thread has accepted a connection.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()


class Cut(Exception):
    """A fault that resets the connection."""


class Line:
    """Writes the frames of one direction, after the delay of the network, in their order."""

    def __init__(self, proxy: Proxy, sock):
        self._proxy = proxy
        self._sock = sock
        self._frames = queue.Queue()

    def put(self, data: bytes):
        self._frames.put((time.monotonic() + self._proxy.delay, data))

    def end(self):
        self._frames.put(None)

    def run(self):
        while (item := self._frames.get()) is not None:
            due, data = item
            time.sleep(max(0.0, due - time.monotonic()))
            self._proxy.flowing.wait()
            self._sock.sendall(data)


class Connection:
    """One connection of a client, and its twin to the server."""

    def __init__(self, proxy: Proxy, client, server):
        self._proxy = proxy
        self._client = client
        self._server = server
        self._up = Line(proxy, server)
        self._down = Line(proxy, client)
        self._lock = threading.Lock()
        self._faults = {}
        self._held = {}
        self._released = set()
        self._decoder = hpack.Decoder()
        self._decoder.max_allowed_table_size = 1 << 20
        for sock in (client, server):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self):
        for work in [self._read_requests, self._read_answers, self._up.run, self._down.run]:
            threading.Thread(target=self._run, args=(work,), daemon=True).start()

    def _run(self, work):
        """Ends the connection with the first thread that ends.

        What a peer sent before it closed the connection is still written.
        """
        try:
            work()
        except EOFError:
            line = self._up if work == self._read_requests else self._down
            line.end()
            return
        except (OSError, Cut):
            pass
        self._proxy.forget(self)
        self.close()

    def close(self):
        self._up.end()
        self._down.end()
        _reset(self._client)
        _reset(self._server)

    def _read_requests(self):
        self._up.put(frames.read_exactly(self._client, len(frames.PREFACE)))
        while True:
            frame = frames.read_frame(self._client)
            if frame.kind == frames.SETTINGS and not frame.flags & frames.ACK:
                frame = frames.without_table(frame)
            elif frame.kind == frames.HEADERS:
                frame = self._open_stream(frame)
            elif self._action(frame.stream) == "answer":
                continue
            if frame is not None:
                self._up.put(frame.encode())

    def _open_stream(self, frame):
        """Returns the HEADERS of a call without a dynamic table; None to answer it here."""
        block = frames.header_block(frame)
        flags = frame.flags
        while not flags & frames.END_HEADERS:
            more = frames.read_frame(self._client)
            block += more.payload
            flags |= more.flags & frames.END_HEADERS
        headers = self._decoder.decode(block, raw=True)
        names = {name.decode(): value.decode("latin-1") for name, value in headers}
        rpc = names.get(":path", "").rsplit("/", 1)[-1]
        self._proxy.headers.append((rpc, names))
        fault = self._proxy.take(rpc)
        if fault is not None:
            self._faults[frame.stream] = fault
            if fault.action in ("cut_request", "answer"):
                fault.fired.set()
            if fault.action == "cut_request":
                raise Cut
            if fault.action == "answer":
                for answer in frames.answer(frame.stream, **fault.options):
                    self._down.put(answer.encode())
                return None
        flags &= frames.END_STREAM | frames.END_HEADERS
        return frames.Frame(frames.HEADERS, flags, frame.stream, frames.encode_headers(headers))

    def _action(self, stream: int) -> str:
        fault = self._faults.get(stream) if stream else None
        return fault.action if fault else ""

    def _read_answers(self):
        while True:
            frame = frames.read_frame(self._server)
            answers = frame.kind in (frames.DATA, frames.HEADERS, frames.CONTINUATION)
            if not (answers and self._meet(self._faults.get(frame.stream), frame)):
                self._down.put(frame.encode())

    def _meet(self, fault, frame) -> bool:
        """Applies the fault to an answer; false if the frame is passed on."""
        if fault is None:
            return False
        if fault.action == "cut_reply":
            if fault.options["before"]:
                fault.options["before"]()
            fault.fired.set()
            raise Cut
        if fault.action == "lose":
            fault.fired.set()
            return True
        return fault.action == "hold" and self._hold(fault, frame)

    def _hold(self, fault, frame) -> bool:
        """Keeps a frame until the time of its fault; false if that has passed."""
        with self._lock:
            if frame.stream in self._released:
                return False
            first = frame.stream not in self._held
            self._held.setdefault(frame.stream, []).append(frame)
        if first:
            timer = threading.Timer(fault.options["seconds"], self._release, [frame.stream])
            timer.daemon = True
            timer.start()
            fault.fired.set()
        return True

    def _release(self, stream: int):
        with self._lock:
            self._released.add(stream)
            for frame in self._held.pop(stream):
                self._down.put(frame.encode())


def _reset(sock):
    """Closes a connection with a reset, so that the peer notices immediately."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    sock.close()
