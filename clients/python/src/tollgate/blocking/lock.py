"""Locks of the blocking API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tollgate import aio
from tollgate._time import Span
from tollgate.aio._lease import Raised, Trace
from tollgate.answers import Held
from tollgate.blocking._lease import BlockingLease
from tollgate.blocking._loop import run
from tollgate.enums import ReleaseLockOutcome

if TYPE_CHECKING:
    from typing_extensions import Self


class LockLease(BlockingLease[aio.LockLease]):
    """A lock that this process holds; leaving the scope releases it.

    A loss sets the event `lost`; it does not stop the thread, so call `check` before each
    step. Pass `token` to the storage that the lock guards.
    """

    @property
    def name(self) -> str:
        """The lock."""
        return self._inner.name

    @property
    def owner(self) -> str:
        """Its owner."""
        return self._inner.owner

    @property
    def replayed(self) -> bool:
        """Whether an earlier call was granted this lease."""
        return self._inner.replayed

    def release(self) -> ReleaseLockOutcome:
        """Frees the lock, and repeats the call until its outcome is known.

        Returns NOT_HELD if the lease had ended.
        """
        return run(self._inner.release())

    def __enter__(self) -> Self:
        """Starts the scope. Raises LeaseLost if the lease has ended."""
        self.check()
        return self

    def __exit__(self, kind: Raised, error: BaseException | None, trace: Trace) -> None:
        """Releases the lock."""
        run(self._inner.leave())


class Lock:
    """A lock. Create it with `Connection.lock`."""

    def __init__(self, inner: aio.Lock) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        """The name of the lock."""
        return self._inner.name

    def acquire(
        self,
        *,
        owner: str | None = None,
        wait: Span = 0,
        lease: Span | None = None,
        keep: bool = True,
    ) -> LockLease | Held:
        """Acquires the lock, waiting for it up to `wait`. As `tollgate.aio.Lock.acquire`."""

        async def acquire() -> LockLease | Held:
            answer = await self._inner.acquire(owner=owner, wait=wait, lease=lease, keep=keep)
            return answer if isinstance(answer, Held) else LockLease(answer)

        return run(acquire())

    def holder(self) -> str | None:
        """Returns the owner that holds the lock; None if it is free."""
        return run(self._inner.holder())
