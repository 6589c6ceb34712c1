"""A storage that refuses the fencing token of an earlier lock holder.

A lock alone does not prevent late writes. A holder may stall just before a write (a
paused process, a slow network) for longer than its lease, and then write as if it still
held the lock. The storage keeps the greatest token that it has seen, and refuses a smaller
one in the statement that writes.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

from tollgate import Error, Held, blocking

LEASE = 1.0  # seconds
WAIT = 30.0  # seconds

SCHEMA = """
CREATE TABLE IF NOT EXISTS account (
    name TEXT PRIMARY KEY,
    balance INTEGER NOT NULL,
    fencing_token INTEGER NOT NULL DEFAULT 0  -- the greatest one seen
)
"""


class Refused(Exception):  # noqa: N818
    """The token is below the greatest one seen: the lock has a later holder."""


class Storage:
    """Accounts in an SQLite file, each guarded by the lock of its name."""

    def __init__(self, path: Path) -> None:
        # IMMEDIATE: a transaction takes SQLite's write lock at its start.
        self.database = sqlite3.connect(path, isolation_level="IMMEDIATE", timeout=30)
        self.database.execute(SCHEMA)

    def close(self) -> None:
        """Closes the file."""
        self.database.close()

    def open_account(self, name: str, balance: int) -> None:
        """Creates an account."""
        with self.database:
            self.database.execute(
                "INSERT INTO account (name, balance) VALUES (?, ?)", (name, balance)
            )

    def read(self, name: str, token: int) -> int:
        """Reads as a holder, and raises the stored token.

        Otherwise an earlier holder could still write between this read and the write
        that depends on it.
        """
        with self.database:  # one transaction: committed as a whole, or not at all
            raised = self.database.execute(
                "UPDATE account SET fencing_token = :token"
                " WHERE name = :name AND fencing_token <= :token",
                {"name": name, "token": token},
            )
            if raised.rowcount != 1:
                raise Refused
            query = self.database.execute("SELECT balance FROM account WHERE name = ?", (name,))
            balance: int = query.fetchone()[0]
            return balance

    def write(self, name: str, balance: int, token: int) -> None:
        """Writes as a holder. The check and the write are one statement."""
        with self.database:
            written = self.database.execute(
                "UPDATE account SET balance = :balance, fencing_token = :token"
                " WHERE name = :name AND fencing_token <= :token",
                {"name": name, "balance": balance, "token": token},
            )
            if written.rowcount != 1:
                raise Refused


class Holder:
    """A competitor for the lock of an account."""

    def __init__(self, owner: str, lock: blocking.Lock, path: Path) -> None:
        self.owner = owner
        self.lock = lock
        self.storage = Storage(path)
        self.lease: blocking.LockLease | None = None

    def acquire(self) -> None:
        """Waits for the lock; waiters get it in order of arrival.

        A holder that stalls does not renew its lease, so no keeper runs here.
        """
        answer = self.lock.acquire(owner=self.owner, wait=WAIT, lease=LEASE, keep=False)
        if isinstance(answer, Held):
            raise TimeoutError(f"{answer.holder} holds {self.lock.name}")
        self.say("ACQUIRED")
        self.lease = answer

    @property
    def token(self) -> int:
        """The fencing token of the last lease."""
        return 0 if self.lease is None else self.lease.token

    def read(self) -> int:
        """Reads the balance."""
        balance = self.storage.read(self.lock.name, self.token)
        self.say(f"reads {balance}")
        return balance

    def write(self, balance: int) -> bool:
        """Writes the balance. Returns False if the storage refuses the token."""
        try:
            self.storage.write(self.lock.name, balance, self.token)
        except Refused:
            self.say(f"writes {balance}: refused, a later holder was here")
            return False
        self.say(f"writes {balance}")
        return True

    def release(self) -> None:
        """Releases the lock. The token ensures that it ends only its own lease."""
        if self.lease is not None:
            self.say(self.lease.release().name)

    def say(self, text: str) -> None:
        """Prints a step immediately."""
        print(f"{self.owner}: {text}", flush=True)


def run(lock: blocking.Lock, path: Path) -> bool:
    """Lets a holder stall beyond its lease. Returns True if the other write is kept."""
    slow, fast = (Holder(owner, lock, path) for owner in ("slow", "fast"))
    slow.storage.open_account(lock.name, 100)

    slow.acquire()
    before = slow.read()
    slow.say("stalls beyond its lease")
    time.sleep(LEASE)

    fast.acquire()
    fast.write(fast.read() + 50)
    fast.release()

    refused = not slow.write(before - 30)  # unaware that its lease has ended
    slow.release()

    fast.acquire()
    balance = fast.read()
    fast.release()
    for holder in (slow, fast):
        holder.storage.close()
    return refused and balance == 150


def main() -> int:
    """Reads the command line. Returns 0 if the late write was refused."""
    parser = argparse.ArgumentParser(description="Guards a storage by fencing tokens.")
    parser.add_argument("--server", default="127.0.0.1:50051", help="default: %(default)s")
    parser.add_argument("--account", default="account:17", help="default: %(default)s")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        blocking.Connection(arguments.server) as tollgate,
    ):
        try:
            kept = run(tollgate.lock(arguments.account), Path(folder) / "bank.db")
        except (Error, TimeoutError) as error:
            print(f"fenced_storage: {error}", file=sys.stderr)
            return 1
    print("nothing was lost" if kept else "a write was lost")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
