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
from datetime import timedelta
from pathlib import Path

import grpc

sys.path.insert(0, str(Path(__file__).parent / "generated"))
from tollgate.v1 import lock_pb2 as pb  # noqa: E402
from tollgate.v1.lock_pb2_grpc import LockServiceStub  # noqa: E402

DEADLINE = 5.0  # seconds a call may take, in addition to max_wait
LEASE = timedelta(seconds=1)
MAX_WAIT = timedelta(seconds=30)

SCHEMA = """
CREATE TABLE IF NOT EXISTS account (
    name TEXT PRIMARY KEY,
    balance INTEGER NOT NULL,
    fencing_token INTEGER NOT NULL DEFAULT 0  -- the greatest one seen
)
"""


class Refused(Exception):
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
            return query.fetchone()[0]

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

    def __init__(self, owner: str, stub: LockServiceStub, path: Path, account: str) -> None:
        self.owner = owner
        self.stub = stub
        self.storage = Storage(path)
        self.account = account
        self.token = 0

    def acquire(self) -> None:
        """Waits for the lock; waiters get it in order of arrival."""
        request = pb.AcquireLockRequest(
            name=self.account, owner=self.owner, lease_duration=LEASE, max_wait=MAX_WAIT
        )
        answer = self.stub.AcquireLock(request, timeout=DEADLINE + MAX_WAIT.total_seconds())
        self.say(pb.AcquireLockOutcome.Name(answer.outcome).removeprefix("ACQUIRE_LOCK_OUTCOME_"))
        if answer.outcome != pb.ACQUIRE_LOCK_OUTCOME_ACQUIRED:
            raise TimeoutError(f"{answer.holder} holds {self.account}")
        self.token = answer.lease.fencing_token

    def read(self) -> int:
        """Reads the balance."""
        balance = self.storage.read(self.account, self.token)
        self.say(f"reads {balance}")
        return balance

    def write(self, balance: int) -> bool:
        """Writes the balance. Returns False if the storage refuses the token."""
        try:
            self.storage.write(self.account, balance, self.token)
        except Refused:
            self.say(f"writes {balance}: refused, a later holder was here")
            return False
        self.say(f"writes {balance}")
        return True

    def release(self) -> None:
        """Releases the lock. The token ensures that it ends only its own lease."""
        request = pb.ReleaseLockRequest(
            name=self.account, owner=self.owner, fencing_token=self.token
        )
        answer = self.stub.ReleaseLock(request, timeout=DEADLINE)
        self.say(pb.ReleaseLockOutcome.Name(answer.outcome).removeprefix("RELEASE_LOCK_OUTCOME_"))

    def say(self, text: str) -> None:
        """Prints a step at once."""
        print(f"{self.owner}: {text}", flush=True)


def run(stub: LockServiceStub, path: Path, account: str) -> bool:
    """Lets a holder stall beyond its lease. Returns True if the other write is kept."""
    slow, fast = (Holder(owner, stub, path, account) for owner in ("slow", "fast"))
    slow.storage.open_account(account, 100)

    slow.acquire()
    before = slow.read()
    slow.say("stalls beyond its lease")
    time.sleep(LEASE.total_seconds())

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
        grpc.insecure_channel(arguments.server) as channel,
    ):
        try:
            kept = run(LockServiceStub(channel), Path(folder) / "bank.db", arguments.account)
        except grpc.RpcError as error:
            print(f"fenced_storage: {error.code().name}: {error.details()}", file=sys.stderr)
            return 1
        except TimeoutError as error:
            print(f"fenced_storage: {error}", file=sys.stderr)
            return 1
    print("nothing was lost" if kept else "a write was lost")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
