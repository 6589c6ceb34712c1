"""Commands of rates and sequences, and the web server."""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from runner_program.state import Answer, Commands, Fields, State, given, seconds
from tollgate import address_key
from tollgate.aio import RateLimiter
from tollgate.middleware import RateLimitMiddleware


def limiter(state: State, fields: Fields) -> RateLimiter:
    on_failure = fields.get("on_failure", "raise")
    return state.connection(fields).rate(fields["policy"], on_failure=on_failure)


async def check(state: State, fields: Fields) -> Answer:
    options = given(fields, "cost", "request_id")
    answer = await limiter(state, fields).check(fields["key"], **options)
    verdict = answer.verdict.name
    return {
        "allowed": answer.allowed,
        "verdict": "" if verdict == "UNSPECIFIED" else verdict,
        "replayed": answer.replayed,
        "degraded": answer.degraded,
        "headers": answer.headers(),
        **seconds(answer.retry_after),
    }


async def get_key(state: State, fields: Fields) -> Answer:
    key = await limiter(state, fields).key(fields["key"])
    limits = [
        {
            "name": limit.name,
            "max": str(limit.max),
            "count": str(limit.count),
            "remaining": str(limit.remaining),
        }
        for limit in key.limits
    ]
    return {"limits": limits, "banned": key.ban is not None, "strikes": key.strikes}


async def key_of_address(state: State, fields: Fields) -> Answer:
    return {"key": address_key(fields["address"], **given(fields, prefix="ipv6_prefix"))}


def caller_key(scope: Any) -> str | None:
    headers = dict(scope["headers"])
    key = headers.get(b"x-caller")
    return None if key is None else key.decode()


async def http_start(state: State, fields: Fields) -> Answer:
    async def hello(request: Request) -> PlainTextResponse:
        return PlainTextResponse("hello\n")

    app = Starlette(routes=[Route("/", hello)])
    app.add_middleware(RateLimitMiddleware, limiter=limiter(state, fields), key=caller_key)
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="off")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    state.keep(fields, (server, task))
    return {"url": f"http://127.0.0.1:{port}/"}


async def http_stop(state: State, fields: Fields) -> Answer:
    server, task = state.get(fields)
    server.should_exit = True
    await task
    return {}


async def next_values(state: State, fields: Fields) -> Answer:
    options = given(fields, "count", "step", "floor", "request_id")
    for name in ("step", "floor"):
        if name in options:
            options[name] = int(options[name])
    block = await state.connection(fields).sequence(fields["name"]).next(**options)
    return {
        "first": str(block.first),
        "last": str(block.last),
        "step": str(block.step),
        "serials": list(block.serials),
        "replayed": block.replayed,
    }


async def set_floor(state: State, fields: Fields) -> Answer:
    sequence = state.connection(fields).sequence(fields["name"])
    return {"applied": await sequence.set_floor(int(fields["floor"]))}


async def allocator(state: State, fields: Fields) -> Answer:
    sequence = state.connection(fields).sequence(fields["name"])
    state.keep(fields, sequence.allocator(int(fields["block"])))
    return {}


async def allocate(state: State, fields: Fields) -> Answer:
    value = await state.get(fields).next()
    answer: Answer = {"value": str(value.number)}
    if value.serial is not None:
        answer["serial"] = value.serial
    return answer


COMMANDS: Commands = {
    "address_key": key_of_address,
    "check": check,
    "get_key": get_key,
    "http_start": http_start,
    "http_stop": http_stop,
    "next": next_values,
    "set_floor": set_floor,
    "allocator": allocator,
    "allocate": allocate,
}
