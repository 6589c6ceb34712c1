"""The objects of the runner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from tollgate import Error, Tls
from tollgate._time import Clock
from tollgate.aio import Connection, LockLease, Permit

Fields = dict[str, Any]
Answer = dict[str, Any]


class State:
    def __init__(self, write: Callable[[Fields], None]) -> None:
        self.write = write
        self.clock = Clock()
        self.connections: dict[str, Connection] = {}
        self.objects: dict[str, Any] = {}
        self.closed_calls = 0

    def connection(self, fields: Fields) -> Connection:
        return self.connections[fields.get("connection", "main")]

    def keep(self, fields: Fields, value: Any) -> None:
        self.objects[fields["handle"]] = value

    def get(self, fields: Fields) -> Any:
        return self.objects[fields["handle"]]

    def event(self, name: str, fields: Fields, **more: Any) -> None:
        self.write({"event": name, "handle": fields["handle"], **more})

    def report_loss(self, fields: Fields, lease: Permit | LockLease) -> None:
        lease.on_lost(lambda: self.event("lost", fields))


Command = Callable[[State, Fields], Awaitable[Answer]]
Commands = dict[str, Command]


def given(fields: Fields, *names: str, **renamed: str) -> Fields:
    """Returns the optional fields that are present, under the names of the library."""
    found = {name: fields[name] for name in names if name in fields}
    found.update({to: fields[name] for name, to in renamed.items() if name in fields})
    return found


def token(fields: Fields) -> int | None:
    return int(fields["token"]) if "token" in fields else None


def seconds(span: timedelta | None) -> Fields:
    return {} if span is None else {"retry_after": span.total_seconds()}


def plain_error(code: str, message: str) -> Fields:
    return {"code": code, "reason": "", "violations": [], "message": message}


def error_fields(error: Error) -> Fields:
    fields: Fields = {
        "code": error.code.name,
        "reason": error.reason,
        "violations": [{"field": v.field, "description": v.description} for v in error.violations],
        "message": error.message,
    }
    if error.retry_after is not None:
        fields["retry_after"] = error.retry_after.total_seconds()
    return fields


async def open_connection(state: State, fields: Fields) -> Answer:
    options = given(fields, "token", "token_file", "namespace", "deadline")
    if "ca" in fields:
        options["tls"] = Tls(**given(fields, "ca", "cert", "key", "server_name"))
    if "token_callback" in fields:
        path = Path(fields["token_callback"])
        options["token"] = lambda: path.read_text().strip()
    connection = Connection(fields["addresses"], clock=state.clock, **options)
    state.connections[fields.get("connection", "main")] = connection
    return {}


async def close_connection(state: State, fields: Fields) -> Answer:
    connection = state.connections.pop(fields.get("connection", "main"))
    state.closed_calls += connection.calls
    await connection.close()
    return {}
