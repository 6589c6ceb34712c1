"""Commands of watches."""

from __future__ import annotations

import asyncio
import contextlib

from runner_program.state import Answer, Commands, Fields, State, given
from tollgate import Error


async def watch_pool(state: State, fields: Fields) -> Answer:
    async def follow() -> None:
        pool = state.connection(fields).pool(fields["pool"])
        async with pool.watch(**given(fields, "after")) as events:
            async for e in events:
                kind = e.kind.name
                device, task = e.device, e.task
                state.event("pool", fields, kind=kind, cursor=e.cursor, device=device, task=task)

    state.keep(fields, start(state, fields, follow()))
    return {}


async def watch_rates(state: State, fields: Fields) -> Answer:
    async def follow() -> None:
        limiter = state.connection(fields).rate(fields["policy"])
        async with limiter.watch(**given(fields, "after")) as events:
            async for e in events:
                state.event("rate", fields, kind=e.kind.name, cursor=e.cursor, key=e.key)

    state.keep(fields, start(state, fields, follow()))
    return {}


def start(state: State, fields: Fields, follow: object) -> asyncio.Task[None]:
    assert asyncio.iscoroutine(follow)  # noqa: S101

    async def run() -> None:
        try:
            await follow
        except Error as error:
            state.event("ended", fields, code=error.code.name)

    return asyncio.create_task(run())


async def watch_stop(state: State, fields: Fields) -> Answer:
    task = state.get(fields)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return {}


COMMANDS: Commands = {
    "watch_pool": watch_pool,
    "watch_rates": watch_rates,
    "watch_stop": watch_stop,
}
