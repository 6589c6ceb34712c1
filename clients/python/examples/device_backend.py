"""A backend that asks Tollgate before each task of its devices.

Usage: python device_backend.py ADDRESS
"""

import asyncio
import sys

from tollgate import AlreadyCompleted, LeaseLost, aio

POOL, DEVICES, TASKS = "ar:0572", 3, 2


async def work(token: int) -> bytes:
    """Runs the task. The external system refuses a token below the highest one it has seen."""
    await asyncio.sleep(0.2)
    return b"done"


async def run_task(pool: aio.Pool, device: str, task: str) -> None:
    """Runs a task until its result is recorded."""
    while True:
        answer = await pool.admit(device, task, wait=5)
        if isinstance(answer, AlreadyCompleted):
            return
        if not isinstance(answer, aio.Permit):  # Full or Paused
            pause = 1.0 if answer.retry_after is None else answer.retry_after.total_seconds()
            await asyncio.sleep(pause)
            continue
        try:
            async with answer as permit:  # renewed until the scope ends
                verdict = await permit.complete(result=await work(permit.token))
        except LeaseLost:
            continue  # the task was cancelled; ask again
        print(device, task, verdict, flush=True)
        if verdict.recorded:
            return


async def run_device(pool: aio.Pool, device: str) -> None:
    """Runs the tasks of a device one after the other."""
    for number in range(TASKS):
        await run_task(pool, device, f"task-{number}")


async def main() -> None:
    """Runs all devices."""
    async with aio.Connection(sys.argv[1]) as tollgate:
        pool = tollgate.pool(POOL)
        await asyncio.gather(*(run_device(pool, f"device-{n}") for n in range(DEVICES)))


if __name__ == "__main__":
    asyncio.run(main())
