"""A gRPC server whose answers the test chooses."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from tollgate import _methods as methods

Step = Message | grpc.StatusCode | tuple[grpc.StatusCode, tuple[tuple[str, bytes], ...]] | None
"""An answer, a status, a status with details, or None: no answer until the deadline."""


def retry_info(code: grpc.StatusCode, seconds: float, reason: str = "") -> Any:
    """Returns a status with RetryInfo, and with ErrorInfo if there is a reason."""
    delay = Duration()
    delay.FromNanoseconds(int(seconds * 1e9))
    details: list[Message] = [error_details_pb2.RetryInfo(retry_delay=delay)]
    if reason:
        details.append(error_details_pb2.ErrorInfo(reason=reason, domain="tollgate"))
    return with_details(code, *details)


def with_details(code: grpc.StatusCode, *details: Message) -> Any:
    packed = []
    for detail in details:
        any_message = AnyMessage()
        any_message.Pack(detail)
        packed.append(any_message)
    status = status_pb2.Status(code=code.value[0], message="chosen", details=packed)
    return code, (("grpc-status-details-bin", status.SerializeToString()),)


class FakeServer(grpc.GenericRpcHandler):  # type: ignore[misc,unused-ignore]
    """Plays the steps of each method in order; the last step repeats."""

    def __init__(self) -> None:
        self.steps: dict[str, deque[Step]] = {}
        self.requests: list[Any] = []
        self.metadata: list[dict[str, str]] = []
        self.on_request: Callable[[], Awaitable[None]] | None = None
        self.port = 0
        self._server = grpc.aio.server()
        self._methods = {m.path: m for m in vars(methods).values() if hasattr(m, "path")}

    def play(self, method: methods.Method[Any, Any], *steps: Step) -> None:
        self.steps[method.path] = deque(steps)

    def service(self, handler_call_details: Any) -> Any:
        method = self._methods.get(handler_call_details.method)
        if method is None or method.path not in self.steps:
            return None
        steps = self.steps[method.path]

        async def answer(request: Any, context: Any) -> Any:
            self.requests.append(request)
            self.metadata.append(dict(handler_call_details.invocation_metadata))
            if self.on_request is not None:
                await self.on_request()
            step = steps.popleft() if len(steps) > 1 else steps[0]
            if isinstance(step, Message):
                return step
            if step is None:
                await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "chosen")
            elif isinstance(step, tuple):
                await context.abort(step[0], "chosen", step[1])
            else:
                await context.abort(step, "chosen")
            return None

        return grpc.unary_unary_rpc_method_handler(
            answer, method.request.FromString, method.response.SerializeToString
        )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> FakeServer:
        self._server.add_generic_rpc_handlers((self,))
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._server.stop(None)
