"""The client for asyncio."""

from tollgate.aio.bulk import AdmitItem, CompleteItem, Renewal, RenewItem
from tollgate.aio.connection import Connection
from tollgate.aio.lock import Lock, LockLease
from tollgate.aio.permit import Permit
from tollgate.aio.pool import Pool
from tollgate.aio.rate import OnFailure, RateLimiter
from tollgate.aio.sequence import Allocator, Sequence
from tollgate.aio.stock import Reservation, StockItem
from tollgate.aio.watch import PoolWatch, RateWatch
from tollgate.aio.worker import Handler, Worker

__all__ = [
    "AdmitItem",
    "Allocator",
    "CompleteItem",
    "Connection",
    "Handler",
    "Lock",
    "LockLease",
    "OnFailure",
    "Permit",
    "Pool",
    "PoolWatch",
    "RateLimiter",
    "RateWatch",
    "RenewItem",
    "Renewal",
    "Reservation",
    "Sequence",
    "StockItem",
    "Worker",
]
