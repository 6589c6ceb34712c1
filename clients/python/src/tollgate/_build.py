"""Makes the messages of requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from tollgate.errors import ArgumentError

Message = TypeVar("Message")
Fields = ParamSpec("Fields")


def build(
    kind: Callable[Fields, Message], *positional: Fields.args, **fields: Fields.kwargs
) -> Message:
    """Makes a message of a kind.

    Raises ArgumentError for a value that a message cannot hold, such as a text with a lone
    surrogate or a number that is out of range.
    """
    try:
        return kind(*positional, **fields)
    except ValueError as error:
        bad = [field for field, value in fields.items() if _fails(kind, field, value)]
        raise ArgumentError(*bad, expected=str(error)) from None


def _fails(kind: Callable[..., object], field: str, value: object) -> bool:
    try:
        kind(**{field: value})
    except ValueError:
        return True
    return False
