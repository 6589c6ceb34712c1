"""Several tasks in one call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from tollgate import _methods as methods
from tollgate._build import build
from tollgate._time import Span, to_duration, to_seconds
from tollgate.aio._caller import Caller
from tollgate.aio._keeper import Keeper
from tollgate.aio.permit import Permit
from tollgate.aio.pool import refusal
from tollgate.answers import Refusal
from tollgate.enums import CompleteVerdict, Outcome, RenewVerdict
from tollgate.errors import Error, Violation, code_of
from tollgate.v1 import admission_pb2 as pb

ITEMS = 1000
"""Maximum items of one call."""
_BYTES = 3_500_000


@dataclass(frozen=True, slots=True)
class AdmitItem:
    """A task to admit."""

    pool: str
    """The pool."""
    device: str
    """The device."""
    task: str
    """The task; empty for the oldest queued task of the device."""
    lease: Span | None = None
    """Length of the lease. Default: the pool's."""


@dataclass(frozen=True, slots=True)
class CompleteItem:
    """A result to report."""

    pool: str
    """The pool."""
    device: str
    """The device."""
    task: str
    """The task."""
    token: int | None = None
    """The token of the lease. Default: not compared."""
    outcome: Outcome = Outcome.SUCCEEDED
    """How the task went."""
    result: bytes = b""
    """The result, 0 to 65,536 bytes."""


@dataclass(frozen=True, slots=True)
class RenewItem:
    """A lease to extend."""

    pool: str
    """The pool."""
    device: str
    """The device."""
    task: str
    """The task."""
    token: int | None = None
    """The token of the lease. Default: not compared."""
    lease: Span | None = None
    """New length of the lease. Default: the pool's."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """The answer to a renewal."""

    verdict: RenewVerdict
    """The answer."""
    valid_for: timedelta
    """The time left from the moment before the call; 0 unless RENEWED."""


Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer")
Result = TypeVar("Result")


def _parts(requests: Sequence[Request]) -> list[list[Request]]:
    """Splits requests into calls of at most 1,000 items and below 4 MiB."""
    parts: list[list[Request]] = []
    size = 0
    for request in requests:
        own = request.ByteSize() + 8
        if not parts or len(parts[-1]) == ITEMS or size + own > _BYTES:
            parts.append([])
            size = 0
        parts[-1].append(request)
        size += own
    return parts


def _error(item: pb.ItemError) -> Error:
    return Error(
        code_of(item.code),
        item.message,
        reason=item.reason,
        violations=[Violation(v.field, v.description) for v in item.violations],
        retry_after=item.retry_after.ToTimedelta() if item.HasField("retry_after") else None,
    )


async def _in_parts(
    requests: Sequence[Request], send: Callable[[list[Request]], Awaitable[list[Answer | Error]]]
) -> list[Answer | Error]:
    """Sends the parts one by one. A part that fails has its error for each of its items.

    Raises the error if every part fails.
    """
    results: list[Answer | Error] = []
    failures = 0
    parts = _parts(requests)
    for part in parts:
        try:
            answers = await send(part)
            if len(answers) != len(part):
                text = f"{len(answers)} answers for {len(part)} items"
                raise Error(grpc.StatusCode.INTERNAL, text, reason="ANSWER_UNREADABLE")
            results.extend(answers)
        except Error as error:
            failures += 1
            if failures == len(parts):
                raise
            results.extend([error] * len(part))
    return results


class Bulk:
    """The bulk calls of a connection."""

    def __init__(self, caller: Caller, keeper: Keeper) -> None:
        self._caller = caller
        self._keeper = keeper

    async def admit(
        self, items: Sequence[AdmitItem], keep: bool
    ) -> list[Permit | Refusal | Error]:
        """Admits several tasks."""
        requests = [
            build(
                pb.AdmitTaskRequest,
                pool=item.pool,
                device_id=item.device,
                task_id=item.task,
                lease_duration=to_duration(item.lease, "lease_duration"),
            )
            for item in items
        ]

        async def send(
            part: list[pb.AdmitTaskRequest],
        ) -> list[tuple[float, pb.AdmitTaskResponse] | Error]:
            before, answer = await self._caller.timed(
                methods.ADMIT_TASKS, build(pb.AdmitTasksRequest, requests=part)
            )
            return [
                _error(r.error) if r.HasField("error") else (before, r.response)
                for r in answer.results
            ]

        decided: list[tuple[float, pb.AdmitTaskResponse] | Error] = await _in_parts(requests, send)
        return [
            result if isinstance(result, Error) else self._read(item, *result, keep)
            for item, result in zip(items, decided, strict=True)
        ]

    def _read(
        self, item: AdmitItem, before: float, answer: pb.AdmitTaskResponse, keep: bool
    ) -> Permit | Refusal | Error:
        if answer.decision != pb.ADMIT_DECISION_ADMITTED:
            try:
                return refusal(answer)
            except Error as unknown:
                return unknown
        duration = None if item.lease is None else to_seconds(item.lease, "lease_duration")
        return Permit(
            self._caller,
            self._keeper,
            answer,
            before,
            duration=duration,
            keep=keep,
            asked=item.task,
        )

    async def complete(self, items: Sequence[CompleteItem]) -> list[CompleteVerdict | Error]:
        """Reports several results."""
        requests = [
            build(
                pb.CompleteTaskRequest,
                pool=item.pool,
                device_id=item.device,
                task_id=item.task,
                fencing_token=item.token,
                outcome=f"OUTCOME_{item.outcome.name}",
                result=item.result,
            )
            for item in items
        ]

        async def send(part: list[pb.CompleteTaskRequest]) -> list[CompleteVerdict | Error]:
            answer = await self._caller.call(
                methods.COMPLETE_TASKS, build(pb.CompleteTasksRequest, requests=part)
            )
            return [
                _error(r.error) if r.HasField("error") else CompleteVerdict.of(r.response.verdict)
                for r in answer.results
            ]

        return await _in_parts(requests, send)

    async def renew(self, items: Sequence[RenewItem]) -> list[Renewal | Error]:
        """Extends several leases."""
        requests = [
            build(
                pb.RenewTaskRequest,
                pool=item.pool,
                device_id=item.device,
                task_id=item.task,
                fencing_token=item.token,
                lease_duration=to_duration(item.lease, "lease_duration"),
            )
            for item in items
        ]

        async def send(part: list[pb.RenewTaskRequest]) -> list[Renewal | Error]:
            answer = await self._caller.call(
                methods.RENEW_TASKS, build(pb.RenewTasksRequest, requests=part)
            )
            return [
                _error(r.error)
                if r.HasField("error")
                else Renewal(
                    RenewVerdict.of(r.response.verdict),
                    r.response.lease.expires_in.ToTimedelta(),
                )
                for r in answer.results
            ]

        return await _in_parts(requests, send)
