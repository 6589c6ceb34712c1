"""A permit of the blocking API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tollgate import aio
from tollgate.aio._lease import Raised, Trace
from tollgate.answers import DispatchedTask, Usage
from tollgate.blocking._lease import BlockingLease
from tollgate.blocking._loop import run
from tollgate.enums import CompleteVerdict, Outcome

if TYPE_CHECKING:
    from typing_extensions import Self


class Permit(BlockingLease[aio.Permit]):
    """The right of a task to use the external system until its lease ends.

    A keeper renews the lease at a third of its length. A loss sets the event `lost`; it does
    not stop the thread, so call `check` before each step:

        with permit:
            for part in parts:
                permit.check()
                send(part, permit.token)
            permit.complete(result=b"done")

    A scope that ends with an error completes the task as FAILED. A scope that ends without a
    result stops the keeper, and the lease ends at its expiry.
    """

    @property
    def pool(self) -> str:
        """The pool."""
        return self._inner.pool

    @property
    def device(self) -> str:
        """The device."""
        return self._inner.device

    @property
    def task(self) -> str:
        """The task."""
        return self._inner.task

    @property
    def replayed(self) -> bool:
        """Whether an earlier call was granted this lease."""
        return self._inner.replayed

    @property
    def usage(self) -> Usage:
        """Usage of the pool at the admission."""
        return self._inner.usage

    @property
    def dispatched(self) -> DispatchedTask | None:
        """The queued task with its payload; None if the task was not queued."""
        return self._inner.dispatched

    @property
    def verdict(self) -> CompleteVerdict | None:
        """The answer to `complete`; None before."""
        return self._inner.verdict

    def complete(
        self, outcome: Outcome = Outcome.SUCCEEDED, result: bytes = b""
    ) -> CompleteVerdict:
        """Reports the result, and repeats the call until its verdict is known.

        As `tollgate.aio.Permit.complete`.
        """
        return run(self._inner.complete(outcome, result))

    def close(self) -> None:
        """Stops the keeper without a result. The lease ends at its expiry."""
        run(self._inner.close())

    def __enter__(self) -> Self:
        """Starts the scope. Raises LeaseLost if the lease has ended."""
        self.check()
        return self

    def __exit__(self, kind: Raised, error: BaseException | None, trace: Trace) -> None:
        """Ends the scope; completes the task as FAILED after an error."""
        run(self._inner.leave(error))
