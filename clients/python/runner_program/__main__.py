"""Reads commands from standard input, and writes answers and events to standard output."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import threading
import traceback

from runner_program import load, locks, pools, rates, stocks, watches
from runner_program.state import Answer, Command, Fields, State, error_fields, plain_error
from tollgate import Error

COMMANDS: dict[str, Command] = {}
for module in (load, locks, pools, rates, stocks, watches):
    COMMANDS.update(module.COMMANDS)


class Runner:
    def __init__(self) -> None:
        self.state = State(self.write)
        self.running: dict[object, asyncio.Task[Answer]] = {}

    def write(self, message: Fields) -> None:
        sys.stdout.write(json.dumps(message, ensure_ascii=False) + "\n")
        sys.stdout.flush()

    async def play(self, fields: Fields) -> None:
        number = fields.get("id")
        try:
            task = self.running[number] = asyncio.ensure_future(self.perform(fields))
            self.write({"id": number, "answer": await task})
        except Error as error:
            self.write({"id": number, "error": error_fields(error)})
        except asyncio.CancelledError:
            message = "the command was cancelled"
            self.write({"id": number, "error": plain_error("CANCELLED", message)})
        except Exception as error:
            traceback.print_exc()
            self.write({"id": number, "error": plain_error("RUNNER", repr(error))})
        finally:
            self.running.pop(number, None)

    async def perform(self, fields: Fields) -> Answer:
        if fields["do"] == "cancel":
            target = self.running.get(fields["target"])
            if target is not None:
                target.cancel()
            return {}
        return await COMMANDS[fields["do"]](self.state, fields)

    async def run(self) -> None:
        lines: asyncio.Queue[str] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def read() -> None:
            for line in sys.stdin:
                loop.call_soon_threadsafe(lines.put_nowait, line)
            loop.call_soon_threadsafe(lines.put_nowait, "")

        threading.Thread(target=read, daemon=True).start()
        players: set[asyncio.Task[None]] = set()
        while line := await lines.get():
            if not line.strip():
                continue
            fields = json.loads(line)
            if fields["do"] == "quit":
                self.write({"id": fields.get("id"), "answer": {}})
                break
            player = asyncio.create_task(self.play(fields))
            players.add(player)
            player.add_done_callback(players.discard)


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    asyncio.run(Runner().run())
    sys.stdout.flush()
    os._exit(0)
