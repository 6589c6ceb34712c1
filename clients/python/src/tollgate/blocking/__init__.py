"""The client for threads. It runs `tollgate.aio` on one background thread."""

from tollgate.aio.bulk import AdmitItem, CompleteItem, Renewal, RenewItem
from tollgate.blocking.connection import Connection
from tollgate.blocking.lock import Lock, LockLease
from tollgate.blocking.permit import Permit
from tollgate.blocking.pool import Pool
from tollgate.blocking.rate import RateLimiter
from tollgate.blocking.sequence import Allocator, Sequence
from tollgate.blocking.stock import Reservation, StockItem
from tollgate.blocking.watch import Watch
from tollgate.blocking.worker import Handler, Worker

__all__ = [
    "AdmitItem",
    "Allocator",
    "CompleteItem",
    "Connection",
    "Handler",
    "Lock",
    "LockLease",
    "Permit",
    "Pool",
    "RateLimiter",
    "RenewItem",
    "Renewal",
    "Reservation",
    "Sequence",
    "StockItem",
    "Watch",
    "Worker",
]
