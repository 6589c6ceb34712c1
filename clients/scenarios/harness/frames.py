"""The frames of HTTP/2, as far as the fault proxy needs them."""

import base64
import struct
from dataclasses import dataclass

import hpack
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, CONTINUATION = 0, 1, 3, 4, 9
END_STREAM, END_HEADERS, PADDED, PRIORITY, ACK = 1, 4, 8, 32, 1
HEADER_TABLE_SIZE = 1


@dataclass
class Frame:
    kind: int
    flags: int
    stream: int
    payload: bytes

    def encode(self) -> bytes:
        head = struct.pack(">I", len(self.payload))[1:] + bytes([self.kind, self.flags])
        return head + struct.pack(">I", self.stream) + self.payload


def read_exactly(sock, size: int) -> bytes:
    """Reads bytes; raises EOFError at the end of the connection."""
    parts = bytearray()
    while len(parts) < size:
        part = sock.recv(size - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def read_frame(sock) -> Frame:
    head = read_exactly(sock, 9)
    size = int.from_bytes(head[:3], "big")
    stream = int.from_bytes(head[5:], "big") & 0x7FFFFFFF
    return Frame(head[3], head[4], stream, read_exactly(sock, size))


def header_block(frame: Frame) -> bytes:
    """Returns the header block of HEADERS without padding and priority."""
    payload = frame.payload
    if frame.flags & PADDED:
        payload = payload[1:len(payload) - payload[0]]
    return payload[5:] if frame.flags & PRIORITY else payload


def without_table(frame: Frame) -> Frame:
    """Returns the SETTINGS of a client that asks for answers without a dynamic table.

    So the answer of one call can be left out without harm to those of others.
    """
    pairs = [frame.payload[i:i + 6] for i in range(0, len(frame.payload), 6)]
    kept = [pair for pair in pairs if int.from_bytes(pair[:2], "big") != HEADER_TABLE_SIZE]
    payload = struct.pack(">HI", HEADER_TABLE_SIZE, 0) + b"".join(kept)
    return Frame(SETTINGS, frame.flags, 0, payload)


def encode_headers(headers) -> bytes:
    """Encodes headers without a dynamic table, so that each block stands alone."""
    encoder = hpack.Encoder()
    return b"".join(encoder.add((_bytes(name), _bytes(value)), sensitive=True)
                    for name, value in headers)


def _bytes(value) -> bytes:
    return value.encode() if isinstance(value, str) else value


def answer(stream: int, message=None, **status) -> list[Frame]:
    """Returns the answer of a server: a message, or else an error."""
    if message is None:
        return [_error(stream, **status)]
    body = message.SerializeToString()
    head = encode_headers([(":status", "200"), ("content-type", "application/grpc")])
    return [
        Frame(HEADERS, END_HEADERS, stream, head),
        Frame(DATA, 0, stream, struct.pack(">BI", 0, len(body)) + body),
        Frame(HEADERS, END_STREAM | END_HEADERS, stream, encode_headers([("grpc-status", "0")])),
    ]


def _error(stream: int, code: int, retry_after: float | None, reason: str) -> Frame:
    """Returns the answer of a server that refuses a call with a status."""
    status = status_pb2.Status(code=code, message="an answer of the fault proxy")
    if retry_after is not None:
        delay = duration_pb2.Duration()
        delay.FromNanoseconds(int(retry_after * 1e9))
        status.details.append(_pack(error_details_pb2.RetryInfo(retry_delay=delay)))
    info = error_details_pb2.ErrorInfo(domain="tollgate", reason=reason)
    status.details.append(_pack(info))
    details = base64.b64encode(status.SerializeToString()).decode().rstrip("=")
    block = encode_headers([
        (":status", "200"), ("content-type", "application/grpc"), ("grpc-status", str(code)),
        ("grpc-message", status.message.replace(" ", "%20")),
        ("grpc-status-details-bin", details),
    ])
    return Frame(HEADERS, END_STREAM | END_HEADERS, stream, block)


def _pack(message):
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed
