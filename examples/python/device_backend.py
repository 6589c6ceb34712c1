"""A device backend that asks Tollgate before each task of its devices.

The pool lets a few tasks run at once; the other devices wait. Every call has a
deadline, and a call without an answer is repeated unchanged.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import grpc
from google.protobuf.message import Message

sys.path.insert(0, str(Path(__file__).parent / "generated"))
from tollgate.v1 import admission_pb2 as pb  # noqa: E402
from tollgate.v1.admission_pb2_grpc import AdmissionServiceStub  # noqa: E402

Response = TypeVar("Response")

DEADLINE = 1.0  # seconds a call may take
ATTEMPTS = 10  # tries of one call
LEASE = timedelta(seconds=2)
SHORT, LONG = 0.2, 2.5  # seconds of work; the long one outlives its first lease

REPEATED = (
    grpc.StatusCode.UNAVAILABLE,  # no server, no store, or a broken connection
    grpc.StatusCode.DEADLINE_EXCEEDED,  # may have been executed
    grpc.StatusCode.RESOURCE_EXHAUSTED,  # the server is busy
)
RECORDED = (
    pb.COMPLETE_VERDICT_COMPLETED,
    pb.COMPLETE_VERDICT_ALREADY_COMPLETED,  # recorded by an earlier attempt of this call
    pb.COMPLETE_VERDICT_LATE,  # the lease had ended, the result counts
)


async def call(method: Callable[..., Awaitable[Response]], request: Message) -> Response:
    """Calls Tollgate; repeats the call on the status codes in REPEATED."""
    attempt = 1
    while True:
        try:
            return await method(request, timeout=DEADLINE)
        except grpc.aio.AioRpcError as error:
            if error.code() not in REPEATED or attempt == ATTEMPTS:
                raise
        await asyncio.sleep(random.uniform(0, min(0.1 * 2**attempt, 2)))
        attempt += 1


class Backend:
    """Runs the tasks of its devices in one pool."""

    def __init__(self, stub: AdmissionServiceStub, pool: str) -> None:
        self.stub = stub
        self.pool = pool
        self.answers: Counter[str] = Counter()
        self.most_in_use = 0

    async def run_device(self, device: str, tasks: int) -> None:
        """Runs the tasks of a device in sequence; the last one is long."""
        for number in range(1, tasks + 1):
            await self.run_task(device, f"task-{number}", LONG if number == tasks else SHORT)

    async def run_task(self, device: str, task: str, seconds: float) -> None:
        """Runs a task until its result is recorded."""
        name = {"pool": self.pool, "device_id": device, "task_id": task}
        while True:
            request = pb.AdmitTaskRequest(**name, lease_duration=LEASE)
            admission = await call(self.stub.AdmitTask, request)
            self.note(name, pb.AdmitDecision.Name(admission.decision))
            self.most_in_use = max(self.most_in_use, admission.usage.in_use)
            if admission.decision == pb.ADMIT_DECISION_ALREADY_COMPLETED:
                return
            if admission.decision != pb.ADMIT_DECISION_ADMITTED:  # FULL or PAUSED
                await asyncio.sleep(admission.retry_after.ToTimedelta().total_seconds())
                continue

            token = admission.lease.fencing_token
            if not await self.work(name, token, seconds):
                continue  # the lease is lost, so ask again
            result = pb.CompleteTaskRequest(**name, fencing_token=token, result=b"done")
            completion = await call(self.stub.CompleteTask, result)
            self.note(name, pb.CompleteVerdict.Name(completion.verdict))
            if completion.verdict in RECORDED:
                return
            # STALE_TOKEN or UNKNOWN: nothing was recorded, so ask again.

    async def work(self, name: dict[str, str], token: int, seconds: float) -> bool:
        """Works, and renews the lease after each third of it. Returns False if it is lost.

        A real backend passes the token to the external system, which can then refuse
        a device whose lease has ended.
        """
        pause = LEASE.total_seconds() / 3
        while seconds > pause:
            await asyncio.sleep(pause)
            seconds -= pause
            request = pb.RenewTaskRequest(**name, fencing_token=token, lease_duration=LEASE)
            renewal = await call(self.stub.RenewTask, request)
            self.note(name, pb.RenewVerdict.Name(renewal.verdict))
            if renewal.verdict != pb.RENEW_VERDICT_RENEWED:
                return False
        await asyncio.sleep(seconds)
        return True

    def note(self, name: dict[str, str], answer: str) -> None:
        """Prints an answer without the prefix of its enum, and counts it."""
        answer = answer.split("_", 2)[2]
        self.answers[answer] += 1
        print(f"{name['device_id']} {name['task_id']}: {answer}", flush=True)


async def run(arguments: argparse.Namespace) -> None:
    """Runs all tasks of all devices, then prints a summary."""
    options = [("grpc.max_reconnect_backoff_ms", 1000)]
    async with grpc.aio.insecure_channel(arguments.server, options) as channel:
        stub = AdmissionServiceStub(channel)
        settings = pb.ConfigurePoolRequest(pool=arguments.pool, capacity=arguments.capacity)
        await call(stub.ConfigurePool, settings)
        backend = Backend(stub, arguments.pool)
        devices = [f"device-{number}" for number in range(1, arguments.devices + 1)]
        await asyncio.gather(*(backend.run_device(d, arguments.tasks) for d in devices))

    counts = (f"{count} {answer}" for answer, count in sorted(backend.answers.items()))
    print("\nanswers:", ", ".join(counts))
    print(f"at most {backend.most_in_use} of {arguments.capacity} slots were in use")
    print(f"all {arguments.tasks} tasks of {arguments.devices} devices are done")


def main() -> int:
    """Reads the command line. Returns 0 if all tasks are done."""
    parser = argparse.ArgumentParser(description="Runs tasks of devices, admitted by Tollgate.")
    parser.add_argument("--server", default="127.0.0.1:50051", help="default: %(default)s")
    parser.add_argument("--pool", default="python-example", help="default: %(default)s")
    parser.add_argument("--devices", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--tasks", type=int, default=2, help="of each device; default: %(default)s")
    parser.add_argument("--capacity", type=int, default=2, help="slots; default: %(default)s")
    try:
        asyncio.run(run(parser.parse_args()))
    except grpc.aio.AioRpcError as error:
        print(f"device_backend: {error.code().name}: {error.details()}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
