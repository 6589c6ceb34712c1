"""A device backend that asks Tollgate before each task of its devices.

The pool lets a few tasks run at a time; the other devices wait. The library sets deadlines,
repeats calls, and renews the lease of a running task.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter

from tollgate import AlreadyCompleted, Error, LeaseLost, aio

LEASE = 2.0  # seconds
SHORT, LONG = 0.2, 2.5  # seconds of work; the long one outlives its first lease


class Backend:
    """Runs the tasks of its devices in one pool."""

    def __init__(self, pool: aio.Pool) -> None:
        self.pool = pool
        self.answers: Counter[str] = Counter()
        self.most_in_use = 0

    async def run_device(self, device: str, tasks: int) -> None:
        """Runs the tasks of a device in sequence; the last one is long."""
        for number in range(1, tasks + 1):
            await self.run_task(device, f"task-{number}", LONG if number == tasks else SHORT)

    async def run_task(self, device: str, task: str, seconds: float) -> None:
        """Runs a task until its result is recorded."""
        while True:
            answer = await self.pool.admit(device, task, lease=LEASE)
            if isinstance(answer, AlreadyCompleted):
                self.note(device, task, "ALREADY_COMPLETED")
                return
            if not isinstance(answer, aio.Permit):  # Full or Paused
                self.note(device, task, type(answer).__name__.upper())
                pause = 1.0 if answer.retry_after is None else answer.retry_after.total_seconds()
                await asyncio.sleep(pause)
                continue

            self.note(device, task, "ADMITTED")
            self.most_in_use = max(self.most_in_use, answer.usage.in_use)
            try:
                async with answer as permit:  # renewed until the scope ends
                    result = await self.work(seconds, permit.token)
                    verdict = await permit.complete(result=result)
            except LeaseLost:
                self.note(device, task, "LOST")
                continue  # another device may have the slot, so ask again
            self.note(device, task, verdict.name)
            if verdict.recorded:  # COMPLETED, or LATE: the lease had ended, the result counts
                return
            # STALE_TOKEN or UNKNOWN: nothing was recorded, so ask again.

    async def work(self, seconds: float, token: int) -> bytes:
        """Does the work. It is cancelled if the lease is lost.

        A real backend passes the token to the external system, which can then reject
        a device whose lease has ended.
        """
        await asyncio.sleep(seconds)
        return b"done"

    def note(self, device: str, task: str, answer: str) -> None:
        """Prints an answer and counts it."""
        self.answers[answer] += 1
        print(f"{device} {task}: {answer}", flush=True)


async def run(arguments: argparse.Namespace) -> None:
    """Runs all tasks of all devices, then prints a summary."""
    async with aio.Connection(arguments.server) as tollgate:
        pool = tollgate.pool(arguments.pool)
        await pool.configure(capacity=arguments.capacity)
        backend = Backend(pool)
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
    parser.add_argument("--tasks", type=int, default=2, help="of a device; default: %(default)s")
    parser.add_argument("--capacity", type=int, default=2, help="slots; default: %(default)s")
    try:
        asyncio.run(run(parser.parse_args()))
    except Error as error:
        print(f"device_backend: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
