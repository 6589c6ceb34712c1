"""A permit: the lease of a task that this process runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tollgate import _methods as methods
from tollgate._build import build
from tollgate._time import to_duration
from tollgate.aio._caller import Caller
from tollgate.aio._keeper import Keeper
from tollgate.aio._lease import LocalLease, Raised, Trace
from tollgate.answers import DispatchedTask, Usage
from tollgate.enums import CompleteVerdict, Outcome, RenewVerdict
from tollgate.v1 import admission_pb2 as pb

if TYPE_CHECKING:
    from typing_extensions import Self


class Permit(LocalLease):
    """The right of a task to use the external system until its lease ends.

    A keeper renews the lease at a third of its length. If the lease is lost, the event
    `lost` is set and the task that runs the scope is cancelled:

        async with permit:
            result = await run(permit.token)
            await permit.complete(result=result)

    The scope then raises LeaseLost. A scope that ends with another error completes the task
    as FAILED. If no server answers, the scope ends after the deadline of one call, and the
    report continues in the background. A scope that ends without a result stops the keeper,
    and the lease ends at its expiry. A permit belongs to one event loop, whose tasks may
    share it.
    """

    __slots__ = (
        "_asked",
        "_duration",
        "_verdict",
        "device",
        "dispatched",
        "pool",
        "replayed",
        "task",
        "usage",
    )

    def __init__(
        self,
        caller: Caller,
        keeper: Keeper,
        answer: pb.AdmitTaskResponse,
        before: float,
        *,
        duration: float | None,
        keep: bool,
        asked: str,
    ) -> None:
        lease = answer.lease
        self.pool = lease.pool
        """The pool."""
        self.device = lease.device_id
        """The device."""
        self.task = lease.task_id
        """The task."""
        self.replayed = answer.replayed
        """Whether an earlier call was granted this lease."""
        self.usage = Usage.of(answer.usage)
        """Usage of the pool at the admission."""
        self.dispatched: DispatchedTask | None = None
        """The queued task with its payload; None if the task was not queued."""
        if answer.HasField("task"):
            task = answer.task
            self.dispatched = DispatchedTask(task.task_id, task.payload, task.attempt)
        self._duration = duration
        self._asked = asked  # the task of the request; empty for a queued one
        self._verdict: CompleteVerdict | None = None
        left = lease.expires_in.ToTimedelta().total_seconds()
        super().__init__(caller, keeper, lease.fencing_token, before, left, keep)

    @property
    def what(self) -> str:
        """The task with its pool and device, for messages."""
        return f"task {self.task} of {self.device} in pool {self.pool}"

    @property
    def verdict(self) -> CompleteVerdict | None:
        """The answer to `complete`; None before."""
        return self._verdict

    async def renew_once(self, deadline: float) -> float | str:
        """Sends a renewal. Returns the time left in seconds, or why the lease is lost."""
        request = build(
            pb.RenewTaskRequest,
            pool=self.pool,
            device_id=self.device,
            task_id=self.task,
            fencing_token=self.token,
            lease_duration=to_duration(self._duration, "lease_duration"),
        )
        caller = self._caller
        answer = await caller.once(
            methods.RENEW_TASK,
            request,
            caller.transport.pick(),
            deadline=min(caller.deadline, deadline),
        )
        if answer.verdict != pb.RENEW_VERDICT_RENEWED:
            return RenewVerdict.of(answer.verdict).name
        return answer.lease.expires_in.ToTimedelta().total_seconds()

    async def complete(
        self, outcome: Outcome = Outcome.SUCCEEDED, result: bytes = b""
    ) -> CompleteVerdict:
        """Reports the result, and repeats the call until its verdict is known.

        It can be called after the end of the lease: the verdict is then LATE or STALE_TOKEN.
        The result has 0 to 65,536 bytes. A second call returns the first verdict. Raises Error
        if a retry cannot help; the keeper then continues.
        """
        if self._verdict is not None:
            return self._verdict
        request = self._completion(outcome, result)
        held = self.valid
        self.stop()
        try:
            answer = await self._caller.until_known(methods.COMPLETE_TASK, request)
        except BaseException:
            if held and self._verdict is None:
                self.resume()
            raise
        return self._completed(answer)

    def _completion(self, outcome: Outcome, result: bytes) -> pb.CompleteTaskRequest:
        return build(
            pb.CompleteTaskRequest,
            pool=self.pool,
            device_id=self.device,
            task_id=self.task,
            fencing_token=self.token,
            outcome=f"OUTCOME_{outcome.name}",
            result=result,
        )

    def _completed(self, answer: pb.CompleteTaskResponse) -> CompleteVerdict:
        if self._verdict is None:  # else the answer to another call came first
            self._verdict = CompleteVerdict.of(answer.verdict)
        return self._verdict

    async def __aenter__(self) -> Self:
        """Starts the scope. Raises LeaseLost if the lease has ended."""
        self._enter()
        return self

    async def __aexit__(self, kind: Raised, error: BaseException | None, trace: Trace) -> None:
        """Ends the scope; completes the task as FAILED after an error."""
        self._leave(error)
        await self.leave(error)

    async def leave(self, error: BaseException | None) -> None:
        """Stops the keeper; completes the task as FAILED after an error.

        It takes at most the deadline of one call. Without an answer, the report continues in
        the background until the lease ends.
        """
        held = self.valid
        self.stop()
        if error is None or self._verdict is not None or not held:
            return
        request, caller = self._completion(Outcome.FAILED, b""), self._caller

        async def report() -> None:
            self._completed(
                await caller.once(methods.COMPLETE_TASK, request, caller.transport.pick())
            )

        key = ("task", self.pool, self.device, self._asked)
        await caller.claims.leave(key, self.expiry, report)

    async def close(self) -> None:
        """Stops the keeper without a result. The lease ends at its expiry."""
        self.stop()

    def __repr__(self) -> str:
        return f"<Permit {self.what}, token {self.token}, valid for {self.valid_for}>"
