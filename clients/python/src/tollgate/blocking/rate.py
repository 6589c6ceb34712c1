"""Rates of the blocking API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tollgate import aio
from tollgate._time import Span
from tollgate.blocking._loop import iterate, run
from tollgate.blocking.watch import Watch
from tollgate.errors import Error
from tollgate.rates import Ban, KeyStatus, RateAnswer, RateEvent


class RateLimiter:
    """Checks keys against a policy or a rule. Create it with `Connection.rate`."""

    def __init__(self, inner: aio.RateLimiter) -> None:
        self._inner = inner

    def check(
        self, key: str, *, cost: int | None = None, request_id: str | None = None
    ) -> RateAnswer:
        """Counts a call of a key. As `tollgate.aio.RateLimiter.check`."""
        return run(self._inner.check(key, cost=cost, request_id=request_id))

    def log(self, effect: str, error: Error) -> None:
        """Logs that a check was not decided, at most once in 10 s. For middlewares."""
        self._inner.log(effect, error)

    def check_many(self, keys: Sequence[str], *, cost: int | None = None) -> list[RateAnswer]:
        """Checks 1 to 100 keys in one call, independently and in order."""
        return run(self._inner.check_many(keys, cost=cost))

    def reset(self, key: str) -> bool:
        """Clears the usage of a key; a ban stays. Returns whether it had usage."""
        return run(self._inner.reset(key))

    def ban(self, key: str, duration: Span, *, reason: str = "") -> Ban:
        """Bans a key from now on, for 1 ms to 30 days."""
        return run(self._inner.ban(key, duration, reason=reason))

    def unban(self, key: str) -> bool:
        """Lifts the ban of a key; clears its strikes and usage. Returns whether it was banned."""
        return run(self._inner.unban(key))

    def key(self, key: str) -> KeyStatus:
        """Returns the usage, the ban and the strikes of a key. Counts no call."""
        return run(self._inner.key(key))

    def bans(self) -> Iterator[Ban]:
        """Lists the running bans, the earliest end first."""
        return iterate(self._inner.bans())

    def watch(self, *, after: str | None = None) -> Watch[RateEvent]:
        """Iterates over the events of the policy. As `tollgate.aio.RateLimiter.watch`."""
        return Watch(self._inner.watch(after=after))
