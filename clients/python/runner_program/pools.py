"""Commands of connections, pools and workers."""

from __future__ import annotations

import asyncio

from runner_program.state import (
    Answer,
    Commands,
    Fields,
    State,
    close_connection,
    given,
    open_connection,
    seconds,
    token,
)
from tollgate import (
    AlreadyCompleted,
    Full,
    NoTask,
    Outcome,
    Paused,
    PoolStatus,
    QueuedTask,
    Refusal,
)
from tollgate.aio import Permit, Worker

OUTCOMES = {
    Full: "FULL",
    Paused: "PAUSED",
    AlreadyCompleted: "ALREADY_COMPLETED",
    NoTask: "NO_TASK",
}


def admission(answer: Permit | Refusal) -> Answer:
    if isinstance(answer, Refusal):
        return {"outcome": OUTCOMES[type(answer)], **seconds(answer.retry_after)}
    fields: Answer = {
        "outcome": "ADMITTED",
        "token": str(answer.token),
        "replayed": answer.replayed,
        "valid_for": answer.valid_for.total_seconds(),
    }
    if answer.dispatched is not None:
        task = answer.dispatched
        fields.update(task=task.task, payload=task.payload.decode(), attempt=task.attempt)
    return fields


async def admit(state: State, fields: Fields) -> Answer:
    pool = state.connection(fields).pool(fields["pool"])
    options = given(fields, "wait", "lease", keeper="keep")
    if fields["do"] == "poll":
        answer = await pool.poll(fields["device"], **options)
    else:
        answer = await pool.admit(fields["device"], fields["task"], **options)
    if isinstance(answer, Permit):
        state.keep(fields, answer)
        state.report_loss(fields, answer)
    return admission(answer)


async def permit(state: State, fields: Fields) -> Answer:
    lease = state.get(fields)
    return {
        "valid": lease.valid,
        "lost": lease.is_lost,
        "valid_for": lease.valid_for.total_seconds(),
        "token": str(lease.token),
    }


def outcome(fields: Fields) -> Fields:
    options: Fields = {"result": fields.get("result", "").encode()}
    if "outcome" in fields:
        options["outcome"] = Outcome[fields["outcome"]]
    return options


async def complete(state: State, fields: Fields) -> Answer:
    verdict = await state.get(fields).complete(**outcome(fields))
    return {"verdict": verdict.name}


class HandlerError(Exception):
    pass


async def leave(state: State, fields: Fields) -> Answer:
    """Leaves the scope of a permit or a lock."""
    lease = state.get(fields)
    if not lease.valid:  # a scope that ended with the lease
        await lease.__aexit__(None, None, None)
        return {"delivered": False}
    failure = HandlerError()
    try:
        async with lease:
            if fields.get("failed", False):
                raise failure
    except HandlerError as error:
        return {"delivered": error is failure}
    return {"delivered": False}


async def complete_task(state: State, fields: Fields) -> Answer:
    verdict = await (
        state.connection(fields)
        .pool(fields["pool"])
        .complete(fields["device"], fields["task"], token=token(fields), **outcome(fields))
    )
    return {"verdict": verdict.name}


async def renew_task(state: State, fields: Fields) -> Answer:
    verdict, left = await (
        state.connection(fields)
        .pool(fields["pool"])
        .renew(fields["device"], fields["task"], token=token(fields), **given(fields, "lease"))
    )
    answer: Answer = {"verdict": verdict.name}
    if verdict.name == "RENEWED":
        answer["valid_for"] = left.total_seconds()
    return answer


async def enqueue(state: State, fields: Fields) -> Answer:
    tasks = [
        QueuedTask(t["device"], t["task"], t.get("payload", "").encode()) for t in fields["tasks"]
    ]
    statuses = await state.connection(fields).pool(fields["pool"]).enqueue(tasks)
    return {"statuses": [status.name for status in statuses]}


async def evict(state: State, fields: Fields) -> Answer:
    pool = state.connection(fields).pool(fields["pool"])
    verdict, replayed = await pool.evict(fields["device"], fields["task"])
    return {"verdict": verdict.name, "replayed": replayed}


async def cancel_task(state: State, fields: Fields) -> Answer:
    pool = state.connection(fields).pool(fields["pool"])
    verdict, replayed = await pool.cancel(fields["device"], fields["task"])
    return {"verdict": verdict.name, "replayed": replayed}


async def requeue_task(state: State, fields: Fields) -> Answer:
    pool = state.connection(fields).pool(fields["pool"])
    return {"verdict": (await pool.requeue(fields["device"], fields["task"])).name}


def pool_fields(status: PoolStatus) -> Answer:
    return {
        "capacity": status.usage.capacity,
        "in_use": status.usage.in_use,
        "available": status.usage.available,
        "paused": status.paused,
        "waiters": status.waiters,
        "queued": str(status.queued),
    }


async def pool_status(state: State, fields: Fields) -> Answer:
    return pool_fields(await state.connection(fields).pool(fields["pool"]).status())


async def configure(state: State, fields: Fields) -> Answer:
    options = given(fields, "capacity", "paused", "lease", "grace")
    pool = state.connection(fields).pool(fields["pool"])
    return pool_fields(await pool.configure(**options))


async def worker_start(state: State, fields: Fields) -> Answer:
    async def handle(permit: Permit) -> bytes | None:
        attempt = permit.dispatched.attempt if permit.dispatched else 0
        state.event("task", fields, task=permit.task, attempt=attempt)
        await asyncio.sleep(fields["work"])
        if fields.get("fail", False):
            raise HandlerError
        return None

    worker = Worker(
        state.connection(fields).pool(fields["pool"]),
        fields["device"],
        handle,
        idle=0.2,
        on_done=lambda permit, verdict: state.event(
            "done", fields, task=permit.task, verdict=verdict.name if verdict else ""
        ),
        **given(fields, "lease"),
    )
    state.keep(fields, (worker, asyncio.create_task(worker.run())))
    return {}


async def worker_stop(state: State, fields: Fields) -> Answer:
    worker, task = state.get(fields)
    worker.stop()
    return {"done": await task}


COMMANDS: Commands = {
    "open": open_connection,
    "close": close_connection,
    "admit": admit,
    "poll": admit,
    "permit": permit,
    "complete": complete,
    "leave": leave,
    "complete_task": complete_task,
    "renew_task": renew_task,
    "enqueue": enqueue,
    "evict": evict,
    "cancel_task": cancel_task,
    "requeue_task": requeue_task,
    "pool": pool_status,
    "configure": configure,
    "worker_start": worker_start,
    "worker_stop": worker_stop,
}
