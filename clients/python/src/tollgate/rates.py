"""Answers, rules and events of rates, as values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from tollgate._time import Span, to_datetime, to_duration
from tollgate.enums import Algorithm, RateEventKind, RateVerdict, TierAction
from tollgate.v1 import rate_pb2 as pb


@dataclass(frozen=True, slots=True)
class Limit:
    """A maximum number of calls in a window."""

    max: int
    """Number of calls that may pass in a window: 0 to 1,000,000,000."""
    window: Span
    """Length of the window: 1 ms to 30 days."""
    name: str = ""
    """Name of the limit; may be empty if the rule has one limit."""
    algorithm: Algorithm = Algorithm.SLIDING_WINDOW
    """How the limit counts."""
    burst: int | None = None
    """TOKEN_BUCKET only: number of calls that may pass at once. Default: max."""


@dataclass(frozen=True, slots=True)
class Tier:
    """A tier on the first limit of a rule."""

    above: int
    """The tier applies from the first call beyond this count."""
    action: TierAction
    """The action of the tier."""
    ban_durations: tuple[Span, ...] = ()
    """BAN only: lengths of the first ban, of the second, and so on."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Limits in the call itself, instead of a configured policy."""

    limits: tuple[Limit, ...]
    """1 to 8 limits, decided in one step."""
    tiers: tuple[Tier, ...] = ()
    """0 to 8 tiers on the first limit."""
    utc_offset: Span | None = None
    """Offset of calendar windows from UTC. Default: 0."""
    ban_memory: Span | None = None
    """Time after a ban in which the next one counts as a further strike. Default: 24 h."""

    def message(self) -> pb.Rule:
        """Returns the message."""
        limits = [
            pb.Limit(
                name=limit.name,
                max=limit.max,
                window=to_duration(limit.window, "window"),
                algorithm=f"ALGORITHM_{limit.algorithm.name}",
                burst=limit.burst,
            )
            for limit in self.limits
        ]
        tiers = [
            pb.Tier(
                above=tier.above,
                action=f"TIER_ACTION_{tier.action.name}",
                ban_durations=[
                    each
                    for length in tier.ban_durations
                    if (each := to_duration(length, "ban_durations")) is not None
                ],
            )
            for tier in self.tiers
        ]
        return pb.Rule(
            limits=limits,
            tiers=tiers,
            utc_offset=to_duration(self.utc_offset, "utc_offset"),
            ban_memory=to_duration(self.ban_memory, "ban_memory"),
        )


@dataclass(frozen=True, slots=True)
class LimitUsage:
    """Usage of a limit."""

    name: str
    """The limit."""
    max: int
    """Maximum under the current rule; burst of a token bucket."""
    count: int
    """Calls counted."""
    remaining: int
    """max minus count, at least 0."""
    reset_after: timedelta
    """Time until all usage is given back if the key makes no call."""
    window: timedelta
    """Length of the window."""
    refused: bool
    """Whether this limit refused the call."""


@dataclass(frozen=True, slots=True)
class Ban:
    """A running ban."""

    key: str
    """The banned key."""
    until: datetime
    """When it ends, on the engine's clock."""
    reason: str
    """The reason."""
    strikes: int
    """Number of bans of the key with this one, each within `ban_memory` of the one before."""
    actor: str
    """The person or program that set it; empty for a ban by a rule."""

    @staticmethod
    def of(ban: pb.Ban) -> Ban:
        """Reads the message."""
        return Ban(ban.key, to_datetime(ban.until), ban.reason, ban.strikes, ban.actor)


@dataclass(frozen=True, slots=True)
class RateAnswer:
    """Whether a call may pass."""

    allowed: bool
    """Whether the call may pass."""
    verdict: RateVerdict = RateVerdict.UNSPECIFIED
    """The answer; UNSPECIFIED if `on_failure` decided."""
    limits: tuple[LimitUsage, ...] = ()
    """Usage of the limits, including this call; empty if `on_failure` decided."""
    crossed: bool = False
    """True on exactly one call per tier and window: send a notice now."""
    retry_after: timedelta | None = None
    """Time until the same call passes; None if it may pass."""
    ban: Ban | None = None
    """The running ban, on BAN."""
    replayed: bool = False
    """Whether an earlier call with this request id got this answer."""
    cached: bool = False
    """Whether the denial cache answered."""
    degraded: bool = False
    """Whether the server answered without its store, or `on_failure` decided."""
    error: str = ""
    """In `check_many` only: why this check could not be decided."""

    @staticmethod
    def of(answer: pb.CheckRateResponse) -> RateAnswer:
        """Reads the message."""
        return RateAnswer(
            allowed=answer.allowed,
            verdict=RateVerdict.of(answer.verdict),
            limits=tuple(_usage(limit) for limit in answer.limits),
            crossed=answer.crossed,
            retry_after=(
                answer.retry_after.ToTimedelta() if answer.HasField("retry_after") else None
            ),
            ban=Ban.of(answer.ban) if answer.HasField("ban") else None,
            replayed=answer.replayed,
            cached=answer.cached,
            degraded=answer.degraded,
            error=answer.error,
        )

    def headers(self) -> dict[str, str]:
        """Returns the headers `ratelimit`, `ratelimit-policy` and, on a refusal, `retry-after`.

        They follow draft-ietf-httpapi-ratelimit-headers. Times are whole seconds, rounded up.
        """
        headers: dict[str, str] = {}
        if self.limits:
            headers["ratelimit"] = ", ".join(
                f"{_name(u)};r={u.remaining};t={_seconds(u.reset_after)}" for u in self.limits
            )
            headers["ratelimit-policy"] = ", ".join(
                f"{_name(u)};q={u.max};w={_seconds(u.window)}" for u in self.limits
            )
        if not self.allowed:
            after = self.retry_after or timedelta(seconds=1)
            headers["retry-after"] = str(max(_seconds(after), 1))
        return headers


@dataclass(frozen=True, slots=True)
class KeyStatus:
    """A key under a policy."""

    limits: tuple[LimitUsage, ...]
    """Usage of the limits; `refused` is false in each."""
    ban: Ban | None
    """The running ban."""
    strikes: int
    """Number of bans of the key, each within `ban_memory` of the one before."""

    @staticmethod
    def of(answer: pb.GetKeyResponse) -> KeyStatus:
        """Reads the message."""
        return KeyStatus(
            limits=tuple(_usage(limit) for limit in answer.limits),
            ban=Ban.of(answer.ban) if answer.HasField("ban") else None,
            strikes=answer.strikes,
        )


def _usage(limit: pb.LimitUsage) -> LimitUsage:
    return LimitUsage(
        limit.name,
        limit.max,
        limit.count,
        limit.remaining,
        limit.reset_after.ToTimedelta(),
        limit.window.ToTimedelta(),
        limit.refused,
    )


def _seconds(span: timedelta) -> int:
    return math.ceil(span.total_seconds())


def _name(usage: LimitUsage) -> str:
    """Returns the name as a structured-field string, which is ASCII."""
    name = usage.name or "default"
    plain = "".join(c if " " <= c <= "~" else "?" for c in name)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


@dataclass(frozen=True, slots=True)
class RateEvent:
    """A notice about a key, a change of its ban, or a gap in the events."""

    cursor: str
    """The position after this event; empty for a gap that the library found."""
    kind: RateEventKind
    """What happened. GAP: events before this one are not known."""
    key: str = ""
    """The key; empty on GAP."""
    time: datetime | None = None
    """When it happened, on the engine's clock; None on GAP."""
    above: int | None = None
    """The `above` of the reached tier."""
    count: int = 0
    """The count on the first limit."""
    ban: Ban | None = None
    """The ban, on BANNED."""
    actor: str = ""
    """The person or program that lifted the ban, on UNBANNED."""

    @staticmethod
    def of(event: pb.RateEvent) -> RateEvent:
        """Reads the message."""
        return RateEvent(
            cursor=event.cursor,
            kind=RateEventKind.of(event.kind),
            key=event.key,
            time=to_datetime(event.event_time) if event.HasField("event_time") else None,
            above=event.above if event.HasField("above") else None,
            count=event.count,
            ban=Ban.of(event.ban) if event.HasField("ban") else None,
            actor=event.actor,
        )
