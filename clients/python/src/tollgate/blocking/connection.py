"""The connection of the blocking API."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tollgate import aio
from tollgate._time import Clock, Span
from tollgate.aio._lease import Raised, Trace
from tollgate.answers import PoolStatus, Refusal
from tollgate.blocking._loop import iterate, run
from tollgate.blocking.lock import Lock
from tollgate.blocking.permit import Permit
from tollgate.blocking.pool import Pool, wrap
from tollgate.blocking.rate import RateLimiter
from tollgate.blocking.sequence import Sequence as Values
from tollgate.blocking.stock import StockItem
from tollgate.enums import CompleteVerdict
from tollgate.errors import Error
from tollgate.options import Retry, Tls, Token
from tollgate.rates import Rule

if TYPE_CHECKING:
    from typing_extensions import Self


class Connection:
    """A connection to one or more servers. All threads of a process share it.

    Its calls run on one background thread. A process that was forked after
    a connection had been opened cannot make calls: they raise RuntimeError.
    """

    def __init__(
        self,
        addresses: str | Sequence[str],
        *,
        tls: Tls | None = None,
        token: Token | None = None,
        token_file: str | os.PathLike[str] | None = None,
        namespace: str | None = None,
        deadline: Span = 1.0,
        retry: Retry | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Creates the connection. Options as in `tollgate.aio.Connection`."""
        self._inner = aio.Connection(
            addresses,
            tls=tls,
            token=token,
            token_file=token_file,
            namespace=namespace,
            deadline=deadline,
            retry=retry,
            clock=clock,
        )

    @property
    def calls(self) -> int:
        """Number of requests sent, including retries and renewals."""
        return self._inner.calls

    def pool(self, name: str) -> Pool:
        """Returns a pool: one external system."""
        return Pool(self._inner.pool(name))

    def rate(self, against: str | Rule, *, on_failure: aio.OnFailure = "raise") -> RateLimiter:
        """Returns a limiter. As `tollgate.aio.Connection.rate`."""
        return RateLimiter(self._inner.rate(against, on_failure=on_failure))

    def sequence(self, name: str) -> Values:
        """Returns a sequence of values that never repeat."""
        return Values(self._inner.sequence(name))

    def lock(self, name: str) -> Lock:
        """Returns a lock."""
        return Lock(self._inner.lock(name))

    def stock(self, sku: str) -> StockItem:
        """Returns the stock of a sku."""
        return StockItem(self._inner.stock(sku))

    def pools(self) -> Iterator[PoolStatus]:
        """Lists the pools that hold leases or run-time settings."""
        return iterate(self._inner.pools())

    def admit_many(
        self, items: Sequence[aio.AdmitItem], *, keep: bool = True
    ) -> list[Permit | Refusal | Error]:
        """Admits several tasks. As `tollgate.aio.Connection.admit_many`."""

        async def admit() -> list[Permit | Refusal | Error]:
            answers = await self._inner.admit_many(items, keep=keep)
            return [a if isinstance(a, Error) else wrap(a) for a in answers]

        return run(admit())

    def complete_many(self, items: Sequence[aio.CompleteItem]) -> list[CompleteVerdict | Error]:
        """Reports several results. Returns a verdict or an error for each item."""
        return run(self._inner.complete_many(items))

    def renew_many(self, items: Sequence[aio.RenewItem]) -> list[aio.Renewal | Error]:
        """Extends several leases. Returns a renewal or an error for each item."""
        return run(self._inner.renew_many(items))

    def close(self) -> None:
        """Closes the connection. As `tollgate.aio.Connection.close`."""
        run(self._inner.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Raised, error: BaseException | None, trace: Trace) -> None:
        self.close()
