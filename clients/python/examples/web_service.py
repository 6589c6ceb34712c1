"""A web service that limits the rate of each caller.

Usage: TOLLGATE=ADDRESS uvicorn web_service:app
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tollgate import Limit, Rule, aio
from tollgate.middleware import RateLimitMiddleware

tollgate = aio.Connection(os.environ.get("TOLLGATE", "127.0.0.1:50051"), deadline=0.2)
ten_a_minute = Rule(limits=(Limit(max=10, window=timedelta(minutes=1), name="minute"),))


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """Closes the connection at the end."""
    async with tollgate:
        yield


async def hello(request: Request) -> PlainTextResponse:
    """Greets the caller."""
    return PlainTextResponse("hello\n")


app = Starlette(routes=[Route("/", hello)], lifespan=lifespan)
# If Tollgate fails, requests pass: on_failure="closed" would refuse them.
app.add_middleware(RateLimitMiddleware, limiter=tollgate.rate(ten_a_minute, on_failure="open"))
