"""Commands of locks."""

from __future__ import annotations

from runner_program.pools import leave, permit
from runner_program.state import Answer, Commands, Fields, State, given, seconds
from tollgate import Held


async def lock(state: State, fields: Fields) -> Answer:
    options = given(fields, "owner", "wait", "lease", keeper="keep")
    answer = await state.connection(fields).lock(fields["name"]).acquire(**options)
    if isinstance(answer, Held):
        return {"outcome": "HELD", "holder": answer.holder, **seconds(answer.retry_after)}
    state.keep(fields, answer)
    state.report_loss(fields, answer)
    return {
        "outcome": "ACQUIRED",
        "token": str(answer.token),
        "replayed": answer.replayed,
        "valid_for": answer.valid_for.total_seconds(),
    }


async def unlock(state: State, fields: Fields) -> Answer:
    return {"outcome": (await state.get(fields).release()).name}


COMMANDS: Commands = {
    "lock": lock,
    "lock_state": permit,
    "unlock": unlock,
    "leave_lock": leave,
}
