"""The load of load.sh: permits that are held by one process, and pairs of calls.

Prints a row of a table. Exits with 1 if a permit was lost or memory leaks.
"""

import argparse
import statistics
import sys
import time
import uuid

from .observer import Observer
from .runner import Client, Runner
from .server import Server

HEADER = ("| library | permits | renewals a second | CPU per 1,000 calls | memory a permit | lost "
          "| pairs a second | CPU per 1,000 pairs | memory after them | growth per pair |\n"
          "|---|---|---|---|---|---|---|---|---|---|")
ROUNDS = 10
# Bytes a pair by which the memory of late rounds exceeds that of earlier ones, if it leaks.
LEAK = 300


def hold(client, pool, options) -> dict:
    """Holds permits for a while and returns what that costs."""
    client.send("pairs", pool=f"{pool}-warm", count=1000, parallel=20).result(600)
    empty = client.usage()
    answer = client.send("hold", handle="h", pool=pool, count=options.permits,
                         lease=options.lease).result(600)
    assert answer["admitted"] == options.permits, answer
    before = client.usage()
    started = time.monotonic()
    time.sleep(options.seconds)
    after = client.usage()
    passed = time.monotonic() - started
    held = client.held(handle="h")
    client.send("release", handle="h").result(600)
    calls = after["calls"] - before["calls"]
    return {
        "calls": calls, "rate": calls / passed,
        "cpu": (after["cpu_seconds"] - before["cpu_seconds"]) * 1000 / max(calls, 1),
        "memory": (after["rss_bytes"] - empty["rss_bytes"]) / options.permits,
        "lost": options.permits - held["valid"],
    }


def pairs(client, pool, options) -> dict:
    """Admits and completes tasks, and returns the speed and the growth of memory.

    The growth compares late rounds with those after the warm-up.
    """
    count = options.pairs // ROUNDS
    memory = []
    before = client.usage()
    started = time.monotonic()
    for number in range(ROUNDS):
        # A new pool, because the names of the tasks may be the same in each round.
        answer = client.send("pairs", pool=f"{pool}-{number}", count=count, parallel=32).result(1800)
        assert answer["completed"] == count, answer
        after = client.usage()
        memory.append(after["rss_bytes"])
    passed = time.monotonic() - started
    cpu = (after["cpu_seconds"] - before["cpu_seconds"]) * 1000 / (count * ROUNDS)
    growth = (statistics.median(memory[7:]) - statistics.median(memory[3:6])) / (4 * count)
    return {"rate": count * ROUNDS / passed, "cpu": cpu, "memory": memory[-1], "growth": growth}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("language")
    parser.add_argument("--permits", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--lease", type=float, default=15)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--header", action="store_true", help="print the header of the table")
    options = parser.parse_args()
    if options.header:
        print(HEADER, flush=True)
    server = Server()
    observer = Observer(server.address)
    runner = Runner(options.language)
    try:
        pool = f"load:{uuid.uuid4().hex[:8]}"
        observer.configure(pool, capacity=options.permits + 100)
        client = Client(runner, server.address, deadline=10)
        held = hold(client, pool, options)
        paired = pairs(client, pool, options)
    finally:
        runner.close()
        observer.close()
        server.close()
    print(f"| {options.language} | {options.permits:,} | {held['rate']:,.0f} "
          f"| {held['cpu']:.2f} s | {held['memory'] / 1000:.1f} KB | {held['lost']} "
          f"| {paired['rate']:,.0f} | {paired['cpu']:.2f} s | {paired['memory'] / 1e6:.0f} MB "
          f"| {paired['growth']:.0f} B |", flush=True)
    if held["lost"]:
        print(f"{options.language}: {held['lost']} permits were lost", file=sys.stderr)
    leaks = paired["growth"] > LEAK
    if leaks:
        print(f"{options.language}: memory grows with each pair", file=sys.stderr)
    return 1 if held["lost"] or leaks else 0


if __name__ == "__main__":
    sys.exit(main())
