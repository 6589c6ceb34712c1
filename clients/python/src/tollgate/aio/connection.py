"""The connection: one object for all tasks of an event loop."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from tollgate import _methods as methods
from tollgate._build import build
from tollgate._time import Clock, Span, to_seconds
from tollgate.aio._caller import Caller
from tollgate.aio._credentials import Credentials, TokenFile
from tollgate.aio._keeper import Keeper
from tollgate.aio._lease import Raised, Trace
from tollgate.aio._transport import Transport
from tollgate.aio.bulk import AdmitItem, Bulk, CompleteItem, Renewal, RenewItem
from tollgate.aio.lock import Lock
from tollgate.aio.permit import Permit
from tollgate.aio.pool import Pool
from tollgate.aio.rate import OnFailure, RateLimiter
from tollgate.aio.sequence import Sequence as Values
from tollgate.aio.stock import StockItem
from tollgate.answers import PoolStatus, Refusal
from tollgate.enums import CompleteVerdict
from tollgate.errors import ArgumentError, Error
from tollgate.options import Retry, Tls, Token
from tollgate.rates import Rule
from tollgate.v1 import admission_pb2 as pb

if TYPE_CHECKING:
    from typing_extensions import Self


class Connection:
    """A connection to one or more servers. All tasks of its event loop share it.

    With several addresses, calls rotate over the servers. Servers that are unreachable or not
    serving are skipped. Waiting calls and watches use separate connections.
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
        """Creates the connection. It opens with the first call.

        `addresses` are `host:port`. `token` is a value, or a function that is called for each
        attempt. `token_file` is read again after a change. `namespace` is the namespace of
        all names, by default that of the caller. `deadline` is the deadline of each attempt,
        default 1 s; a waiting call adds its wait. `retry` bounds the retries. `clock` is for
        tests. Raises ArgumentError if an option is bad.
        """
        servers = [addresses] if isinstance(addresses, str) else list(addresses)
        if not servers:
            raise ArgumentError("addresses", expected="expected at least one host:port")
        if token is not None and token_file is not None:
            raise ArgumentError("token", expected="give token or token_file, not both")
        seconds = to_seconds(deadline, "deadline")
        if seconds <= 0:
            raise ArgumentError("deadline", expected="expected above 0")
        credentials = Credentials(
            token if token_file is None else TokenFile(token_file), namespace
        )
        self._clock = clock or Clock()
        self._keeper = Keeper(self._clock)
        self._caller = Caller(
            lambda: Transport(servers, tls), credentials, seconds, retry or Retry(), self._clock
        )

    @property
    def calls(self) -> int:
        """Number of requests sent, including retries and renewals."""
        return self._caller.sent

    def pool(self, name: str) -> Pool:
        """Returns a pool: one external system."""
        return Pool(name, self._caller, self._keeper)

    def rate(self, against: str | Rule, *, on_failure: OnFailure = "raise") -> RateLimiter:
        """Returns a limiter for a policy by name, or for a rule.

        `on_failure` decides if a check fails: "raise" raises the error, "open" lets the call
        pass, "closed" refuses it.
        """
        return RateLimiter(against, on_failure, self._caller)

    def sequence(self, name: str) -> Values:
        """Returns a sequence of values that never repeat."""
        return Values(name, self._caller)

    def lock(self, name: str) -> Lock:
        """Returns a lock."""
        return Lock(name, self._caller, self._keeper)

    def stock(self, sku: str) -> StockItem:
        """Returns the stock of a sku."""
        return StockItem(sku, self._caller, self._clock)

    async def pools(self) -> AsyncIterator[PoolStatus]:
        """Lists the pools that hold leases or run-time settings."""
        page = ""
        while True:
            request = build(pb.ListPoolsRequest, page_size=1000, page_token=page)
            answer = await self._caller.call(methods.LIST_POOLS, request)
            for pool in answer.pools:
                yield PoolStatus.of(pool)
            page = answer.next_page_token
            if not page:
                return

    async def admit_many(
        self, items: Sequence[AdmitItem], *, keep: bool = True
    ) -> list[Permit | Refusal | Error]:
        """Admits several tasks, at most 1,000 in a call. Each item is decided by itself.

        Returns a permit, a refusal or an error for each item. Raises Error if every call
        fails. The whole list is safe to repeat.
        """
        return await Bulk(self._caller, self._keeper).admit(items, keep)

    async def complete_many(self, items: Sequence[CompleteItem]) -> list[CompleteVerdict | Error]:
        """Reports several results. Returns a verdict or an error for each item."""
        return await Bulk(self._caller, self._keeper).complete(items)

    async def renew_many(self, items: Sequence[RenewItem]) -> list[Renewal | Error]:
        """Extends several leases. Returns a renewal or an error for each item."""
        return await Bulk(self._caller, self._keeper).renew(items)

    async def close(self) -> None:
        """Closes the connection: running calls fail, and held leases are lost.

        At the server the leases end at their expiry.
        """
        try:
            await self._caller.close()
        finally:
            await self._keeper.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: Raised, error: BaseException | None, trace: Trace) -> None:
        await self.close()
