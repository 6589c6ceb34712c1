from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from tollgate import (
    AlreadyCompleted,
    CompleteVerdict,
    ConfirmOutcome,
    Error,
    Full,
    Held,
    LeaseLost,
    NoTask,
    PoolEventKind,
    QueuedTask,
    ReleaseLockOutcome,
    Short,
)
from tollgate.blocking import (
    AdmitItem,
    CompleteItem,
    Connection,
    LockLease,
    Permit,
    RenewItem,
    Reservation,
    Worker,
)


@pytest.fixture
def tollgate(blocking_connection: Connection) -> Connection:
    return blocking_connection


def test_a_permit(tollgate: Connection, name: str) -> None:
    pool = tollgate.pool(name)
    pool.configure(capacity=1)
    permit = pool.admit("d", "t", lease=30)
    assert isinstance(permit, Permit)
    assert (permit.pool, permit.device, permit.task) == (name, "d", "t")
    assert permit.valid_for > timedelta(seconds=20)
    with permit:
        permit.check()
        assert isinstance(pool.admit("d2", "t", wait=0.1), Full)
        assert permit.complete(result=b"done") is CompleteVerdict.COMPLETED
    assert not permit.valid
    assert not permit.lost.is_set()
    assert isinstance(pool.admit("d", "t"), AlreadyCompleted)
    assert isinstance(pool.poll("d"), NoTask)
    assert [status.pool for status in tollgate.pools() if status.pool == name] == [name]


def test_an_error_completes_as_failed(tollgate: Connection, name: str) -> None:
    pool = tollgate.pool(name)
    permit = pool.admit("d", "t")
    assert isinstance(permit, Permit)
    with pytest.raises(ZeroDivisionError), permit:
        _ = 1 // 0
    assert permit.verdict is CompleteVerdict.COMPLETED
    assert pool.status().usage.in_use == 0


def test_a_loss_sets_the_event(tollgate: Connection, name: str) -> None:
    permit = tollgate.pool(name).admit("d", "t", lease=0.3)
    assert isinstance(permit, Permit)
    called = threading.Event()
    permit.on_lost(called.set)
    tollgate.pool(name).evict("d", "t")
    assert permit.lost.wait(30)
    assert called.wait(30)
    with pytest.raises(LeaseLost):
        permit.check()
    with pytest.raises(LeaseLost):
        permit.__enter__()
    again = threading.Event()
    permit.on_lost(again.set)
    assert again.is_set()


def test_threads_share_a_connection(tollgate: Connection, name: str) -> None:
    allocator = tollgate.sequence(name).allocator(block=7)
    found: list[int] = []

    def work() -> None:
        found.extend(allocator.next().number for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    allocator.close()
    assert len(set(found)) == 200


def test_a_worker(tollgate: Connection, name: str) -> None:
    pool = tollgate.pool(name)
    pool.enqueue([QueuedTask("d", "a", b"1"), QueuedTask("d", "b", b"2")])
    seen: list[bytes] = []

    def handle(permit: Permit) -> bytes | None:
        assert permit.dispatched is not None
        seen.append(permit.dispatched.payload)
        if len(seen) == 2:
            worker.stop()
        return None

    worker = Worker(pool, "d", handle, idle=0.05)
    assert worker.run() == 2
    assert seen == [b"1", b"2"]
    assert list(pool.tasks()) == []


def test_a_lock(tollgate: Connection, name: str) -> None:
    lock = tollgate.lock(name)
    lease = lock.acquire(owner="a")
    assert isinstance(lease, LockLease)
    with lease:
        assert isinstance(lock.acquire(), Held)
        assert lock.holder() == "a"
    assert lock.holder() is None
    second = lock.acquire(wait=1)
    assert isinstance(second, LockLease)
    assert second.release() is ReleaseLockOutcome.RELEASED


def test_stock(tollgate: Connection, name: str) -> None:
    stock = tollgate.stock(name)
    assert stock.set(2).available == 2
    assert stock.add(1).on_hand == 3
    reservation = stock.reserve("o", 2, hold=30)
    assert isinstance(reservation, Reservation)
    with reservation:
        assert reservation.confirm() is ConfirmOutcome.CONFIRMED
    assert isinstance(stock.reserve("p", 2), Short)
    cancelled = stock.reserve("q", 1)
    assert isinstance(cancelled, Reservation)
    with cancelled:
        pass
    assert stock.get().available == 1


def test_rates(tollgate: Connection, name: str) -> None:
    limiter = tollgate.rate("two")
    assert [limiter.check(name).allowed for _ in range(3)] == [True, True, False]
    assert limiter.reset(name)
    assert [answer.allowed for answer in limiter.check_many([name])] == [True]
    assert limiter.ban(name, 30).key == name
    assert name in [ban.key for ban in limiter.bans()]
    assert limiter.key(name).strikes == 1
    assert limiter.unban(name)


def test_a_watch_ends_from_another_thread(tollgate: Connection, name: str) -> None:
    pool = tollgate.pool(name)
    pool.configure(capacity=1)
    watch = pool.watch(after="0")
    assert next(watch).kind is PoolEventKind.CONFIGURED
    timer = threading.Timer(0.3, watch.close)
    timer.start()
    assert list(watch) == []
    timer.join()
    assert watch.cursor is not None


def test_bulk_calls(tollgate: Connection, name: str) -> None:
    answers = tollgate.admit_many([AdmitItem(name, f"d-{n}", "t") for n in range(3)])
    permits = [answer for answer in answers if isinstance(answer, Permit)]
    assert len(permits) == 3
    renewals = tollgate.renew_many([RenewItem(name, p.device, "t") for p in permits])
    assert all(not isinstance(r, Error) and r.verdict.name == "RENEWED" for r in renewals)
    verdicts = tollgate.complete_many([CompleteItem(name, p.device, "t") for p in permits])
    assert verdicts == [CompleteVerdict.COMPLETED] * 3
    for permit in permits:
        permit.close()


def test_an_error_has_its_details(tollgate: Connection) -> None:
    with pytest.raises(Error) as raised:
        tollgate.pool("").status()
    assert [violation.field for violation in raised.value.violations] == ["pool"]
