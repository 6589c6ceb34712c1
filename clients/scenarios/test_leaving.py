"""Leaving a scope, and giving a lease up, while no server answers."""

from harness.paths import eventually


def recover(proxy):
    """Ends a stall. Requests that were sent during it are lost."""
    proxy.cut()
    proxy.flow()


def test_j8_validity_ends_with_the_lease_while_a_result_is_reported(faulty, proxy, observer, name):
    observer.configure(name, capacity=1)
    faulty.admit(handle="a", pool=name, device="d-1", task="t-1", lease=2)
    proxy.stall()
    call = faulty.send("complete", handle="a")
    observer.admit_after_wait(name, "d-2")
    permit = faulty.permit(handle="a")
    assert permit["valid"] is False and permit["valid_for"] == 0
    proxy.flow()
    assert call.result()["verdict"] in ("LATE", "ALREADY_COMPLETED")


def test_j8_validity_ends_with_the_lease_while_a_lock_is_released(faulty, proxy, observer, name):
    faulty.lock(handle="a", name=name, owner="one", lease=2)
    proxy.stall()
    call = faulty.send("unlock", handle="a")
    observer.acquire(name, "two")
    lock = faulty.lock_state(handle="a")
    assert lock["valid"] is False and lock["valid_for"] == 0
    proxy.flow()
    eventually(lambda: call.done, "the release ends")
    assert observer.lock(name).lease.owner == "two"


def test_j9_leaving_a_permit_with_an_error_does_not_wait_for_a_server(faulty, proxy, observer, name):
    """The scope ends with the error of its body; the task is completed once a server answers."""
    faulty.admit(handle="a", pool=name, device="d-1", task="t-1", lease=300)
    proxy.stall()
    assert faulty.leave(handle="a", failed=True)["delivered"] is True
    assert observer.in_use(name) == 1
    recover(proxy)
    eventually(lambda: observer.in_use(name) == 0, "the task is completed")
    assert [event["outcome"] for event in observer.events(name, "COMPLETED")] == ["FAILED"]
    assert faulty.permit(handle="a")["valid"] is False


def test_j9_leaving_a_lock_does_not_wait_for_a_server(faulty, proxy, observer, name):
    faulty.lock(handle="a", name=name, lease=300)
    proxy.stall()
    assert faulty.leave_lock(handle="a", failed=True)["delivered"] is True
    assert observer.lock(name).held is True
    recover(proxy)
    eventually(lambda: not observer.lock(name).held, "the lock is released")


def test_j9_leaving_a_reservation_does_not_wait_for_a_server(faulty, proxy, observer, name):
    observer.set_stock(name, 5)
    faulty.reserve(handle="a", sku=name, order="o-1", quantity="2", hold=300)
    proxy.stall()
    assert faulty.leave_reservation(handle="a", confirm=False, failed=True)["delivered"] is True
    assert observer.stock(name) == (3, 2, 0)
    recover(proxy)
    eventually(lambda: observer.stock(name) == (5, 0, 0), "the reservation is cancelled")


def test_j9_leaving_scopes_while_a_server_answers(client, observer, name):
    observer.set_stock(name, 5)
    client.admit(handle="p", pool=name, device="d-1", task="t-1", lease=300)
    client.lock(handle="l", name=name, lease=300)
    client.reserve(handle="r", sku=name, order="o-1", quantity="2", hold=300)
    assert client.leave(handle="p", failed=True)["delivered"] is True
    assert observer.in_use(name) == 0
    assert client.leave_lock(handle="l", failed=True)["delivered"] is True
    assert client.leave_reservation(handle="r", confirm=False, failed=True)["delivered"] is True
    eventually(lambda: not observer.lock(name).held, "the lock is released")
    eventually(lambda: observer.stock(name) == (5, 0, 0), "the reservation is cancelled")
