"""The status of a refused call of a gRPC server."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import code_pb2, error_details_pb2, status_pb2

from tollgate.rates import RateAnswer

Key = Callable[[grpc.HandlerCallDetails], str | None]
"""Returns the key of a call; None or an empty key: the call is not checked."""

MESSAGE = "the caller has reached its rate"


def metadata_key(name: str) -> Key:
    """Returns a function that takes the key from the metadata `name` of the call."""

    def key(details: Any) -> str | None:
        for found, value in details.invocation_metadata or ():
            if found == name:
                return value if isinstance(value, str) else value.decode()
        return None

    return key


def trailers(answer: RateAnswer) -> tuple[tuple[str, str | bytes], ...]:
    """Returns RetryInfo and the RateLimit headers as trailing metadata."""
    info = error_details_pb2.RetryInfo()
    info.retry_delay.FromTimedelta(answer.retry_after or timedelta(seconds=1))
    detail = AnyMessage()
    detail.Pack(info)
    status = status_pb2.Status(code=code_pb2.RESOURCE_EXHAUSTED, message=MESSAGE, details=[detail])
    return (
        ("grpc-status-details-bin", status.SerializeToString()),
        *answer.headers().items(),
    )


def replace(handler: Any, wrap: Callable[[Any], Any], stream: Callable[[Any], Any]) -> Any:
    """Returns the handler with its function wrapped; `stream` wraps one that streams answers."""
    if handler.response_streaming:
        function = handler.stream_stream or handler.unary_stream
        make = (
            grpc.stream_stream_rpc_method_handler
            if handler.request_streaming
            else grpc.unary_stream_rpc_method_handler
        )
        return make(stream(function), handler.request_deserializer, handler.response_serializer)
    function = handler.stream_unary or handler.unary_unary
    make = (
        grpc.stream_unary_rpc_method_handler
        if handler.request_streaming
        else grpc.unary_unary_rpc_method_handler
    )
    return make(wrap(function), handler.request_deserializer, handler.response_serializer)
