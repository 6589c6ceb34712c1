from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tollgate import (
    Error,
    Limit,
    LimitUsage,
    RateAnswer,
    RateEventKind,
    RateVerdict,
    Retry,
    Rule,
    Tier,
    TierAction,
)
from tollgate.aio import Connection, OnFailure

NO_RETRY = Retry(attempts=1)


async def test_a_policy_refuses(any_connection: Connection, name: str) -> None:
    limiter = any_connection.rate("two")
    first = await limiter.check(name)
    assert (first.allowed, first.verdict) == (True, RateVerdict.ALLOW)
    assert first.headers() == {
        "ratelimit": '"minute";r=1;t=' + first.headers()["ratelimit"].split("t=")[1],
        "ratelimit-policy": '"minute";q=2;w=60',
    }
    looked = await limiter.check(name, cost=0)
    assert looked.limits[0].count == 1
    await limiter.check(name)
    third = await limiter.check(name)
    assert (third.allowed, third.verdict) == (False, RateVerdict.THROTTLE)
    assert third.retry_after is not None
    assert int(third.headers()["retry-after"]) >= 1
    assert third.limits[0].refused
    assert await limiter.reset(name)
    assert (await limiter.check(name)).allowed


async def test_a_request_id_spends_once(any_connection: Connection, name: str) -> None:
    limiter = any_connection.rate("two")
    for _ in range(3):
        answer = await limiter.check(name, request_id=f"id-{name}")
        assert answer.allowed
    assert answer.replayed
    assert answer.limits[0].count == 1


async def test_a_rule_in_the_call(any_connection: Connection, name: str) -> None:
    limits = (Limit(max=5, window=timedelta(minutes=1)),)
    tiers = (Tier(above=1, action=TierAction.WARN),)
    limiter = any_connection.rate(Rule(limits=limits, tiers=tiers))
    assert (await limiter.check(name)).verdict is RateVerdict.ALLOW
    warned = await limiter.check(name)
    assert (warned.verdict, warned.allowed, warned.crossed) == (RateVerdict.WARN, True, True)
    answers = await limiter.check_many([name, name, f"{name}-other"])
    assert [answer.limits[0].count for answer in answers] == [3, 4, 1]


async def test_bans_and_their_events(any_connection: Connection, name: str) -> None:
    limiter = any_connection.rate("warned")
    async with limiter.watch(after="0") as events:
        ban = await limiter.ban(name, 60, reason="test")
        assert (ban.key, ban.reason, ban.strikes) == (name, "test", 1)
        refused = await limiter.check(name)
        assert refused.verdict is RateVerdict.BAN
        assert refused.ban is not None
        assert name in [found.key async for found in limiter.bans()]
        status = await limiter.key(name)
        assert (status.ban, status.strikes) == (ban, 1)
        assert [(usage.count, usage.refused) for usage in status.limits] == [(0, False)]
        assert await limiter.unban(name)
        kinds = []
        async for event in events:
            if event.key == name:
                kinds.append(event.kind)
            if event.kind is RateEventKind.UNBANNED and event.key == name:
                break
    assert kinds == [RateEventKind.BANNED, RateEventKind.UNBANNED]


@pytest.mark.parametrize(("on_failure", "allowed"), [("open", True), ("closed", False)])
async def test_on_failure_decides(on_failure: OnFailure, allowed: bool) -> None:
    async with Connection("127.0.0.1:1", retry=NO_RETRY) as connection:
        answer = await connection.rate("two", on_failure=on_failure).check("k")
        assert (answer.allowed, answer.degraded) == (allowed, True)
        assert answer.verdict is RateVerdict.UNSPECIFIED
        assert ("retry-after" in answer.headers()) is not allowed


async def test_an_unknown_policy_stops_no_limiter_that_fails_open(
    connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    for on_failure in ("raise", "closed"):
        with pytest.raises(Error, match="POLICY_NOT_FOUND"):
            await connection.rate("unknown", on_failure=on_failure).check("k")
    assert not caplog.messages
    for _ in range(3):
        answer = await connection.rate("unknown", on_failure="open").check("k")
        assert answer.allowed
        assert answer.degraded
    [line] = caplog.messages
    assert "'unknown'" in line
    assert "POLICY_NOT_FOUND" in line
    assert "fail open" in line
    with pytest.raises(Error, match="INVALID_ARGUMENT"):
        await connection.rate("unknown", on_failure="open").check("")


def test_headers_of_several_limits_and_odd_names() -> None:
    def usage(name: str, remaining: int) -> LimitUsage:
        reset, window = timedelta(seconds=1.2), timedelta(milliseconds=500)
        return LimitUsage(name, 10, 10 - remaining, remaining, reset, window, False)

    answer = RateAnswer(allowed=True, limits=(usage("", 4), usage('a"b\\é', 0)))
    assert answer.headers() == {
        "ratelimit": '"default";r=4;t=2, "a\\"b\\\\?";r=0;t=2',
        "ratelimit-policy": '"default";q=10;w=1, "a\\"b\\\\?";q=10;w=1',
    }


async def test_checks_run_at_once(connection: Connection, name: str) -> None:
    limiter = connection.rate("many")
    answers = await asyncio.gather(*(limiter.check(name) for _ in range(300)))
    assert all(answer.allowed for answer in answers)
    assert max(answer.limits[0].count for answer in answers) <= 300
