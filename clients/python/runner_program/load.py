"""Commands of many tasks, of the clock, and of the usage of the process."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
from pathlib import Path

from runner_program.pools import admission
from runner_program.state import Answer, Commands, Fields, State, error_fields, token
from tollgate import Error, Refusal
from tollgate.aio import AdmitItem, CompleteItem, Permit, RenewItem

PARALLEL = 100


async def hold(state: State, fields: Fields) -> Answer:
    pool = state.connection(fields).pool(fields["pool"])
    handle, lease = fields["handle"], fields["lease"]
    gate = asyncio.Semaphore(PARALLEL)

    async def admit(number: int) -> Permit | Refusal:
        async with gate:
            return await pool.admit(f"{handle}-{number}", f"task-{number}", lease=lease)

    answers = await asyncio.gather(*(admit(n) for n in range(fields["count"])))
    permits = [answer for answer in answers if isinstance(answer, Permit)]
    state.keep(fields, permits)
    return {"admitted": len(permits)}


async def held(state: State, fields: Fields) -> Answer:
    permits: list[Permit] = state.get(fields)
    return {
        "valid": sum(permit.valid for permit in permits),
        "lost": sum(permit.is_lost for permit in permits),
    }


async def release(state: State, fields: Fields) -> Answer:
    gate = asyncio.Semaphore(PARALLEL)

    async def complete(permit: Permit) -> bool:
        async with gate:
            return (await permit.complete()).name in ("COMPLETED", "ALREADY_COMPLETED")

    done = await asyncio.gather(*(complete(permit) for permit in state.get(fields)))
    state.objects.pop(fields["handle"])
    return {"completed": sum(done)}


async def pairs(state: State, fields: Fields) -> Answer:
    pool = state.connection(fields).pool(fields["pool"])
    numbers = iter(range(fields["count"]))

    async def work(device: str) -> int:
        completed = 0
        for number in numbers:
            answer = await pool.admit(device, f"pair-{number}")
            if isinstance(answer, Permit):
                async with answer:
                    verdict = await answer.complete()
                    completed += verdict.name in ("COMPLETED", "ALREADY_COMPLETED")
        return completed

    counts = await asyncio.gather(*(work(f"pair-{n}") for n in range(fields["parallel"])))
    return {"completed": sum(counts)}


async def clock(state: State, fields: Fields) -> Answer:
    state.clock.advance(fields["advance"])
    return {}


def resident_pages() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1])


async def usage(state: State, fields: Fields) -> Answer:
    gc.collect()
    times = resource.getrusage(resource.RUSAGE_SELF)
    pages = resident_pages()
    calls = sum(connection.calls for connection in state.connections.values())
    return {
        "cpu_seconds": times.ru_utime + times.ru_stime,
        "rss_bytes": pages * os.sysconf("SC_PAGE_SIZE"),
        "calls": calls + state.closed_calls,
    }


def item_error(error: Error) -> Answer:
    return {"error": error_fields(error)}


async def admit_many(state: State, fields: Fields) -> Answer:
    items = [AdmitItem(i["pool"], i["device"], i["task"], i.get("lease")) for i in fields["items"]]
    answers = await state.connection(fields).admit_many(items)
    return {"results": [item_error(a) if isinstance(a, Error) else admission(a) for a in answers]}


async def complete_many(state: State, fields: Fields) -> Answer:
    items = [CompleteItem(i["pool"], i["device"], i["task"], token(i)) for i in fields["items"]]
    answers = await state.connection(fields).complete_many(items)
    return {
        "results": [
            item_error(a) if isinstance(a, Error) else {"verdict": a.name} for a in answers
        ]
    }


async def renew_many(state: State, fields: Fields) -> Answer:
    items = [
        RenewItem(i["pool"], i["device"], i["task"], token(i), i.get("lease"))
        for i in fields["items"]
    ]
    answers = await state.connection(fields).renew_many(items)
    return {
        "results": [
            item_error(a) if isinstance(a, Error) else {"verdict": a.verdict.name} for a in answers
        ]
    }


COMMANDS: Commands = {
    "hold": hold,
    "held": held,
    "release": release,
    "pairs": pairs,
    "clock": clock,
    "usage": usage,
    "admit_many": admit_many,
    "complete_many": complete_many,
    "renew_many": renew_many,
}
