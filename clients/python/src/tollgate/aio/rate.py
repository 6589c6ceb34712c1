"""Rates: limits, warnings and bans of keys."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Literal

import grpc

from tollgate import _methods as methods
from tollgate._build import build
from tollgate._time import Span, to_duration
from tollgate.aio._caller import Caller
from tollgate.aio.watch import RateWatch
from tollgate.errors import Error
from tollgate.rates import Ban, KeyStatus, RateAnswer, Rule
from tollgate.v1 import rate_pb2 as pb

OnFailure = Literal["raise", "open", "closed"]
"""What a limiter does if a check fails: "raise" the error, let the call pass, or refuse it."""

_OUTAGES = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.ABORTED,
)
"""Codes with which no server could decide."""


def _is_decided_by(on_failure: OnFailure, error: Error) -> bool:
    """Tells whether the limiter decides after an error.

    A mistake of the configuration, such as an unknown policy, must not stop a service that fails
    open. A bad request has a key that its caller chose, and so passes no limiter.
    """
    if on_failure == "open":
        return error.code is not grpc.StatusCode.INVALID_ARGUMENT
    return error.code in _OUTAGES


class RateLimiter:
    """Checks keys against a policy or a rule. Create it with `Connection.rate`."""

    def __init__(self, against: str | Rule, on_failure: OnFailure, caller: Caller) -> None:
        self.against = against
        """The name of the policy, or the rule."""
        self.on_failure: OnFailure = on_failure
        """What the limiter does if a check fails."""
        self._caller = caller

    def _request(self, key: str, cost: int | None, request_id: str) -> pb.CheckRateRequest:
        against = self.against
        return build(
            pb.CheckRateRequest,
            key=key,
            policy=against if isinstance(against, str) else None,
            rule=None if isinstance(against, str) else against.message(),
            cost=cost,
            request_id=request_id,
        )

    async def check(
        self, key: str, *, cost: int | None = None, request_id: str | None = None
    ) -> RateAnswer:
        """Counts a call of a key and returns whether it may pass.

        `cost` is 0 to 1,000,000,000, default 1; with 0 nothing is counted. `request_id`
        identifies the call: a repeat within 5 minutes counts nothing. Default: a generated
        one, which the retries of this call keep.

        If the check fails (no server, no store, overload), `on_failure` decides. Unless
        that is "raise", it also decides after one deadline, including the time in the queue, and
        logs that. "open" also decides after a mistake of the configuration, such as an unknown
        policy, which else raises Error. A bad key always raises Error.
        """
        generated = uuid.uuid4().hex if request_id is None and cost != 0 else ""
        request = self._request(key, cost, request_id or generated)
        call = self._caller.call(methods.CHECK_RATE, request)
        if self.on_failure == "raise":
            return RateAnswer.of(await call)
        try:
            return RateAnswer.of(await asyncio.wait_for(call, self._caller.deadline))
        except asyncio.TimeoutError:
            error = Error(grpc.StatusCode.DEADLINE_EXCEEDED, "no answer within the deadline")
        except Error as failure:
            if not _is_decided_by(self.on_failure, failure):
                raise
            error = failure
        allowed = self.on_failure == "open"
        self.log(
            f"the call {'passes (fail open)' if allowed else 'is refused (fail closed)'}", error
        )
        after = None if allowed else error.retry_after
        return RateAnswer(allowed=allowed, degraded=True, retry_after=after)

    def log(self, effect: str, error: Error) -> None:
        """Logs that a check was not decided, at most once in 10 s. For middlewares."""
        self._caller.checks.undecided(self._policy() or "a rule", effect, error)

    async def check_many(
        self, keys: Sequence[str], *, cost: int | None = None
    ) -> list[RateAnswer]:
        """Checks 1 to 100 keys in one call, independently and in order.

        `on_failure` does not apply: an answer with `error` was not decided.
        """
        checks = [self._request(key, cost, uuid.uuid4().hex) for key in keys]
        answer = await self._caller.call(
            methods.CHECK_RATES, build(pb.CheckRatesRequest, checks=checks)
        )
        return [RateAnswer.of(result) for result in answer.results]

    def _policy(self) -> str:
        return self.against if isinstance(self.against, str) else ""

    async def reset(self, key: str) -> bool:
        """Clears the usage of a key; a ban stays. Returns whether it had usage."""
        request = build(pb.ResetRateRequest, key=key, policy=self._policy())
        return (await self._caller.call(methods.RESET_RATE, request)).existed

    async def ban(self, key: str, duration: Span, *, reason: str = "") -> Ban:
        """Bans a key from now on, for 1 ms to 30 days."""
        request = build(
            pb.BanRequest,
            key=key,
            policy=self._policy(),
            duration=to_duration(duration, "duration"),
            reason=reason,
        )
        return Ban.of((await self._caller.call(methods.BAN, request)).ban)

    async def unban(self, key: str) -> bool:
        """Lifts the ban of a key; clears its strikes and usage. Returns whether it was banned."""
        request = build(pb.UnbanRequest, key=key, policy=self._policy())
        return (await self._caller.call(methods.UNBAN, request)).existed

    async def key(self, key: str) -> KeyStatus:
        """Returns the usage, the ban and the strikes of a key. Counts no call.

        For a policy only: the rules of calls have no name.
        """
        request = build(pb.GetKeyRequest, key=key, policy=self._policy())
        return KeyStatus.of(await self._caller.call(methods.GET_KEY, request))

    async def bans(self) -> AsyncIterator[Ban]:
        """Lists the running bans, the earliest end first."""
        page = ""
        while True:
            request = build(
                pb.ListBansRequest, policy=self._policy(), page_size=1000, page_token=page
            )
            answer = await self._caller.call(methods.LIST_BANS, request)
            for ban in answer.bans:
                yield Ban.of(ban)
            page = answer.next_page_token
            if not page:
                return

    def watch(self, *, after: str | None = None) -> RateWatch:
        """Iterates over the events of the policy.

        `after` is the cursor of an event; "0" starts with the oldest stored event. Default:
        new events only. Rules that are given in calls cause no events.
        """
        return RateWatch(self._policy(), after, self._caller)
